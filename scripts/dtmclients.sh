#!/bin/sh
# DTM's clients in other languages at exact versions, for the saga door's conformance run. Safe to repeat.
#
#   build/suites/dtm-python/   a virtual environment with its Python client
#   build/suites/dtm-java/     its Java client and what that needs, as jars
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

set -- dtmcli==1.7.7.0 PyMySQL==1.1.1 requests==2.32.3 urllib3==2.2.3 certifi==2024.8.30 charset-normalizer==3.4.0 idna==3.10
if fresh "$suites/dtm-python" "$*"; then
	quietly python3 -m venv "$suites/dtm-python"
	quietly "$suites/dtm-python/bin/pip" install --disable-pip-version-check --no-deps "$@"
	echo "$*" >"$suites/dtm-python.from"
fi

missing=
command -v javac >/dev/null 2>&1 || missing=openjdk-17-jdk-headless
command -v mvn >/dev/null 2>&1 || missing="$missing maven"
if [ -n "$missing" ]; then
	scripts/apt.sh $missing
fi
version=2.1.4
if fresh "$suites/dtm-java" $version; then
	dir=$(mktemp -d "$PWD/build/scratch/java.XXXXXX")
	trap 'rm -rf "$dir"' EXIT
	cat >"$dir/pom.xml" <<-POM
		<project xmlns="http://maven.apache.org/POM/4.0.0">
		  <modelVersion>4.0.0</modelVersion>
		  <groupId>scratch</groupId><artifactId>scratch</artifactId><version>0</version>
		  <dependencies>
		    <dependency><groupId>io.github.dtm-labs</groupId><artifactId>dtmcli-java</artifactId><version>$version</version></dependency>
		  </dependencies>
		</project>
	POM
	quietly mvn -q -B -f "$dir/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies "-DoutputDirectory=$suites/dtm-java"
	echo $version >"$suites/dtm-java.from"
fi
