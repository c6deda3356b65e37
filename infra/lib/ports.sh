# shellcheck shell=bash
# Which ports are free. Sourced. Reads the kernel's table of listeners instead of trying to connect: that
# sees a listener that does not accept, and leaves no traces in anybody's log.

# listening_ports: one number a line, of both address families; a listener on [::] takes 127.0.0.1 as well.
listening_ports() {
  local hex
  awk '$4 == "0A" { n = split($2, address, ":"); print address[n] }' /proc/net/tcp /proc/net/tcp6 2>/dev/null |
    while read -r hex; do echo $((16#$hex)); done
}

# read_taken: sets the associative array `taken`.
read_taken() {
  local port
  declare -gA taken=()
  while read -r port; do taken[$port]=1; done < <(listening_ports)
}

# require_free NAME…: ends the script with a sentence at the first port that something listens on.
require_free() {
  local name port use
  read_taken
  for name in "$@"; do
    while read -r port use; do
      if [ -n "${taken[$port]:-}" ]; then
        die 2 "port $port is taken, and $name wants it ($use): stop what listens there or choose another" \
          "--base-port ('infra/regions.sh free-base-port' finds one)"
      fi
    done < <(ports_of "$name")
  done
}

# all_ports BASE
all_ports() {
  local base_port=$1 name
  for name in $(all_names); do ports_of "$name"; done | cut -d ' ' -f 1
}

# free_base_port: prints a base whose ports are all free, below the range that the kernel gives to outgoing
# connections. A base stays reserved for a minute after it was given out: two tests that ask at the same
# time, before either listens, must not get ports in common.
free_base_port() {
  local ledger=${TMPDIR:-/tmp}/rollcall-base-ports.$(id -u) now base since port offsets kept='' try
  now=$(date +%s)
  base_port=0 && offsets=$(all_ports 0)
  exec 7>>"$ledger"
  flock 7
  read_taken
  while read -r base since; do
    [ $((now - since)) -lt 60 ] || continue
    kept+="$base $since"$'\n'
    for port in $offsets; do taken[$((base + port))]=1; done
  done <"$ledger"
  for ((try = 0; try < 1000; try++)); do
    base=$((10000 + (RANDOM * 32768 + RANDOM) % (28000 - 10000)))
    for port in $offsets; do
      if [ -n "${taken[$((base + port))]:-}" ]; then continue 2; fi
    done
    printf '%s%s %s\n' "$kept" "$base" "$now" >"$ledger"
    echo "$base"
    return 0
  done
  die 1 "no base port between 10000 and 28000 has all its ports free"
}
