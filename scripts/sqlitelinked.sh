#!/bin/sh
# Clients that bring an SQLite of their own, at exact versions, into build/sqlitelinked, for conformance/sqlite/clients. Safe to repeat.
#
#   build/sqlitelinked/node/    better-sqlite3, compiled against this machine's Node
#   build/sqlitelinked/mattn    a program on mattn/go-sqlite3 (conformance/sqlite/clients/testdata/go)
set -eu
cd "$(dirname "$0")/.."
better=12.4.1 mattn=v1.14.32
out=$PWD/build/sqlitelinked
mkdir -p "$out" build/scratch

missing=
command -v g++ >/dev/null 2>&1 || missing="g++ make"
command -v npm >/dev/null 2>&1 || missing="$missing nodejs npm"
[ -e /usr/include/node/node.h ] || missing="$missing libnode-dev"
if [ -n "$missing" ]; then
	scripts/apt.sh $missing
fi

# quietly COMMAND...: shows what it printed only if it fails.
quietly() {
	"$@" >build/scratch/sqlitelinked.log 2>&1 || {
		tail -n 40 build/scratch/sqlitelinked.log >&2
		exit 1
	}
}

if [ "$(cat "$out/node.from" 2>/dev/null)" = "$better $(node -v)" ]; then
	echo "have  build/sqlitelinked/node ($better)"
else
	echo "build build/sqlitelinked/node ($better)"
	rm -rf "$out/node" "$out/node.from"
	mkdir "$out/node"
	# Without scripts: they would fetch a compiled one. The headers are those beside this Node, the compiler's driver that of npm.
	quietly npm install --ignore-scripts --no-audit --no-fund --prefix "$out/node" better-sqlite3@$better
	gyp=$(find /usr/lib/node_modules /usr/share/nodejs -path '*node-gyp/bin/node-gyp.js' 2>/dev/null | head -n 1)
	[ -n "$gyp" ] || { echo "no node-gyp beside npm (apt-get install node-gyp)" >&2; exit 1; }
	log=$PWD/build/scratch/better-sqlite3.log
	(cd "$out/node/node_modules/better-sqlite3" && node "$gyp" rebuild --release --nodedir=/usr >"$log" 2>&1) || {
		tail -n 40 "$log" >&2
		exit 1
	}
	echo "$better $(node -v)" >"$out/node.from"
fi

program=conformance/sqlite/clients/testdata/go/main.go.txt
if [ -x "$out/mattn" ] && [ "$(cat "$out/mattn.from" 2>/dev/null)" = "$mattn $(cksum <$program)" ]; then
	echo "have  build/sqlitelinked/mattn ($mattn)"
else
	echo "build build/sqlitelinked/mattn ($mattn)"
	dir=$(mktemp -d "$PWD/build/scratch/mattn.XXXXXX")
	trap 'rm -rf "$dir"' EXIT
	cp $program "$dir/main.go"
	(
		cd "$dir"
		export CGO_ENABLED=1 GOWORK=off GOFLAGS=-mod=mod
		go mod init scratch && go get github.com/mattn/go-sqlite3@$mattn && go build -trimpath -buildvcs=false -o "$out/mattn" .
	) >build/scratch/mattn.log 2>&1 || {
		tail -n 40 build/scratch/mattn.log >&2
		exit 1
	}
	echo "$mattn $(cksum <$program)" >"$out/mattn.from"
fi
