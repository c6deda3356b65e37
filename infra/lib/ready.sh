# shellcheck shell=bash
# When a process may be used. Sourced. A probe asks once and answers at once; waiting, with a deadline and
# an eye on processes that die meanwhile, is `wait_ready`.

get() { curl -sS --noproxy '*' --max-time 2 "$@" 2>/dev/null; }

# etcd's own health check is a linearizable read.
etcd_is_ready() { [[ $(get "http://127.0.0.1:$1/health") == *'"health":"true"'* ]]; }

http_is_ready() { [ "$(get -o /dev/null -w '%{http_code}' "http://127.0.0.1:$1/readyz")" = 200 ]; }

# A broker's port opens before it takes requests, so this asks for metadata (request 3, version 7, no topic)
# and wants at least one live broker in the answer: its count is bytes 13 to 16.
kafka_is_ready() {
  local answer
  answer=$(
    exec 2>/dev/null 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
    printf '\0\0\0\024\0\003\0\007\0\0\0\001\0\005ready\0\0\0\0\0' >&3
    timeout 2 head -c 16 <&3 | od -An -v -tx1 | tr -d ' \n'
  ) || return 1
  [ "${#answer}" -eq 32 ] && [ $((16#${answer:24:8})) -ge 1 ]
}

# is_ready NAME: a port that answers proves nothing unless our process is there to own it.
is_ready() {
  local port
  port=$(main_port "$1")
  case $1 in
    kafka) kafka_is_ready "$port" ;;
    */etcd) etcd_is_ready "$port" ;;
    *) http_is_ready "$port" ;;
  esac && is_alive "$1"
}

# views_are_loaded NAME: does this cell say of no region that it was never loaded? Sets `regions_seen`.
views_are_loaded() {
  regions_seen=$(get "http://127.0.0.1:$(main_port "$1")/v1/regions") || return 1
  [[ $regions_seen == *'"regions"'* && $regions_seen != *'"not_loaded"'* ]]
}

# wait_until PROBE DEADLINE NAME…: until the probe is true for every name; DEADLINE is a value of $SECONDS.
# When a process dies or time is up it fails and sets `failed` (the name) and `why`.
wait_until() {
  local probe=$1 deadline=$2 name waiting
  shift 2
  while [ "$#" -gt 0 ]; do
    waiting=()
    for name in "$@"; do
      failed=$name
      if ! is_alive "$name"; then
        why="ended by itself"
        return 1
      fi
      "$probe" "$name" || waiting+=("$name")
    done
    set -- ${waiting[@]+"${waiting[@]}"}
    [ "$#" -gt 0 ] || break
    failed=$1
    if [ "$SECONDS" -ge "$deadline" ]; then
      why="was not ready in time"
      return 1
    fi
    sleep 0.1
  done
}

wait_ready() { wait_until is_ready "$@"; }

# report_failure: what failed, why, and the end of its log since it was last started, on stderr.
report_failure() {
  say "$failed $why; the end of $run_dir/$failed/log:"
  awk '/^--- / { n = 0 } { line[n++] = $0 } END { for (i = n > 20 ? n - 20 : 0; i < n; i++) print "  | " line[i] }' \
    "$run_dir/$failed/log" >&2
}
