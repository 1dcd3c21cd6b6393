#!/bin/sh
# Benchmarks beside the peers: bench.sh [DOOR] [FLAGS of bench/DOOR]. Without DOOR: kv.
set -eu
cd "$(dirname "$0")/.."
door=${1:-kv}
[ $# -gt 0 ] && shift
case $door in
kv) ;;
tlog)
	# A database, unless the parts are named and none of them needs it.
	case "$*" in
	*-parts*) case "$*" in *mysql*) scripts/mariadb.sh ;; esac ;;
	*) scripts/mariadb.sh ;;
	esac
	scripts/tessera.sh
	make -s build
	go build -o build/bench/run-tlog ./bench/tlog
	exec build/bench/run-tlog "$@"
	;;
saga)
	command -v ab >/dev/null 2>&1 || scripts/apt.sh apache2-utils
	scripts/mariadb.sh
	scripts/dtmbench.sh
	make -s build
	go build -o build/bench/floor-saga ./bench/saga/floor
	go build -o build/bench/run-saga ./bench/saga
	exec build/bench/run-saga "$@"
	;;
archive)
	make -s build
	go build -o build/bench/run-archive ./bench/archive
	exec build/bench/run-archive "$@"
	;;
sqlite)
	scripts/sqlitepeers.sh
	make -s build extension
	go build -o build/bench/run-sqlite ./bench/sqlite
	# The load and the store have one core, what is measured another (-app-core).
	exec taskset -c "${LOAD_CORE:-1}" build/bench/run-sqlite "$@"
	;;
*) echo "bench: no door named '$door' is built" >&2; exit 1 ;;
esac
scripts/peers.sh
make -s build
go build -o build/bench/floor ./bench/floor
go build -o build/bench/run-kv ./bench/kv
exec build/bench/run-kv "$@"
