#!/bin/sh
# Benchmarks beside the peers: bench.sh [DOOR] [FLAGS of bench/DOOR]. Without DOOR: kv. What a door's needs is in bench/DOOR/run.sh.
set -eu
cd "$(dirname "$0")/.."
door=${1:-kv}
[ $# -gt 0 ] && shift
if [ ! -x "bench/$door/run.sh" ]; then
	echo "bench: no door named '$door' is measured; there are:" bench/*/run.sh >&2
	exit 1
fi
exec "bench/$door/run.sh" "$@"
