#!/bin/sh
# Installs Debian's sysbench and mariadb client, for the sql door's conformance run and benchmark. Safe to repeat.
set -eu
cd "$(dirname "$0")/.."
missing=
command -v sysbench >/dev/null 2>&1 || missing=sysbench
command -v mariadb >/dev/null 2>&1 || missing="$missing mariadb-client"
if [ -n "$missing" ]; then
	scripts/apt.sh $missing
fi
