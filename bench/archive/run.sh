#!/bin/sh
# The benchmark of this folder, beside its peers, called by scripts/bench.sh with its flags.
set -eu
cd "$(dirname "$0")/../.."
make -s build
go build -o build/bench/run-archive ./bench/archive
exec build/bench/run-archive "$@"
