#!/bin/sh
# Builds versitygw, a server of S3 on plain files that keeps all conditions of uploads, into build/peers.
set -eu
cd "$(dirname "$0")/.."
exec scripts/gotool.sh build/peers/versitygw github.com/versity/versitygw/cmd/versitygw github.com/versity/versitygw@v1.8.0
