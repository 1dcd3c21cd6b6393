#!/bin/sh
# Benchmarks beside the peers: bench.sh [DOOR] [FLAGS of bench/DOOR]. Without DOOR: every finished door.
set -eu
cd "$(dirname "$0")/.."
door=${1:-kv}
[ $# -gt 0 ] && shift
case $door in
kv) ;;
*) echo "bench: no door named '$door' is built" >&2; exit 1 ;;
esac
scripts/peers.sh
make -s build
go build -o build/bench/floor ./bench/floor
go build -o build/bench/run-kv ./bench/kv
exec build/bench/run-kv "$@"
