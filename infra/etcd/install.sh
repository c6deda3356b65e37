#!/usr/bin/env bash
# Builds etcd, etcdctl and etcdutl once into the tools folder and prints the folder that holds them.
# The versions are those of go.mod beside this file, checked against go.sum; nothing else is fetched.
# Binaries that are already there and at least that new are taken as they are, whoever put them there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../lib/tools.sh
. "$here/../lib/tools.sh"

bin=$tools/etcd/bin
wanted=$(awk '$1 == "go.etcd.io/etcd/server/v3" && $2 != "" { sub(/^v/, "", $2); print $2 }' "$here/go.mod")

# at_least VERSION COMMAND…: does the command's first line that names a version name one this new?
at_least() {
  local least=$1 found
  shift
  found=$("$@" 2>/dev/null | awk '/[Vv]ersion: *[0-9]/ && !found { sub(/.*[Vv]ersion: */, ""); sub(/[^0-9.].*/, ""); found = $0 } END { print found }') || return 1
  [ -n "$found" ] && [ "$(printf '%s\n' "$least" "$found" | sort -V | awk 'NR == 1')" = "$least" ]
}

is_there() {
  at_least "$wanted" "$bin/etcd" --version &&
    at_least "$wanted" "$bin/etcdctl" version &&
    at_least "$wanted" "$bin/etcdutl" version
}

if is_there; then echo "$bin"; exit 0; fi
lock_tools
if is_there; then echo "$bin"; exit 0; fi

has go || die 2 "etcd $wanted is built with Go: install Go 1.26 or newer, or put etcd, etcdctl and etcdutl $wanted into $bin"

say "building etcd $wanted into $bin (about a minute, once)"
half=$(mktemp -d "$tools/etcd.XXXXXX")
trap 'rm -rf "$half"' EXIT
# Flags on the command line win over GOFLAGS of the environment. A go.work further up is none of ours.
(cd "$here" && GOWORK=off GOBIN="$half/bin" go install -mod=readonly -trimpath -ldflags='-s -w' \
  go.etcd.io/etcd/server/v3 go.etcd.io/etcd/etcdctl/v3 go.etcd.io/etcd/etcdutl/v3)
# Go names a binary after its folder.
mv "$half/bin/server" "$half/bin/etcd"
chmod 755 "$half"
rm -rf "$tools/etcd"
mv "$half" "$tools/etcd"

is_there || die 1 "what was built in $bin does not report version $wanted: remove $tools/etcd and try again"
echo "$bin"
