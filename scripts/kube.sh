#!/bin/sh
# Kubernetes' API server for conformance/kube, built into build/suites/kube-apiserver from conformance/kube/apiserver, whose
# go.mod names its exact version. Cold it takes seven minutes of a core and 1 GB of modules. Safe to repeat.
set -eu
cd "$(dirname "$0")/.."
source=conformance/kube/apiserver
program=$PWD/build/suites/kube-apiserver
from=$(cat $source/go.mod $source/go.sum $source/main.go | sha256sum)

if [ -x "$program" ] && [ "$(cat "$program.from" 2>/dev/null)" = "$from" ]; then
	echo "have  $program"
	exit 0
fi
echo "build $program"
mkdir -p build/suites
cd $source
CGO_ENABLED=0 GOWORK=off go build -trimpath -o "$program.new" .
mv "$program.new" "$program"
echo "$from" >"$program.from"
