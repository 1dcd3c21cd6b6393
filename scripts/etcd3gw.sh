#!/bin/sh
# Installs etcd3gw, a Python client of etcd's JSON gateway, with its tests into build/suites/etcd3gw, everything at the exact
# versions of etcd3gw.txt. Safe to repeat.
set -eu
cd "$(dirname "$0")/.."
dir=build/suites/etcd3gw
if [ -x $dir/bin/python ] && cmp -s scripts/etcd3gw.txt $dir/from; then
	echo "have  $dir"
	exit 0
fi
python3 -c 'import ensurepip' 2>/dev/null || scripts/apt.sh python3-venv
echo "build $dir"
rm -rf $dir
mkdir -p build/suites
python3 -m venv $dir
$dir/bin/pip install --quiet --disable-pip-version-check --no-deps -r scripts/etcd3gw.txt
cp scripts/etcd3gw.txt $dir/from
