#!/bin/sh
# Builds go-tpc, a client of TPC-C for MySQL, at an exact version into build/peers. Safe to repeat.
set -eu
cd "$(dirname "$0")/.."
scripts/gotool.sh build/peers/go-tpc github.com/pingcap/go-tpc/cmd/go-tpc github.com/pingcap/go-tpc/cmd/go-tpc@v1.0.12
