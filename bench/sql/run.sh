#!/bin/sh
# The benchmark of this folder, beside Debian's MariaDB, called by scripts/bench.sh with its flags.
set -eu
cd "$(dirname "$0")/../.."
scripts/mariadb.sh
scripts/sysbench.sh
scripts/gotpc.sh
make -s build
go build -o build/bench/run-sql ./bench/sql
exec build/bench/run-sql "$@"
