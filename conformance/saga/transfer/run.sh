#!/bin/sh
# Moves money by sagas of DTM's Go client on a MariaDB while coordinator and services are killed: run.sh [-members 1,3] [-rounds 200]
# [FLAG...]. This folder has the flags and says what is judged. Safe to repeat.
set -eu
cd "$(dirname "$0")/../../.."
export CGO_ENABLED=0 GOFLAGS='-trimpath -tags=gms_pure_go'
mkdir -p bin build
scripts/mariadb.sh
scripts/dtm.sh
go build -o bin/holdfast ./cmd/holdfast
go build -o build/transfer ./conformance/saga/transfer
exec build/transfer "$@"
