#!/bin/sh
# Litestream's own integration tests at an exact version, from the module proxy. Safe to repeat. Nothing of it enters our go.mod.
#
#   build/suites/litestream/                   the source of its module, with its own go.sum
#   build/suites/litestream/integration.test   its package tests/integration, compiled (it links SQLite by cgo)
#   build/suites/litestream/litestream-test    the program that those tests fill and check databases with
#   build/peers/litestream                     its own program, the control: litestreamsuite.sh original
set -eu
cd "$(dirname "$0")/.."
version=v0.5.18
module=github.com/benbjohnson/litestream
source=$PWD/build/suites/litestream
mkdir -p build/suites build/peers
[ "${1:-}" != original ] || scripts/gotool.sh build/peers/litestream $module/cmd/litestream $module@$version

if [ -d "$source" ] && [ "$(cat "$source.from" 2>/dev/null)" = $version ]; then
	echo "have  build/suites/litestream ($version)"
	exit 0
fi
echo "build build/suites/litestream ($version)"
rm -rf "$source" "$source.from"
# From a directory without a go.mod: ours must not learn of it.
cached=$(cd / && GOFLAGS= GOWORK=off go mod download -json $module@$version | sed -n 's/^.*"Dir": "\(.*\)",*$/\1/p')
cp -r "$cached" "$source"
chmod -R u+w "$source"
(
	cd "$source"
	export GOWORK=off GOFLAGS=-mod=readonly
	CGO_ENABLED=1 go test -c -tags integration -trimpath -buildvcs=false -o integration.test ./tests/integration
	CGO_ENABLED=1 go build -trimpath -buildvcs=false -o litestream-test ./cmd/litestream-test
)
echo $version >"$source.from"
