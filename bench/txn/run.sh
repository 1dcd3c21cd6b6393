#!/bin/sh
# The benchmark of this folder, called by scripts/bench.sh with its flags. It needs nothing beside it.
set -eu
cd "$(dirname "$0")/../.."
go build -o build/bench/run-txn ./bench/txn
exec build/bench/run-txn "$@"
