#!/bin/sh
# etcd's own end-to-end suite tests/e2e, built in the copy that etcdsuite.sh made, and run by build/e2e. Safe to repeat.
# One test by hand: scripts/e2esuite.sh && make build && build/e2e -only '^TestCtlV3Elect$'; its output is in build/suites/e2e-ours.
set -eu
cd "$(dirname "$0")/.."
scripts/etcdsuite.sh
suite=build/suites/etcd-common
# The suite reads the sample file from where etcd's repository has it; of that module v3.7.3 does not resolve.
sample=$(go mod download -json go.etcd.io/etcd/v3@v3.7.1 | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
cp -f "$sample/etcd.conf.yml.sample" build/suites/
go build -o build/e2e ./conformance/e2e
if [ -x $suite/e2e/e2e.test ]; then
	echo "have  $suite/e2e"
	exit 0
fi
echo "build $suite/e2e"
cd $suite
GOWORK=off GOFLAGS=-mod=mod go test -c -o e2e/e2e.test ./e2e >build.log 2>&1 || {
	cat build.log >&2
	exit 1
}
