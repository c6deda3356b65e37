#!/usr/bin/env bash
# Installs what a machine lacks, and nothing else: where all is there it says so in a tenth of a second.
#   infra/install.sh dev    what `cargo build` needs beside Rust (the default)
#   infra/install.sh test   that, and what the tests start: etcd, Kafka, Python environments
#   infra/install.sh bench  that, and what the figures are measured beside: Redis, and r-nacos, built from its crate
# Debian and Ubuntu packages come by apt, as root or through sudo. Elsewhere it names what to install by hand.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/tools.sh
. "$here/lib/tools.sh"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
missing=()

# lacks PACKAGE COMMAND…: notes the package unless the command succeeds. Asking the tool itself, not the
# package list, finds also what came by another way than apt.
lacks() {
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}

# etcd-client's build script runs protoc on files that import the well-known types: two Debian packages.
protoc_knows_well_known_types() {
  printf 'syntax = "proto3";\nimport "google/protobuf/descriptor.proto";\n' >"$scratch/probe.proto"
  "${PROTOC:-protoc}" -I "$scratch" -o "$scratch/probe.pb" "$scratch/probe.proto"
}

has_header() { echo "#include <$1>" | "${CC:-cc}" -E -x c - -o "$scratch/probe.i"; }

look_for_build_needs() {
  has cargo || die 2 "Rust is missing: install it with rustup, then call this again"
  lacks protobuf-compiler has "${PROTOC:-protoc}"
  lacks libprotobuf-dev protoc_knows_well_known_types
  # librdkafka is compiled from source, by configure and make, and finds zlib through pkg-config.
  lacks make has make
  lacks g++ has "${CXX:-g++}"
  lacks gcc has "${CC:-cc}"
  lacks pkg-config has pkg-config
  lacks zlib1g-dev has_header zlib.h
  # Kafka by TLS and SCRAM.
  lacks libssl-dev has_header openssl/ssl.h
}

look_for_test_needs() {
  lacks curl has curl
  # Regions are processes of their own sessions, guarded by a lock.
  lacks util-linux has setsid
  # Certificates of brokers that are spoken to by TLS.
  lacks openssl has openssl
  # Game days cut networks of their own apart.
  lacks iproute2 has ip
  lacks nftables has nft
  # A Debian Python makes virtual environments only with this package.
  lacks python3-venv python3 -c 'import ensurepip, venv'
  # Java runs the broker, Maven fetches its jars. (Go, for etcd, is too old in Debian: its own script tells.)
  lacks default-jre-headless has java
  cmp -s "$here/kafka/pom.xml" "$tools/kafka/pom.xml" || lacks maven has mvn
}

look_for_bench_needs() {
  lacks redis-server has redis-server
}

install_missing() {
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
  if ! has apt-get || { [ "${#as_root[@]}" -gt 0 ] && ! has sudo; }; then
    die 2 "install by hand, then call this again (Debian's names): ${missing[*]}"
  fi
  say "installing ${missing[*]}"
  # The list may be months old, and an old list asks for versions that are gone. One second.
  ${as_root[@]+"${as_root[@]}"} apt-get update -qq >&2
  ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# look: fills `missing`.
look() {
  missing=()
  look_for_build_needs
  if [ "$what" != dev ]; then look_for_test_needs; fi
  if [ "$what" = bench ]; then look_for_bench_needs; fi
}

what=${1:-dev}
case $what in
  dev | test | bench) ;;
  *) die 2 "usage: infra/install.sh [dev|test|bench]" ;;
esac
look
if [ "${#missing[@]}" -gt 0 ]; then
  install_missing
  # Asked again, because what was looked for may be another than the package brings (PROTOC, CC, a Python of one's own).
  look
  [ "${#missing[@]}" -eq 0 ] || die 1 "still missing after the install: ${missing[*]}; look at PATH, PROTOC, CC and CXX"
fi
if [ "$what" != dev ]; then
  "$here/etcd/install.sh" >/dev/null
  "$here/kafka/install.sh" >/dev/null
fi
if [ "$what" = bench ] && [ ! -x "$tools/rnacos/bin/rnacos" ]; then
  say "building r-nacos 0.8.8 to measure beside (some ten minutes on two cores)"
  CARGO_TARGET_DIR="$scratch/rnacos" cargo install --quiet --locked rnacos --version 0.8.8 --root "$tools/rnacos"
fi
say "$what: all there"
