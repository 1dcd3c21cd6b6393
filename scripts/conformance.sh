#!/bin/sh
# Unmodified foreign clients against real nodes: conformance.sh [DOOR] [QUICK]. Without DOOR: every finished door.
# First single clients beside the original, then etcd's own suite, then those of client libraries. All run to their end; one
# failure makes the whole red.
set -eu
cd "$(dirname "$0")/.."
door=${1:-kv}
case $door in
kv) ;;
*) echo "conformance: no door named '$door' is built" >&2; exit 1 ;;
esac
scripts/peers.sh
[ -n "${2:-}" ] || scripts/etcd3gw.sh
make -s build
scripts/etcdsuite.sh
scripts/clientsuites.sh
go build -o build/conformance ./conformance
go build -o build/etcdsuite ./conformance/etcdsuite
go build -o build/clientsuite ./conformance/clientsuite
status=0
build/conformance ${2:+-quick} -door "$door" || status=1
build/etcdsuite ${2:+-quick} || status=1
# Two minutes; where it stands beside the original: build/clientsuite -against original.
build/clientsuite || status=1
exit $status
