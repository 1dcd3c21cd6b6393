#!/bin/sh
# Unmodified foreign clients against real nodes: conformance.sh [DOOR] [QUICK]. Without DOOR: every finished door.
set -eu
cd "$(dirname "$0")/.."
door=${1:-kv}
case $door in
kv) ;;
*) echo "conformance: no door named '$door' is built" >&2; exit 1 ;;
esac
scripts/peers.sh
make -s build
go build -o build/conformance ./conformance
exec build/conformance ${2:+-quick} -door "$door"
