#!/bin/sh
# Installs Tessera's own tools at exact versions into build/peers/tessera: the load tool (hammer), fsck, and the servers it
# measures itself with. `go install` keeps them out of our go.mod.
set -eu
cd "$(dirname "$0")/.."
dir=$PWD/build/peers/tessera
mkdir -p "$dir"
install() { # NAME PACKAGE@VERSION
	if [ -x "$dir/$1" ] && [ "$(cat "$dir/$1.from" 2>/dev/null)" = "$2" ]; then
		echo "have  $1"
		return
	fi
	echo "build $1  ($2)"
	rm -rf "$dir/new"
	CGO_ENABLED=0 GOWORK=off GOFLAGS= GOBIN=$dir/new go install "github.com/transparency-dev/tessera/$2"
	mv "$dir/new/"* "$dir/$1"
	rmdir "$dir/new"
	echo "$2" >"$dir/$1.from"
}
install hammer internal/hammer@v1.0.4
install fsck cmd/fsck@v1.0.4
install conformance-posix cmd/conformance/posix@v1.0.4
# The last version with a MySQL driver; it reads what Holdfast publishes to a database.
install conformance-mysql cmd/conformance/mysql@v1.0.2
# The tables it begins with, for measuring it.
if [ ! -e "$dir/mysql-schema.sql" ]; then
	module=$(cd / && GOWORK=off GOFLAGS= go mod download -json github.com/transparency-dev/tessera@v1.0.2 | sed -n 's/^.*"Dir": "\(.*\)",*$/\1/p')
	cp "$module/storage/mysql/schema.sql" "$dir/mysql-schema.sql"
fi

# A server around the Tessera library with shorter waits than conformance-posix has. It is ours, in a module of its own.
(
	cd bench/tlog/personality
	export CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=readonly
	go vet . && go build -trimpath -buildvcs=false -o "$dir/personality" .
)

# Tessera's integration test, as a test binary.
test=$dir/integration.test stamp='integration@v1.0.4'
if [ ! -x "$test" ] || [ "$(cat "$test.from" 2>/dev/null)" != "$stamp" ]; then
	echo "build integration.test  ($stamp)"
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	(
		cd "$scratch"
		export CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=mod
		go mod init scratch >/dev/null 2>&1
		go get -t "github.com/transparency-dev/tessera/$stamp" >log 2>&1 &&
			go test -c -o "$test.new" github.com/transparency-dev/tessera/integration >>log 2>&1 || { cat log >&2; exit 1; }
	)
	mv "$test.new" "$test"
	echo "$stamp" >"$test.from"
fi
