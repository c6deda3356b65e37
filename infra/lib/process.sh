# shellcheck shell=bash
# Processes that outlive the script: start, find again, signal, wait. Sourced. Reads `run_dir` of its caller.
#
# Each process leads a session of its own, so that a terminal's Ctrl-C or hang-up does not reach it, and is
# found again by run_dir/NAME/pid, which holds its pid and its start time. The kernel gives pids out again;
# the pair is unique while the machine is up, so a stranger with a reused pid is never signalled.

# stat_of PID: sets `stat_state` and `stat_start` (clock ticks since boot); fails when there is none.
stat_of() {
  local line='' fields
  # To the end of the file, which `read` reports as a failure; a line that is still empty is one.
  # Not $(<…): where the file is missing that ends the whole script, `||` or not (bash 5.2).
  { read -r -d '' line <"/proc/$1/stat"; } 2>/dev/null || [ -n "$line" ] || return 1
  # The second field is the program's name, in parentheses, and may itself hold spaces and parentheses.
  read -r -a fields <<<"${line##*) }"
  stat_state=${fields[0]:-} stat_start=${fields[19]:-}
  [ -n "$stat_start" ]
}

# find_process NAME: sets `pid` when the recorded process is still the one that runs.
find_process() {
  local start
  pid=
  { read -r pid start <"$run_dir/$1/pid"; } 2>/dev/null || return 1
  # A zombie has ended; only its parent has not looked yet (in a container perhaps never).
  stat_of "$pid" && [ "$stat_start" = "$start" ] && [ "$stat_state" != Z ] && [ "$stat_state" != X ]
}

# is_alive NAME
is_alive() { local pid; find_process "$1"; }

# was_started NAME: started and not ended by us. With `is_alive` false that means it died.
was_started() { [ -e "$run_dir/$1/pid" ]; }

# spawn NAME COMMAND…: in the folder of NAME, with its output in the file `log` there.
spawn() {
  local name=$1 folder=$run_dir/$1 child
  shift
  mkdir -p "$folder"
  printf -- '--- %s %s\n' "$(date -u +%FT%TZ)" "$*" >>"$folder/log"
  # The lock of `up` is closed in the child: it ends with the script, not with the region.
  (cd "$folder" && exec setsid "$@" </dev/null >>log 2>&1 8>&-) &
  child=$!
  # Only then the shell keeps quiet about its end.
  disown "$child" 2>/dev/null || :
  # One that is gone already is recorded with a start time that nothing has, and so found dead.
  stat_of "$child" || stat_start=0
  printf '%s %s\n' "$child" "$stat_start" >"$folder/pid.new"
  mv "$folder/pid.new" "$folder/pid"
}

# send SIGNAL NAME: nothing happens when the process is not there any more.
send() {
  local pid
  find_process "$2" || return 0
  kill -s "$1" "$pid" 2>/dev/null || :
}

# wait_gone SECONDS NAME…: true when all have ended in time; their pid files are then removed.
wait_gone() {
  local until=$((SECONDS + $1)) name left
  shift
  while :; do
    left=no
    for name in "$@"; do
      if is_alive "$name"; then left=yes; else rm -f "$run_dir/$name/pid"; fi
    done
    [ "$left" = yes ] || return 0
    [ "$SECONDS" -lt "$until" ] || return 1
    sleep 0.05
  done
}

# terminate SECONDS NAME…: asks all to end, at once. SIGCONT, as one that a test has frozen hears nothing.
terminate() {
  local seconds=$1 name
  shift
  for name in "$@"; do
    send TERM "$name"
    send CONT "$name"
  done
  wait_gone "$seconds" "$@"
}

# end SECONDS NAME…: as `terminate`, and by force when that takes too long.
end() {
  local seconds=$1 name
  shift
  if terminate "$seconds" "$@"; then return 0; fi
  for name in "$@"; do
    if is_alive "$name"; then
      say "$name did not end within $seconds s of SIGTERM: killed"
      send KILL "$name"
    fi
  done
  wait_gone 10 "$@"
}
