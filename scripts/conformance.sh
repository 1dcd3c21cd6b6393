#!/bin/sh
# Unmodified foreign clients against real nodes: conformance.sh [DOOR] [QUICK]. Without DOOR: every finished door.
# First single clients beside the original, the Python client etcd3gw's own tests among them, then random requests to both, then a
# history that goes to the original and back by files, then
# etcd's own suites, then those of other client libraries (not when QUICK: their compilers and libraries take longer to install than
# the rest to run). All run to their end; one failure makes the whole red.
set -eu
cd "$(dirname "$0")/.."
door=${1:-kv}
# Tessera's own tools against the tlog door. QUICK does without a database where none is installed: that takes a minute.
tlog() {
	[ -n "${1:-}" ] || scripts/mariadb.sh
	scripts/tessera.sh
	make -s build
	go build -o build/tlog-conformance ./conformance/tlog
	build/tlog-conformance ${1:+-quick}
}
case $door in
kv) ;;
tlog) tlog "${2:-}"; exit ;;
*) echo "conformance: no door named '$door' is built" >&2; exit 1 ;;
esac
scripts/peers.sh
make -s build
scripts/e2esuite.sh
go build -o build/conformance ./conformance
go build -o build/etcdsuite ./conformance/etcdsuite
go build -o build/v3diff ./conformance/v3diff
go build -o build/v2diff ./conformance/v2diff
go build -o build/etcdfile ./conformance/etcdfile
scripts/etcd3gw.sh
if [ -z "${2:-}" ]; then
	scripts/clientsuites.sh
	go build -o build/clientsuite ./conformance/clientsuite
	scripts/kube.sh
	go build -o build/kube ./conformance/kube
fi
status=0
build/conformance ${2:+-quick} -door "$door" || status=1
if [ -n "${2:-}" ]; then
	build/v3diff -n 50 || status=1
	build/v2diff -n 50 || status=1
	build/etcdfile -keys 3000 || status=1
else
	build/v3diff -members 1 || status=1
	build/v3diff -members 3 || status=1
	build/v2diff -members 1 || status=1
	build/v2diff -members 3 || status=1
	build/etcdfile -keys 3000 || status=1
	build/etcdfile || status=1
fi
build/etcdsuite ${2:+-quick} || status=1
build/e2e ${2:+-quick} || status=1
# Two minutes; where it stands beside the original: build/clientsuite -against original.
[ -n "${2:-}" ] || build/clientsuite || status=1
[ -n "${2:-}" ] || build/kube || status=1
[ -n "${1:-}" ] || tlog "${2:-}" || status=1
exit $status
