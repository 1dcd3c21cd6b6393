#!/bin/sh
# Installs Debian packages as root: apt.sh PACKAGE... Servers that a package would start are kept from starting:
# a benchmark must not share the machine with a stray etcd on port 2379.
set -eu
if [ "$(id -u)" != 0 ]; then
	echo "missing: $*  (as root: apt-get install --no-install-recommends $*)" >&2
	exit 1
fi
echo "apt   $*"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod +x $policy
	trap 'rm -f "$log" $policy' EXIT
fi
{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1 || {
	tail -n 20 "$log" >&2
	exit 1
}
