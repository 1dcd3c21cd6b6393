#!/bin/sh
# Builds the SQLite extension: extension.sh [OUT] (bin/holdfast_sqlite.so). It is the one thing here that needs a C compiler; what is
# missing is installed. CFLAGS are put behind ours (CFLAGS='-g -fsanitize=address,undefined' for a build that looks).
set -eu
cd "$(dirname "$0")/.."
out=${1:-bin/holdfast_sqlite.so}

missing=
command -v gcc >/dev/null 2>&1 || missing="gcc libc6-dev"
[ -e /usr/include/sqlite3ext.h ] || missing="$missing libsqlite3-dev"
[ -e /usr/include/pthread.h ] || missing="$missing libc6-dev"
if [ -n "$missing" ]; then
	scripts/apt.sh $missing
fi
mkdir -p "$(dirname "$out")"
gcc -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -O2 -fPIC -shared -Wall -Wextra -Werror -fvisibility=hidden -Wl,-z,relro,-z,now \
	${CFLAGS:-} -o "$out.new" sqlite/extension/*.c -pthread
mv "$out.new" "$out"
size=$(wc -c <"$out")
[ -n "${CFLAGS:-}" ] || [ "$size" -lt 2000000 ] || { echo "$out has $size bytes" >&2; exit 1; }
