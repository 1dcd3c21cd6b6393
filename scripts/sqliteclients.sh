#!/bin/sh
# Django and Rails as Debian has them, for conformance/sqlite/clients. Safe to repeat.
set -eu
cd "$(dirname "$0")/.."
missing=
for package in python3-django ruby-rails ruby-sqlite3; do
	dpkg-query -W -f '${Status}' $package 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
if [ -n "$missing" ]; then
	scripts/apt.sh $missing
fi
