#!/bin/sh
# DTM's own test suite at an exact version, linked twice, and what it runs beside. Safe to repeat. Needs scripts/dtm.sh.
#
#   build/suites/dtm-original/test/dtm.test   as it is, with its server inside
#   build/suites/dtm-ours/test/dtm.test       with two packages of the server replaced by conformance/saga/shim
#   build/suites/dtm-holdfast                 Holdfast with the control door that the shim speaks to (tag sagatest)
#   build/suites/dtm-mongo                    a virtual environment with NX-27017: MongoDB's protocol in front of SQLite, because no Debian has MongoDB
set -eu
cd "$(dirname "$0")/.."
suites=$PWD/build/suites
version=v1.19.0
command -v redis-server >/dev/null 2>&1 || scripts/apt.sh redis-server
scripts/mariadb.sh

set -- nx-27017==0.8.1 neosqlite==1.17.2 pymongo==4.20.1 dnspython==2.9.2
if [ -d "$suites/dtm-mongo" ] && [ "$(cat "$suites/dtm-mongo.from" 2>/dev/null)" = "$*" ]; then
	echo "have  build/suites/dtm-mongo ($*)"
else
	echo "build build/suites/dtm-mongo ($*)"
	rm -rf "$suites/dtm-mongo" "$suites/dtm-mongo.from"
	python3 -m venv "$suites/dtm-mongo"
	"$suites/dtm-mongo/bin/pip" install -q --disable-pip-version-check --no-deps "$@"
	echo "$*" >"$suites/dtm-mongo.from"
fi

export CGO_ENABLED=0 GOWORK=off
go build -tags sagatest,gms_pure_go -trimpath -buildvcs=false -o "$suites/dtm-holdfast" ./cmd/holdfast

# suite NAME STAMP EDIT: links a copy of the module that EDIT has changed.
suite() {
	if [ -x "$suites/$1/test/dtm.test" ] && [ "$(cat "$suites/$1.from" 2>/dev/null)" = "$2" ]; then
		echo "have  build/suites/$1"
		return
	fi
	echo "build build/suites/$1"
	rm -rf "${suites:?}/$1" "$suites/$1.from"
	cp -r "$suites/dtm" "$suites/$1"
	"$3" "$suites/$1"
	# Nothing is inlined: the tests replace functions while they run.
	(cd "$suites/$1" && GOFLAGS=-mod=readonly go test -c -trimpath -buildvcs=false -gcflags=all=-l -o test/dtm.test ./test)
	echo "$2" >"$suites/$1.from"
}
replace() {
	rm -rf "$1/dtmsvr/"*.go "$1/dtmsvr/entry" "$1/dtmsvr/microservices" "$1/dtmsvr/storage/registry"
	cp -r conformance/saga/shim/dtmsvr "$1/"
}
shim=$(find conformance/saga/shim -type f -exec cat {} + | sha256sum | cut -c1-16)
suite dtm-original "$version as it is" true
suite dtm-ours "$version shim $shim" replace
