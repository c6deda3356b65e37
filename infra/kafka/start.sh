#!/usr/bin/env bash
# Runs one broker in the foreground: infra/kafka/start.sh SERVER.PROPERTIES [FORMAT-OPTION…]
# Formats its log folder the first time, with these options: `--add-scram …` for a user. KAFKA_CLUSTER_ID is the id
# that all brokers of one cluster share; left out, the broker is a cluster of its own. The broker takes over this process, so its pid is the caller's.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../lib/tools.sh
. "$here/../lib/tools.sh"

[ "$#" -ge 1 ] || die 2 "usage: infra/kafka/start.sh SERVER.PROPERTIES [FORMAT-OPTION…]"
properties=$1
shift
[ -r "$properties" ] || die 2 "cannot read $properties"
libs=$tools/kafka/libs
[ -d "$libs" ] || die 2 "Kafka is not installed in $libs: run infra/install.sh test"
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
has "$java" || die 2 "Java is missing: run infra/install.sh test"

data=$(sed -n 's/^log\.dirs=//p' "$properties")
[ -n "$data" ] || die 2 "$properties names no log.dirs"

if [ ! -e "$data/meta.properties" ]; then
  # A cluster id is 16 bytes in URL-safe base64. A leading dash would be read as an option.
  id=${KAFKA_CLUSTER_ID:-$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | cut -c 1-22 | sed 's/^-/A/')}
  # One that was killed half-way left some of it behind: then it is finished, not refused.
  "$java" -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$libs/*" \
    kafka.tools.StorageTool format --ignore-formatted -t "$id" -c "$properties" "$@"
fi

# Tuned to start fast and stay small (300 MB), not for throughput.
exec "$java" -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+ExitOnOutOfMemoryError \
  -Dorg.slf4j.simpleLogger.showDateTime=true -Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS \
  -cp "$libs/*" kafka.Kafka "$properties"
