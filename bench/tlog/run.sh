#!/bin/sh
# The benchmark of this folder, beside its peers, called by scripts/bench.sh with its flags.
set -eu
cd "$(dirname "$0")/../.."
# A database, unless the parts are named and none of them needs it.
case "$*" in
*-parts*) case "$*" in *mysql*) scripts/mariadb.sh ;; esac ;;
*) scripts/mariadb.sh ;;
esac
scripts/tessera.sh
make -s build
go build -o build/bench/run-tlog ./bench/tlog
exec build/bench/run-tlog "$@"
