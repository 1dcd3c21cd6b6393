#!/bin/sh
# What a developer runs before every commit: form, vet, staticcheck, import rules and the short tests.
set -eu
cd "$(dirname "$0")/.."
staticcheck=v0.8.2
export GOFLAGS='-trimpath -tags=gms_pure_go' # as in test.sh: what one has compiled serves the other
# Many tests wait for timers and elections and for nothing else: those that may run together do, however few the cores.
# The same flags wherever a test is run, or its result would not be remembered.
flags='-short -parallel 8 -timeout 60m'

step() { printf '== %s\n' "$*"; }

step gofmt
unformatted=$(find . -name '*.go' -not -path './build/*' -exec gofmt -l {} +)
if [ -n "$unformatted" ]; then
	printf 'not formatted:\n%s\n' "$unformatted" >&2
	exit 1
fi

step vet
go vet ./...

step staticcheck
# The exact version is in the path, so that a new pin cannot run the old tool.
tool=build/tools/staticcheck-$staticcheck
if [ ! -x $tool ]; then
	GOBIN=$PWD/build/tools/new go install honnef.co/go/tools/cmd/staticcheck@$staticcheck
	mv build/tools/new/staticcheck $tool
	rmdir build/tools/new
fi
$tool ./...

step 'import rules'
go test $flags ./internal/arch

[ "${1:-}" = form ] && exit 0
step 'unit tests'
# Two packages for each core, because one that waits leaves its core idle, and those that wait longest first: what the others
# need is linked beside them. Nothing of this is part of a remembered result.
go test -p $((2 * $(getconf _NPROCESSORS_ONLN))) $flags ./core/node ./cmd/holdfast ./doors/kv ./sim ./...
