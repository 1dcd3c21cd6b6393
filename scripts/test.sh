#!/bin/sh
# Everything that must pass before a change lands; at most 12 minutes on two cores from a clean clone.
set -eu
cd "$(dirname "$0")/.."
began=$(date +%s)

scripts/check.sh form

printf '== build\n'
make -s build

printf '== tests\n'
# Tests that start real nodes take this binary instead of building one each.
# -p 2: packages that start clusters of their own would starve each other's election timers on a small machine.
HOLDFAST_BIN=$PWD/bin/holdfast go test -p 2 -timeout 10m ./...

printf 'tests passed in %d s\n' $(($(date +%s) - began))
