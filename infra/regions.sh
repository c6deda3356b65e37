#!/usr/bin/env bash
# Three regions on one machine as real processes: an etcd, a cell and a replicator each, and one Kafka
# broker for all. `usage` below tells the verbs. Needs Linux (/proc) and what infra/install.sh test installs.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib/tools.sh
. "$(cd "$(dirname "$0")" && pwd)/lib/tools.sh"
# shellcheck source-path=SCRIPTDIR source=lib/layout.sh
. "$repo/infra/lib/layout.sh"
# shellcheck source-path=SCRIPTDIR source=lib/process.sh
. "$repo/infra/lib/process.sh"
# shellcheck source-path=SCRIPTDIR source=lib/ports.sh
. "$repo/infra/lib/ports.sh"
# shellcheck source-path=SCRIPTDIR source=lib/ready.sh
. "$repo/infra/lib/ready.sh"
# shellcheck source-path=SCRIPTDIR source=lib/up.sh
. "$repo/infra/lib/up.sh"

usage() {
  cat <<'TEXT'
usage: infra/regions.sh VERB [NAME…] [OPTION…]
  up              starts all that does not run yet, waits until it can be used, prints one line `ready …`
  down            ends all, keeps the data; with --wipe removes it
  status          one line per process; exit 1 unless all that was started runs
  start NAME…     starts again what was ended, without waiting; `wait` waits
  stop NAME…      SIGTERM, and waits until it has ended
  kill NAME…      SIGKILL, likewise
  wait NAME…      waits until it can be used
  pid NAME        prints its process id
  free-base-port  prints a base port whose ports are all free
NAME is kafka, or REGION/etcd, REGION/cell, REGION/replicator with us-east, eu-west or ap-south.
  --run-dir DIR   settings, data and logs of the run; default .run/regions in the repository
  --base-port N   up: the cells' HTTP ports are N, N+10, N+20, the others relative to it; default 7400
  --bin PATH      up: the rollcall binary; default target/debug/rollcall
  --only LIST     up: only these: names, roles or regions, by commas (etcd,kafka or us-east/etcd)
  --timeout S     up, stop, wait: how long to wait at most; default 90
  --wipe          down: removes the run's data, settings and logs
A run folder remembers its base port and binary. Runs with different folders and ports do not meet.
Exit 0 done, 2 a wrong call or a port that is taken, 1 anything else.
TEXT
}

read_arguments() {
  verb=${1:-help}
  shift || :
  names=() run_dir=$repo/.run/regions base_port='' bin='' only='' timeout=90 wipe=no
  while [ "$#" -gt 0 ]; do
    case $1 in
      --wipe) wipe=yes ;;
      --run-dir | --base-port | --bin | --only | --timeout)
        [ "$#" -ge 2 ] || die 2 "$1 needs a value"
        case $1 in
          --run-dir) run_dir=$2 ;;
          --base-port) base_port=$2 ;;
          --bin) bin=$2 ;;
          --only) only=$2 ;;
          --timeout) timeout=$2 ;;
        esac
        shift
        ;;
      -*) die 2 "there is no option $1; infra/regions.sh help lists them" ;;
      *)
        is_name "$1" || die 2 "there is no process '$1': say one of $(all_names | paste -sd ' ')"
        names+=("$1")
        ;;
    esac
    shift
  done
  [[ $timeout =~ ^(0|[1-9][0-9]*)$ ]] || die 2 "--timeout takes whole seconds, not '$timeout'"
  case $run_dir in /*) ;; *) run_dir=$PWD/$run_dir ;; esac
  # It is written into TOML, YAML and properties files, each with an escape of its own.
  case $run_dir in *[\"\\]*) die 2 "a run folder may not have quotes or backslashes in its name" ;; esac
}

# read_run: what `up` left in the run folder.
read_run() {
  [ -r "$run_dir/base-port" ] || die 2 "nothing was brought up in $run_dir: infra/regions.sh up does"
  base_port=$(<"$run_dir/base-port") bin=$(<"$run_dir/bin")
}

need_names() { [ "${#names[@]}" -gt 0 ] || die 2 "$verb needs the name of a process, such as us-east/cell"; }

# Only one `up` or `down` at a time works on a run folder. The kernel lets go when the script ends.
lock_run() {
  exec 8>"$run_dir/.lock"
  flock -n 8 || die 2 "another up or down is at work in $run_dir"
}

do_down() {
  [ -d "$run_dir" ] || { say "nothing runs in $run_dir"; return 0; }
  local name first=() last=()
  lock_run
  # Writers and readers before what they stand on, so that they can finish what is in flight.
  for name in $(all_names); do
    case $name in
      */cell | */replicator) first+=("$name") ;;
      *) last+=("$name") ;;
    esac
  done
  end 20 "${first[@]}" || die 1 "not all of $run_dir could be ended; status tells"
  end 20 "${last[@]}" || die 1 "not all of $run_dir could be ended; status tells"
  if [ "$wipe" != yes ]; then
    say "all of $run_dir has ended; its data is kept, and \`up\` goes on from it"
    return 0
  fi
  # By name, not the whole folder: it may be one that holds other things as well.
  for name in kafka "${regions[@]}" base-port bin .lock; do rm -rf "${run_dir:?}/$name"; done
  rmdir "$run_dir" 2>/dev/null || :
  say "all of $run_dir has ended, and its data is removed"
}

do_status() {
  local name pid state all=0
  read_run
  for name in $(all_names); do
    pid=-
    if ! was_started "$name"; then
      state=stopped pid=-
    elif ! find_process "$name"; then
      state=died pid=- all=1
    elif is_ready "$name"; then
      state=ready
    else
      state=running
    fi
    printf '%-20s %-8s %-8s %-24s %s\n' "$name" "$state" "$pid" "$(address_of "$name")" "$run_dir/$name/log"
  done
  return "$all"
}

do_start() {
  local name command
  for name in "${names[@]}"; do
    if is_alive "$name"; then
      say "$name runs already"
      continue
    fi
    [ -d "$run_dir/$name" ] || die 2 "$name was never brought up in $run_dir: infra/regions.sh up --only $name does"
    require_free "$name"
    command_of "$name"
    spawn "$name" "${command[@]}"
  done
}

read_arguments "$@"
case $verb in
  up) do_up ;;
  down) do_down ;;
  status) do_status ;;
  start) need_names && read_run && do_start ;;
  stop)
    need_names
    terminate "$timeout" "${names[@]}" || die 1 "not all of these ended within $timeout s of SIGTERM: ${names[*]}"
    ;;
  kill)
    need_names
    for name in "${names[@]}"; do send KILL "$name"; done
    wait_gone 10 "${names[@]}" || die 1 "not all of these ended within 10 s of SIGKILL: ${names[*]}"
    ;;
  wait)
    need_names && read_run
    wait_ready $((SECONDS + timeout)) "${names[@]}" || { report_failure; exit 1; }
    ;;
  pid)
    need_names
    find_process "${names[0]}" || die 1 "${names[0]} does not run in $run_dir"
    echo "$pid"
    ;;
  free-base-port) free_base_port ;;
  help | --help | -h) usage ;;
  *) die 2 "there is no verb '$verb'; infra/regions.sh help lists them" ;;
esac
