#!/bin/sh
# Brings what `make bench DOOR=sqlite` and conformance/sqlite/readers need beside Holdfast, each at an exact version. Safe to repeat.
#
#   build/peers/litestream    built here, v0.5.18
#   build/peers/ltx           built here, v0.5.3
#   build/peers/k6            built here, v1.8.1
#   /usr/bin/python3          Debian's package: other builds may lack what loads an extension of SQLite
set -eu
cd "$(dirname "$0")/.."

missing=
[ -x /usr/bin/python3 ] || missing=python3
command -v taskset >/dev/null 2>&1 || missing="$missing util-linux"
if [ -n "$missing" ]; then
	scripts/apt.sh $missing
fi
scripts/gotool.sh build/peers/litestream github.com/benbjohnson/litestream/cmd/litestream github.com/benbjohnson/litestream@v0.5.18
scripts/gotool.sh build/peers/k6 go.k6.io/k6 go.k6.io/k6@v1.8.1
scripts/gotool.sh build/peers/ltx github.com/superfly/ltx/cmd/ltx github.com/superfly/ltx@v0.5.3
