#!/bin/sh
# Starts bin/holdfast with every finished door in the foreground until Ctrl-C and prints one working command per door, as
# `holdfast doors` lists them. Data lies in build/run/data and survives the run; ADMIN=host:port, and the name of a door in
# capitals (KV=host:port), choose other addresses.
set -eu
cd "$(dirname "$0")/.."
admin=${ADMIN:-127.0.0.1:8080} data=build/run/data

set --
for name in $(bin/holdfast doors | awk '!seen[$1]++ { print $1 }'); do
	eval "at=\${$(echo "$name" | tr 'a-z-' 'A-Z_'):-}"
	[ -z "$at" ] || set -- "$@" "--$name" "$at"
done
commands=$(bin/holdfast doors --data $data "$@")
# Where an address was chosen all doors are named, so that it does not turn the others off. Where none was, none is named: a door whose default
# port is taken may then stay off.
if [ $# -gt 0 ]; then
	set --
	for door in $(echo "$commands" | awk '!seen[$1]++ { print $1 "=" $2 }'); do
		set -- "$@" "--${door%%=*}" "${door#*=}"
	done
fi

# what prints the path of a program that a command begins with: on this machine, in bin, or built there from scripts/tools.txt.
what() {
	if command -v "$1" >/dev/null 2>&1; then
		echo "$1"
		return
	fi
	[ -x "bin/$1" ] || awk -v name="$1" '$1 == name { print $2, $3 }' scripts/tools.txt | while read -r package module; do
		scripts/gotool.sh "bin/$1" "$package" "$module" >&2
	done
	echo "bin/$1"
}
# shown prints the doors that serve, each with its commands: what the server has said when it was ready names them.
shown() {
	echo "$commands" | while read -r name at program rest; do
		grep -q "^ready .*$name=" build/run/log || continue
		printf '%s is on %s:\n  %s %s\n' "$name" "$at" "$(what "$program")" "$rest"
	done | awk '!/^  / && seen[$0]++ { next } { print }'
}

mkdir -p build/run
# What the server says goes to the terminal, and to a file for shown. tee outlives Ctrl-C, or the server's last lines would be lost.
rm -f build/run/said
mkfifo build/run/said
(
	trap '' INT TERM HUP
	exec tee build/run/log <build/run/said >&2
) &
bin/holdfast serve --data $data --admin "$admin" "$@" 2>build/run/said &
pid=$!
# Ctrl-C reaches the server by itself, since the terminal sends it to the whole group; a second signal would make it stop at
# once instead of handing over and closing its files.
trap : INT
trap 'kill -TERM $pid 2>/dev/null || true' TERM HUP

tries=0
until bin/holdfast status --admin "$admin" 2>/dev/null | grep -q ', ready$'; do
	tries=$((tries + 1))
	if ! kill -0 $pid 2>/dev/null; then
		wait $pid
		exit $?
	fi
	if [ $tries -ge 60 ]; then
		echo "run: not ready on $admin; stopping" >&2
		kill -TERM $pid
		wait $pid || true
		exit 1
	fi
	sleep 0.5
done
cat <<END

In another terminal:
$(shown)
Whether every door serves:
  curl http://$admin/readyz
Ctrl-C stops it.

END
# wait returns early when a signal arrives; the second one sees the server out.
wait $pid || { status=$?; wait $pid 2>/dev/null || true; [ $status -gt 128 ] || exit $status; }
