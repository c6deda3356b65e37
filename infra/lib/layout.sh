# shellcheck shell=bash
# What a run of three regions consists of: names, ports, folders, settings, commands. Pure but for
# `render`; starts and stops nothing. Sourced. Reads `base_port`, `run_dir` and `bin` of its caller.

regions=(us-east eu-west ap-south)
# The files under infra/regions are written for this base port and this run folder.
written_base_port=7400
written_run_dir=.run/regions
# Distance from the base to the highest port of a run.
port_span=491

# all_names: in the order of starting; everything needs only what stands before it.
all_names() {
  local region role
  for region in "${regions[@]}"; do echo "$region/etcd"; done
  echo kafka
  for role in cell replicator; do
    for region in "${regions[@]}"; do echo "$region/$role"; done
  done
}

# No pipe into a reader that leaves early, here and below: the writer's broken pipe would count as "no".
is_name() {
  local name
  for name in $(all_names); do [ "$name" != "$1" ] || return 0; done
  return 1
}

# select_names LIST: names, roles (etcd, kafka, cell, replicator) or regions, by commas → names in order.
select_names() {
  local word name known wanted=()
  IFS=, read -r -a wanted <<<"$1"
  for word in ${wanted[@]+"${wanted[@]}"}; do
    known=no
    for name in $(all_names); do
      if is_selected "$name" "$word"; then known=yes; fi
    done
    [ "$known" = yes ] || die 2 "there is no process '$word': say one of $(all_names | paste -sd ' ')"
  done
  for name in $(all_names); do
    for word in ${wanted[@]+"${wanted[@]}"}; do
      if is_selected "$name" "$word"; then
        echo "$name"
        break
      fi
    done
  done
}

# is_selected NAME WORD
is_selected() { [ "$1" = "$2" ] || [ "${1%/*}" = "$2" ] || [ "${1#*/}" = "$2" ]; }

# ports_of NAME: one line `PORT USE` for each port, the one that tells readiness first.
ports_of() {
  local at=$base_port region
  for region in "${regions[@]}"; do
    [ "$region" != "${1%/*}" ] || break
    at=$((at + 10))
  done
  case $1 in
    kafka) printf '%d broker\n%d controller\n' $((base_port + 490)) $((base_port + 491)) ;;
    */etcd) printf '%d client\n%d peer\n' $((at + 400)) $((at + 401)) ;;
    */cell) printf '%d http\n%d grpc\n' "$at" $((at + 1)) ;;
    */replicator) printf '%d http\n%d grpc\n' $((at + 101)) $((at + 100)) ;;
  esac
}

# main_port NAME: the port that tells readiness.
main_port() { ports_of "$1" | awk 'NR == 1 { print $1 }'; }

# address_of NAME: what a person or a client connects to.
address_of() {
  case $1 in
    kafka) echo "127.0.0.1:$(main_port kafka)" ;;
    *) echo "http://127.0.0.1:$(main_port "$1")" ;;
  esac
}

# command_of NAME: sets the array `command`.
command_of() {
  local folder=$run_dir/$1
  case $1 in
    kafka) command=("$repo/infra/kafka/start.sh" "$folder/server.properties") ;;
    */etcd) command=("$tools/etcd/bin/etcd" --config-file "$folder/etcd.yaml") ;;
    */cell) command=("$bin" cell --config "$folder/cell.toml") ;;
    */replicator) command=("$bin" replicator --config "$folder/replicator.toml") ;;
  esac
}

# render NAME: writes the settings of one process into its folder, for this run's ports and folders.
render() {
  local folder=$run_dir/$1 port use
  mkdir -p "$folder"
  case $1 in
    kafka)
      { read -r port _ && read -r use _; } < <(ports_of kafka)
      fill BROKER_PORT "$port" CONTROLLER_PORT "$use" DATA_DIR "$folder/data" \
        <"$repo/infra/kafka/server.properties.template" >"$folder/server.properties"
      ;;
    */etcd)
      { read -r port _ && read -r use _; } < <(ports_of "$1")
      fill NAME "${1%/*}" CLIENT_PORT "$port" PEER_PORT "$use" DATA_DIR "$folder/data" \
        <"$repo/infra/etcd/etcd.yaml.template" >"$folder/etcd.yaml"
      ;;
    *) shift_to_run <"$repo/infra/regions/$1.toml" >"$folder/${1#*/}.toml" ;;
  esac
}

# fill KEY VALUE …: stdin with every @KEY@ replaced.
fill() {
  local text
  text=$(cat)
  while [ "$#" -gt 0 ]; do
    text=${text//"@$1@"/"$2"}
    shift 2
  done
  printf '%s\n' "$text"
}

# shift_to_run: stdin with the written run folder replaced and every loopback port moved by the same step.
shift_to_run() {
  local line rest
  while IFS= read -r line || [ -n "$line" ]; do
    line=${line//"\"$written_run_dir/"/"\"$run_dir/"}
    rest=''
    while [[ $line =~ ^(.*127\.0\.0\.1:)([0-9]+)(.*)$ ]]; do
      # The match is the last port of the line: what is behind it is done.
      rest=$((BASH_REMATCH[2] - written_base_port + base_port))${BASH_REMATCH[3]}$rest
      line=${BASH_REMATCH[1]%127.0.0.1:}
      rest=127.0.0.1:$rest
    done
    printf '%s\n' "$line$rest"
  done
}
