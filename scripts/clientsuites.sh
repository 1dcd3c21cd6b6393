#!/bin/sh
# The test suites of client libraries, each at an exact version, into build/suites: what conformance/clientsuite runs.
# Safe to repeat. Needs make build.
#
#   build/suites/ours/etcd                  Holdfast under the name that the suites start
#   build/suites/python/                    a virtual environment with the libraries below and nothing of the system's
#   build/suites/python-etcd/               python-etcd's source with its integration tests
#   build/suites/etcd-client/               the Rust crate's source; its tests are linked as client and namespace
set -eu
cd "$(dirname "$0")/.."
suites=$PWD/build/suites
python_etcd=0.4.5 etcd_client=0.21.1

mkdir -p build/scratch "$suites/ours"
ln -sfn "$PWD/bin/holdfast" "$suites/ours/etcd"

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

# pynose stands for nose, whose decorators the tests import; pyOpenSSL is the last one that can still build extensions.
set -- pytest==8.3.4 pynose==1.5.3 pyOpenSSL==23.2.0 urllib3==2.2.3 dnspython==2.7.0
if fresh "$suites/python" "$*"; then
	quietly python3 -m venv "$suites/python"
	quietly "$suites/python/bin/pip" install --disable-pip-version-check "$@"
	echo "$*" >"$suites/python.from"
fi

if fresh "$suites/python-etcd" $python_etcd; then
	mkdir "$suites/python-etcd"
	quietly "$suites/python/bin/pip" download --disable-pip-version-check --no-deps --no-binary :all: \
		-d build/scratch python-etcd==$python_etcd
	tar -xzf build/scratch/python-etcd-$python_etcd.tar.gz -C "$suites/python-etcd" --strip-components 1
	echo $python_etcd >"$suites/python-etcd.from"
fi

missing=
command -v cargo >/dev/null 2>&1 || missing="rustc-web cargo-web"
command -v protoc >/dev/null 2>&1 || missing="$missing protobuf-compiler"
# The compiler's own .proto files: beside the program where it was unpacked from an archive, a package in Debian.
[ -e /usr/include/google/protobuf/descriptor.proto ] || [ -e "$(command -v protoc | sed 's|/bin/protoc$||')/include/google/protobuf/descriptor.proto" ] ||
	missing="$missing libprotobuf-dev"
if [ -n "$missing" ]; then
	scripts/apt.sh $missing
fi
if fresh "$suites/etcd-client" $etcd_client; then
	dir=$(mktemp -d "$PWD/build/scratch/crate.XXXXXX")
	trap 'rm -rf "$dir"' EXIT
	# Cargo unpacks a crate with its tests when another one depends on it.
	mkdir "$dir/src"
	echo 'fn main() {}' >"$dir/src/main.rs"
	printf '[package]\nname = "scratch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\netcd-client = "=%s"\n' $etcd_client >"$dir/Cargo.toml"
	(cd "$dir" && cargo vendor --versioned-dirs >log 2>&1 || { cat log >&2; exit 1; })
	cp -r "$dir/vendor/etcd-client-$etcd_client" "$suites/etcd-client"
	rm -f "$suites/etcd-client/.cargo-checksum.json"
	(
		cd "$suites/etcd-client"
		# One job: the compiler takes a gigabyte per job. The crate's own lock file names every dependency's version.
		cargo test --locked --no-run -j 1 --test client --test namespace >build.log 2>&1 || {
			tail -n 40 build.log >&2
			exit 1
		}
		for name in client namespace; do
			ln -sfn "$(sed -n "s|.*Executable tests/$name.rs (\(.*\))|\1|p" build.log)" $name
		done
	)
	echo $etcd_client >"$suites/etcd-client.from"
fi
