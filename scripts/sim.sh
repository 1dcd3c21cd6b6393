#!/bin/sh
# The simulated cluster: SEED=4711 replays one seed and prints its trace, N=1000 runs that many seeds.
set -eu
cd "$(dirname "$0")/.."
if [ ! -d sim ]; then
	echo 'sim: not built yet' >&2
	exit 1
fi
if [ -n "${SEED:-}" ]; then
	go test ./sim -count=1 -v -timeout 30m -run '^TestSeeds$' -args -seed "$SEED"
else
	go test ./sim -count=1 -v -timeout 60m -run '^TestSeeds$' -args -n "${N:-30}"
fi
