#!/bin/sh
# Everything that must pass before a change lands; at most 300 s on two cores with modules fetched (docs/TESTS.md).
set -eu
cd "$(dirname "$0")/.."
began=$(date +%s)
# One set of flags for all that is compiled here, or every library is compiled twice.
export GOFLAGS='-trimpath -tags=gms_pure_go'
mkdir -p build

printf '== build\n'
make -s build
go build -o build/gotest ./internal/pace/gotest

# Form is judged beside the tests, which wait for elections half of their time, and behind them: it only computes.
printf '== form, beside the tests\n'
nice scripts/check.sh form >build/form.log 2>&1 &
form=$!
trap 'kill $form 2>/dev/null || true' EXIT INT TERM

printf '== tests\n'
# Tests that start real nodes take this binary instead of building one each. The package that takes longest comes first. Of those that
# start clusters of their own few run at a time, or they would starve each other's elections; within a package, tests that only wait
# run together. An hour ends a package that hangs; one that shares its two cores with nine other runs is through before (docs/TESTS.md). What vet has to say is said by the form, and nobody debugs these programs: they are linked without what debuggers read.
status=0
HOLDFAST_BIN=$PWD/bin/holdfast build/gotest -p 3 -parallel 8 -vet=off -ldflags=-w -timeout 60m \
	./conformance/crash ./core/node ./cmd/holdfast ./doors/kv ./doors/kv/v2 ./sim ./... || status=1

wait $form || status=1
cat build/form.log
[ $status = 0 ] || { printf 'tests FAILED after %d s\n' $(($(date +%s) - began)); exit 1; }
printf 'tests passed in %d s\n' $(($(date +%s) - began))
