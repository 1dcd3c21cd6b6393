#!/bin/sh
# DTM at an exact version and what drives it, for the saga door's conformance run. Nothing of it enters our go.mod. Safe to repeat.
#
#   build/suites/dtm/        the source of its module, with its own go.sum
#   build/peers/dtm/qs       its quick start, unchanged
#   build/peers/dtm/dtm      its server with its default store, the control: dtm.sh original
#   build/peers/dtm/clients  our programs around its Go client (conformance/saga/clients), in a module of their own
set -eu
cd "$(dirname "$0")/.."
version=v1.19.0
source=$PWD/build/suites/dtm out=$PWD/build/peers/dtm
mkdir -p "$out" build/suites build/scratch
export CGO_ENABLED=0 GOWORK=off

if [ -d "$source" ] && [ "$(cat "$source.from" 2>/dev/null)" = $version ]; then
	echo "have  build/suites/dtm ($version)"
else
	echo "copy  build/suites/dtm ($version)"
	rm -rf "$source" "$source.from"
	# From a directory without a go.mod: ours must not learn of it.
	module=$(cd / && GOFLAGS= go mod download -json github.com/dtm-labs/dtm@$version | sed -n 's/^.*"Dir": "\(.*\)",*$/\1/p')
	cp -r "$module" "$source"
	chmod -R u+w "$source"
	# Its own main links a dozen service discoveries and would have to be built for minutes.
	mkdir "$source/lean"
	cat >"$source/lean/main.go" <<-'MAIN'
		package main

		import "github.com/dtm-labs/dtm/dtmsvr/entry"

		var version = "1.19.0"

		func main() {
			if app, _ := entry.Main(&version); app != nil {
				select {}
			}
		}
	MAIN
	echo $version >"$source.from"
fi

build() { # NAME PACKAGE
	if [ -x "$out/$1" ] && [ "$(cat "$out/$1.from" 2>/dev/null)" = $version ]; then
		echo "have  build/peers/dtm/$1"
		return
	fi
	echo "build build/peers/dtm/$1"
	(cd "$source" && GOFLAGS=-mod=readonly go build -trimpath -buildvcs=false -o "$out/$1" "$2")
	echo $version >"$out/$1.from"
}
build qs ./qs
[ "${1:-}" != original ] || build dtm ./lean

(cd conformance/saga/clients && export GOFLAGS=-mod=readonly && go vet . && go build -trimpath -buildvcs=false -o "$out/clients" .)
