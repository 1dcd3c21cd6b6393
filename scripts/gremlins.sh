#!/bin/sh
# Mutants that a tool makes up, beside those of internal/mutants that people wrote: gremlins.sh [PACKAGE...], such as sqlite/gate. Without
# one: all that the table has. The tool breaks every condition and every sum of a package that its own tests reach, one at a time, and looks
# whether those tests notice. Rows of internal/mutants/GREMLINS.md are written anew. A package takes minutes, a large one hours.
set -eu
cd "$(dirname "$0")/.."
version=v0.6.0
table=internal/mutants/GREMLINS.md
tool=$PWD/build/tools/gremlins-$version
if [ ! -x "$tool" ]; then
	mkdir -p build/tools/new
	GOBIN=$PWD/build/tools/new go install "github.com/go-gremlins/gremlins/cmd/gremlins@$version"
	mv build/tools/new/gremlins "$tool"
fi
# A killed mutant is dead at the first test that fails. The tool's own --test-cpu makes tests slower, and every mutant of a package time out.
# Tests that wait and may run together do, as in check.sh: a package takes half the time.
# A wait in vain is what most mutants come to. -count=1: a cached run of the tests would make the time limit of all mutants too short.
export WAIT_MOST=20s CGO_ENABLED=0 GOFLAGS='-trimpath -tags=gms_pure_go -failfast -count=1 -vet=off -parallel=8'
[ $# -gt 0 ] || set -- $(sed -n 's/^| `\([a-z0-9/]*\)` .*/\1/p' "$table")
mkdir -p build/gremlins
for package in "$@"; do
	out=build/gremlins/$(echo "$package" | tr / -)
	echo "gremlins: $package, its mutants are in $out.txt"
	# Packages below it whose names end in sim are models that only tests run: what is broken there breaks no promise.
	"$tool" unleash --workers "${WORKERS:-2}" --timeout-coefficient 4 -E 'sim/' -o "$out.json" "./$package" >"$out.txt" 2>&1 || { tail -5 "$out.txt" >&2; exit 1; }
	row=$(awk -v package="$package" -v commit="$(git rev-parse --short=12 HEAD)" '
		/^Killed: / { gsub(/,/, ""); killed = $2; lived = $4; uncovered = $7 }
		/^Timed out: / { gsub(/,/, ""); late = $3 }
		/^Test efficacy: / { share = $3 }
		END { printf "| `%s` | %s | %s | %s | %s | %s | %s |", package, killed, lived, late, uncovered, share, commit }' "$out.txt")
	if grep -q "^| \`$package\` " "$table"; then
		awk -v package="| \`$package\` " -v row="$row" 'index($0, package) == 1 { print row; next } { print }' "$table" >build/gremlins/table && cp build/gremlins/table "$table"
	else
		echo "$row" >>"$table"
	fi
	echo "$row"
done
