#!/bin/sh
# etcd's own test suite tests/common, built at an exact version into build/suites, with the two sets of programs it can be
# pointed at: build/suites/ours/{etcd,etcdctl,etcdutl} and build/peers/etcd-3.7.3. Safe to repeat. Needs make build and peers.sh.
set -eu
cd "$(dirname "$0")/.."
version=v3.7.3
suite=build/suites/etcd-common

mkdir -p build/suites/ours
ln -sfn "$PWD/bin/holdfast" build/suites/ours/etcd
for name in etcdctl etcdutl; do
	ln -sfn "$PWD/build/peers/etcd-3.7.3/$name" build/suites/ours/$name
done

if [ -x $suite/common/common.test ] && [ "$(cat $suite.from 2>/dev/null)" = $version ]; then
	echo "have  $suite ($version)"
	exit 0
fi
echo "build $suite ($version)"
rm -rf $suite
mkdir -p build/scratch
dir=$(mktemp -d "$PWD/build/scratch/suite.XXXXXX")
trap 'rm -rf "$dir"' EXIT
(
	cd "$dir"
	go mod init scratch >/dev/null 2>&1
	go mod download -json go.etcd.io/etcd/tests/v3@$version >module
)
cp -r "$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' "$dir/module")" $suite
chmod -R u+w $suite
(
	cd $suite
	# Its go.mod points into a checkout of the whole repository; the published modules do as well.
	go mod edit $(awk '/=>/ {print "-dropreplace=" $1}' go.mod)
	GOWORK=off GOFLAGS=-mod=mod go test -c -tags e2e -o common/common.test ./common >build.log 2>&1 || {
		cat build.log >&2
		exit 1
	}
)
echo $version >$suite.from
