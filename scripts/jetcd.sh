#!/bin/sh
# jetcd, the Java client of etcd, at an exact version with what it needs, as jars in build/suites/jetcd: for the crowds of conformance/kube.
# Safe to repeat.
set -eu
cd "$(dirname "$0")/.."
version=0.8.5
jars=$PWD/build/suites/jetcd

if [ -d "$jars" ] && [ "$(cat "$jars.from" 2>/dev/null)" = $version ]; then
	echo "have  build/suites/jetcd ($version)"
	exit 0
fi
echo "build build/suites/jetcd ($version)"
missing=
command -v javac >/dev/null 2>&1 || missing=openjdk-17-jdk-headless
command -v mvn >/dev/null 2>&1 || missing="$missing maven"
if [ -n "$missing" ]; then
	scripts/apt.sh $missing
fi
rm -rf "$jars" "$jars.from"
mkdir -p build/suites build/scratch
dir=$(mktemp -d "$PWD/build/scratch/jetcd.XXXXXX")
trap 'rm -rf "$dir"' EXIT
cat >"$dir/pom.xml" <<-POM
	<project xmlns="http://maven.apache.org/POM/4.0.0">
	  <modelVersion>4.0.0</modelVersion>
	  <groupId>scratch</groupId><artifactId>scratch</artifactId><version>0</version>
	  <dependencies>
	    <dependency><groupId>io.etcd</groupId><artifactId>jetcd-core</artifactId><version>$version</version></dependency>
	  </dependencies>
	</project>
POM
mvn -q -B -f "$dir/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies "-DoutputDirectory=$jars" >"$dir/log" 2>&1 || {
	tail -n 40 "$dir/log" >&2
	exit 1
}
echo $version >"$jars.from"
