#!/bin/sh
# Brings what Holdfast is measured and checked against into build/peers, each at an exact version. Safe to repeat.
#
#   build/peers/etcd-3.4/{etcd,etcdctl}               Debian's packages (3.4.23 on Debian 12)
#   build/peers/etcd-3.7.3/{etcd,etcdctl,etcdutl}     built here
#   build/peers/benchmark                             etcd's own load tool, v3.7.1 (v3.7.3 of that module does not resolve)
#   hey, wrk                                          Debian's packages, for the HTTP doors
set -eu
cd "$(dirname "$0")/.."
etcd=v3.7.3 tools=v3.7.1
peers=build/peers

missing=
for pair in etcd:etcd-server etcdctl:etcd-client hey:hey wrk:wrk; do
	command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair##*:}"
done
if [ -n "$missing" ]; then
	scripts/apt.sh $missing
fi

mkdir -p $peers/etcd-3.4
for name in etcd etcdctl; do
	ln -sfn "$(command -v $name)" $peers/etcd-3.4/$name
done
echo "have  $peers/etcd-3.4  ($($peers/etcd-3.4/etcd --version | head -n 1))"

scripts/gotool.sh $peers/etcd-3.7.3/etcd go.etcd.io/etcd/server/v3 go.etcd.io/etcd/server/v3@$etcd
scripts/gotool.sh $peers/etcd-3.7.3/etcdctl go.etcd.io/etcd/etcdctl/v3 go.etcd.io/etcd/etcdctl/v3@$etcd
scripts/gotool.sh $peers/etcd-3.7.3/etcdutl go.etcd.io/etcd/etcdutl/v3 go.etcd.io/etcd/etcdutl/v3@$etcd
scripts/gotool.sh $peers/benchmark go.etcd.io/etcd/v3/tools/benchmark go.etcd.io/etcd/v3/tools/benchmark@$tools
