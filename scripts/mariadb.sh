#!/bin/sh
# Installs Debian's MariaDB for tests and benchmarks, without starting it: they run throw-away servers of their own
# (internal/proctest). Safe to repeat; the first time takes about a minute.
set -eu
cd "$(dirname "$0")/.."
if [ -x /usr/sbin/mariadbd ] || command -v mariadbd >/dev/null 2>&1; then
	echo "have  mariadb-server"
	exit 0
fi
scripts/apt.sh mariadb-server
