#!/bin/sh
# Unmodified foreign clients against real nodes: conformance.sh [DOOR] [QUICK] [JOBS]. What is run for which door, and what a quick run
# leaves out, is in conformance/doors.
set -eu
cd "$(dirname "$0")/.."
export GOFLAGS='-trimpath -tags=gms_pure_go' # as everywhere: what is compiled once serves all
mkdir -p build
go build -o build/doors ./conformance/doors
exec build/doors ${1:+-door "$1"} ${2:+-quick} ${3:+-jobs "$3"}
