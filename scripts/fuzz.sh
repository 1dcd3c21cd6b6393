#!/bin/sh
# Runs every fuzz test for the given time: fuzz.sh 30s [PACKAGES]. go test -fuzz takes one target at a time.
set -eu
cd "$(dirname "$0")/.."
time=$1 packages=${2:-./...}
count=0
for p in $(go list "$packages"); do
	for name in $(go test -list '^Fuzz' "$p" | grep '^Fuzz' || true); do
		printf '== %s %s\n' "$p" "$name"
		go test "$p" -run '^$' -fuzz "^$name\$" -fuzztime "$time"
		count=$((count + 1))
	done
done
printf '%d fuzz tests ran %s each without a finding\n' $count "$time"
