# shellcheck shell=bash
# The verb `up`. Sourced by regions.sh. Starts only what does not run yet and, when it cannot finish, ends
# only what it started itself: an `up` that fails never takes down what was there.
# shellcheck disable=SC2046,SC2086 # names have no spaces, so a list of them may be split

do_up() {
  local began selected missing=() name
  began=$(date +%s%N)
  # Through a variable: a `die` in there must end the script.
  selected=$(select_names "${only:-etcd,kafka,cell,replicator}")
  settle_run
  lock_run
  for name in $selected; do
    is_alive "$name" || missing+=("$name")
  done
  started=() whole=no
  trap undo_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  if [ "${#missing[@]}" -gt 0 ]; then
    require_tools "${missing[@]}"
    require_free "${missing[@]}"
    printf '%s\n' "$base_port" >"$run_dir/base-port"
    printf '%s\n' "$bin" >"$run_dir/bin"
    say "starting ${missing[*]}"
    bring_up $((SECONDS + timeout)) "${missing[@]}" || { report_failure; exit 1; }
  fi
  wait_usable $((SECONDS + timeout)) $selected || { report_failure; exit 1; }
  whole=yes
  print_ready "$(($(date +%s%N) - began))" $selected
}

# settle_run: which ports and which binary: as told, else as this run folder had it, else the defaults.
settle_run() {
  local recorded='' name
  mkdir -p "$run_dir"
  run_dir=$(cd "$run_dir" && pwd)
  if [ -r "$run_dir/base-port" ]; then recorded=$(<"$run_dir/base-port"); fi
  base_port=${base_port:-${recorded:-$written_base_port}}
  if ! [[ $base_port =~ ^[1-9][0-9]{3,4}$ ]] || [ $((base_port + port_span)) -gt 65535 ]; then
    die 2 "a base port is a number from 1000 to $((65535 - port_span)), not '$base_port'"
  fi
  if [ "${recorded:-$base_port}" != "$base_port" ]; then
    for name in $(all_names); do
      is_alive "$name" || continue
      die 2 "$name of this run folder runs with base port $recorded: bring it down before another is used"
    done
  fi
  if [ -z "$bin" ] && [ -r "$run_dir/bin" ]; then bin=$(<"$run_dir/bin"); fi
  if [ -z "$bin" ]; then
    bin=${CARGO_TARGET_DIR:-target}/debug/rollcall
    case $bin in /*) ;; *) bin=$repo/$bin ;; esac
  fi
  case $bin in /*) ;; *) bin=$PWD/$bin ;; esac
}

# require_tools NAME…: says what is missing before anything is started.
require_tools() {
  local name
  for name in "$@"; do
    case $name in
      kafka) [ -d "$tools/kafka/libs" ] || die 2 "Kafka is not installed: run infra/install.sh test" ;;
      */etcd) [ -x "$tools/etcd/bin/etcd" ] || die 2 "etcd is not installed: run infra/install.sh test" ;;
      *) [ -f "$bin" ] && [ -x "$bin" ] || die 2 "there is no $bin: run cargo build -p rollcall, or name another with --bin" ;;
    esac
  done
}

# bring_up DEADLINE NAME…: each as soon as what it stands on can be used. Kafka takes seconds, so the cells
# start and load meanwhile.
bring_up() {
  local deadline=$1 etcds cells
  shift
  etcds=$(matching '*/etcd' "$@") cells=$(matching '*/cell' "$@")
  launch $etcds $(matching kafka "$@")
  wait_ready "$deadline" $etcds || return 1
  launch $cells
  wait_ready "$deadline" $(matching kafka "$@") || return 1
  launch $(matching '*/replicator' "$@")
}

# matching PATTERN NAME…
matching() {
  local pattern=$1 name
  shift
  for name in "$@"; do
    # shellcheck disable=SC2254 # a pattern is what is wanted
    case $name in $pattern) echo "$name" ;; esac
  done
}

# launch NAME…
launch() {
  local name command
  for name in "$@"; do
    render "$name"
    command_of "$name"
    started+=("$name")
    spawn "$name" "${command[@]}"
  done
}

# wait_usable DEADLINE NAME…
wait_usable() {
  wait_ready "$@" || return 1
  # A cell can show the other regions only where all the processes are there.
  [ "$(($# - 1))" -eq "$(all_names | wc -l)" ] || return 0
  wait_until views_are_loaded "$1" $(matching '*/cell' "$@") && return 0
  why="shows a region that was never loaded: $regions_seen"
  return 1
}

undo_up() {
  [ "$whole" = yes ] || [ "${#started[@]}" -eq 0 ] || end 10 "${started[@]}"
}

# print_ready NANOSECONDS NAME…: one line for programs, three for people.
print_ready() {
  local took=$(($1 / 100000000)) name cells line url
  shift
  # Cells are what a person talks to; where there is none, whatever was asked for.
  cells=$(matching '*/cell' "$@")
  line="ready base_port=$base_port run_dir=$run_dir"
  if [ -n "$cells" ]; then set -- $cells; fi
  for name in "$@"; do line+=" $name=$(address_of "$name")"; done
  printf '%s seconds=%d.%d\n' "$line" $((took / 10)) $((took % 10))
  [ -n "$cells" ] || return 0
  url=$(address_of "$1")
  printf '  curl %s/v1/regions\n' "$url"
  printf '  ROLLCALL_URL=%s %q agents --region all\n' "$url" "$bin"
  printf '  infra/regions.sh status --run-dir %q    (`make regions-down`, or `down` with the same folder, ends it)\n' "$run_dir"
}
