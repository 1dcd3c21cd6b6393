#!/bin/sh
# The benchmark of this folder, beside its peers, called by scripts/bench.sh with its flags.
set -eu
cd "$(dirname "$0")/../.."
scripts/sqlitepeers.sh
make -s build extension
go build -o build/bench/run-sqlite ./bench/sqlite
# The load and the store have one core, what is measured another (-app-core).
exec taskset -c "${LOAD_CORE:-1}" build/bench/run-sqlite "$@"
