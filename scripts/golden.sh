#!/bin/sh
# Rewrites the golden files of every package whose tests compare with them (internal/golden).
# A golden file pins bytes on disk or on the wire: a changed one is a changed format and needs its page in docs/formats.
set -eu
cd "$(dirname "$0")/.."
packages=$(grep -rl --include='*_test.go' --exclude-dir=build "holdfast/internal/golden" . | xargs -r -n 1 dirname | sort -u)
for p in $packages; do
	go test "$p" -count=1 -rewrite
done
git status --short -- '*testdata*'
