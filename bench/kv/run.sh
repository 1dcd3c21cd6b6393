#!/bin/sh
# The benchmark of this folder, beside its peers, called by scripts/bench.sh with its flags.
set -eu
cd "$(dirname "$0")/../.."
scripts/peers.sh
make -s build
go build -o build/bench/floor ./bench/floor
go build -o build/bench/run-kv ./bench/kv
exec build/bench/run-kv "$@"
