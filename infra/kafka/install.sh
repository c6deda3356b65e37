#!/usr/bin/env bash
# Copies the jars of one Kafka broker (pom.xml beside this file) once into the tools folder and prints
# the folder that holds them. start.sh runs a broker from there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../lib/tools.sh
. "$here/../lib/tools.sh"

libs=$tools/kafka/libs

# The folder is moved into place complete, so the stamp says it all: another pom is another set of jars.
is_there() { cmp -s "$here/pom.xml" "$tools/kafka/pom.xml"; }

if is_there; then echo "$libs"; exit 0; fi
lock_tools
if is_there; then echo "$libs"; exit 0; fi

has mvn || die 2 "Kafka's jars come through Maven: install Maven and a JDK, version 17 or newer"

say "fetching Kafka into $libs (some seconds, once)"
half=$(mktemp -d "$tools/kafka.XXXXXX")
trap 'rm -rf "$half"' EXIT
# Maven writes colour codes into logs, too.
mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$half/libs" -DincludeScope=runtime 2>&1 |
  sed 's/\x1b\[[0-9;]*m//g' >&2
cp "$here/pom.xml" "$half/pom.xml"
chmod 755 "$half"
rm -rf "$tools/kafka"
mv "$half" "$tools/kafka"
echo "$libs"
