#!/usr/bin/env bash
# Everything that must hold before a change lands, cheapest first; stops at the first step that fails and
# ends with one line per step and its duration. `make test` and .ci/run are exactly this.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib/tools.sh
. "$(cd "$(dirname "$0")" && pwd)/lib/tools.sh"
cd "$repo"

summary=()
left_out=()
# Also after a failure or an interrupt: what took how long is then of interest, too.
print_summary() { printf '%s\n' '' ${summary[@]+"${summary[@]}"} ${left_out[@]+"${left_out[@]}"}; }
trap print_summary EXIT

# step TITLE COMMAND…
step() {
  local title=$1 began=$SECONDS verdict=ok
  shift
  printf '\n== %s\n' "$title"
  "$@" || verdict=FAILED
  summary+=("$(printf '%6d s  %-6s  %s' $((SECONDS - began)) "$verdict" "$title")")
  [ "$verdict" = ok ] || exit 1
}

step "install what is missing" infra/install.sh test
step "format" cargo fmt --check
step "lints" cargo clippy --workspace --all-targets -- -D warnings
step "documentation" env RUSTDOCFLAGS="${RUSTDOCFLAGS:-} -D warnings" cargo doc --no-deps --workspace
# The tests start this binary; built on its own it has none of the features that only tests turn on.
step "the binary" cargo build -p rollcall
step "tests" cargo test --workspace

# The shortest game day. Where nobody may make namespaces it cannot be played, and the summary says that.
game_day() {
  local code=0
  cargo build -p rollcall -p rollcall-chaos
  "${CARGO_TARGET_DIR:-target}/debug/rollcall-chaos" game-day zone-partition-short || code=$?
  [ "$code" -eq 2 ] || return "$code"
  left_out+=("   left out: the game day; what it lacks here stands above")
}
step "a game day" game_day
