#!/bin/sh
# The benchmark of this folder, beside its peers, called by scripts/bench.sh with its flags.
set -eu
cd "$(dirname "$0")/../.."
command -v ab >/dev/null 2>&1 || scripts/apt.sh apache2-utils
scripts/mariadb.sh
scripts/dtmbench.sh
make -s build
go build -o build/bench/floor-saga ./bench/saga/floor
go build -o build/bench/run-saga ./bench/saga
exec build/bench/run-saga "$@"
