#!/bin/sh
# Builds one Go program of another project at an exact version: gotool.sh OUT PACKAGE MODULE@VERSION...
#
# It does so in a scratch module below build/, because `go install pkg@version` refuses modules whose go.mod has replace
# directives (etcd's have), and because the programs we measure against must never enter our own go.mod.
# A stamp beside the program names what it was built from, so a second call costs nothing.
set -eu
cd "$(dirname "$0")/.."
out=$1 pkg=$2
shift 2
stamp="$pkg $*"
if [ -x "$out" ] && [ "$(cat "$out.from" 2>/dev/null)" = "$stamp" ]; then
	echo "have  $out"
	exit 0
fi
echo "build $out  ($*)"
mkdir -p "$(dirname "$out")" build/scratch
case $out in /*) ;; *) out=$PWD/$out ;; esac
dir=$(mktemp -d "$PWD/build/scratch/tool.XXXXXX")
trap 'rm -rf "$dir"' EXIT
(
	cd "$dir"
	export CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=mod
	go mod init scratch >/dev/null 2>&1
	go get "$@" >log 2>&1 && go build -trimpath -buildvcs=false -o "$out.new" "$pkg" >>log 2>&1 || {
		cat log >&2
		exit 1
	}
)
mv "$out.new" "$out"
echo "$stamp" >"$out.from"
