#!/bin/sh
# Builds DTM 1.19.0 as a peer in build/peers/dtm-bench: `server`, its coordinator without discovery drivers, and `service`, the bench service
# of its published report. Both are small programs of ours around DTM's packages (bench/saga/peer), built in a module of their own
# below build/ with the versions that DTM's own go.mod and go.sum name. Nothing of DTM is ever in our tree or our go.mod.
# Safe to repeat; the first time takes about two minutes.
set -eu
cd "$(dirname "$0")/.."
version=v1.19.0
dir=$PWD/build/peers/dtm-bench
stamp="$version $(cat bench/saga/peer/go.mod bench/saga/peer/*/main.go scripts/dtmbench.sh | cksum)"
if [ -x "$dir/server" ] && [ -x "$dir/service" ] && [ "$(cat "$dir/from" 2>/dev/null)" = "$stamp" ]; then
	echo "have  $dir"
	exit 0
fi
echo "build $dir  (github.com/dtm-labs/dtm@$version)"
export CGO_ENABLED=0 GOWORK=off GOFLAGS=
module=$(cd / && go mod download -json "github.com/dtm-labs/dtm@$version" | sed -n 's/^.*"Dir": "\(.*\)",*$/\1/p')
rm -rf "$dir"
mkdir -p "$dir/src"
cp -r bench/saga/peer/* "$dir/src"
cp "$module/go.sum" "$dir/src/go.sum"
cp -r "$module/sqls" "$dir/sqls"
chmod -R u+w "$dir"
# What DTM requires beside what we require: with every version named, nothing has to be chosen.
sed -n '/^require (/,/^)/p' "$module/go.mod" >>"$dir/src/go.mod"
(
	cd "$dir/src"
	go build -mod=mod -trimpath -buildvcs=false -o "$dir" ./server ./service >log 2>&1 || { cat log >&2; exit 1; }
	go vet ./...
)
echo "$stamp" >"$dir/from"
