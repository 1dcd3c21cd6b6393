#!/bin/sh
# Starts bin/holdfast with every finished door in the foreground until Ctrl-C and prints one working command per door.
# Data lies in build/run/data and survives the run; KV, TLOG and ADMIN=host:port choose other addresses.
set -eu
cd "$(dirname "$0")/.."
kv=${KV:-127.0.0.1:2379} tlog=${TLOG:-127.0.0.1:2025} admin=${ADMIN:-127.0.0.1:8080}

if command -v etcdctl >/dev/null 2>&1; then
	etcdctl=etcdctl
else
	etcdctl=bin/etcdctl
	scripts/gotool.sh $etcdctl go.etcd.io/etcd/etcdctl/v3 go.etcd.io/etcd/etcdctl/v3@v3.7.3
fi

mkdir -p build/run
bin/holdfast serve --data build/run/data --kv "$kv" --tlog "$tlog" --admin "$admin" &
pid=$!
# Ctrl-C reaches the server by itself, since the terminal sends it to the whole group; a second signal would make it stop at
# once instead of handing over and closing its files.
trap : INT
trap 'kill -TERM $pid 2>/dev/null || true' TERM HUP

tries=0
until ETCDCTL_API=3 $etcdctl --endpoints "$kv" --command-timeout 1s get --limit 1 holdfast >/dev/null 2>&1; do
	tries=$((tries + 1))
	if ! kill -0 $pid 2>/dev/null; then
		wait $pid
		exit $?
	fi
	if [ $tries -ge 60 ]; then
		echo "run: no answer on $kv; stopping" >&2
		kill -TERM $pid
		wait $pid || true
		exit 1
	fi
	sleep 0.5
done
cat <<END

kv is on $kv. In another terminal:
  $etcdctl --endpoints $kv put greeting hello
tlog is on $tlog:
  curl -d 'release 1.0' '$tlog/add?proof=1'
  bin/holdfast tlog verify http://$tlog --vkey build/run/data/tlog-keys/default.vkey
Whether every door serves:
  curl http://$admin/readyz
Ctrl-C stops it.

END
# wait returns early when a signal arrives; the second one sees the server out.
wait $pid || { status=$?; wait $pid 2>/dev/null || true; [ $status -gt 128 ] || exit $status; }
