# shellcheck shell=bash
# Where the repository and its downloaded tools are, and how these scripts speak. Sourced, never run.

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# One folder for everything that is built or downloaded once. Several checkouts may share it through
# ROLLCALL_TOOLS; integration tests look in the same place.
tools=${ROLLCALL_TOOLS:-$repo/.tools}
case $tools in /*) ;; *) tools=$PWD/$tools ;; esac
# Scripts that these scripts start run in other folders.
export ROLLCALL_TOOLS=$tools

# Three scripts are called install.sh, so each speaks by its path in the repository.
speaker=$(cd "$(dirname "$0")" && pwd)/${0##*/}
speaker=${speaker#"$repo"/}

# For the words to people: stdout is kept for results that another program may read.
say() { printf '%s: %s\n' "$speaker" "$*" >&2; }

# die CODE MESSAGE: 2 is a wrong call or a missing thing that a person must supply, 1 a failure.
die() {
  local code=$1
  shift
  say "$@"
  exit "$code"
}

has() { command -v "$1" >/dev/null 2>&1; }

# Two installs at once would build twice or see half a folder: the second waits for the first.
# Without flock (not Linux) they only build twice, as every folder is moved into place when complete.
lock_tools() {
  mkdir -p "$tools"
  has flock || return 0
  exec 9>"$tools/.lock"
  flock 9
}
