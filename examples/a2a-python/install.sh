#!/usr/bin/env bash
# Makes the virtual environments of this example, once: a2a-1.0 and a2a-0.3 under ${ROLLCALL_TOOLS:-<repository>/.tools}.
# Usage: install.sh [1.0|0.3|all]. PYTHON names another interpreter than python3 (3.10 or later).
# A second run does nothing until the requirements file changes.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tools=${ROLLCALL_TOOLS:-$here/../../.tools}
python=${PYTHON:-python3}

install() {
  local protocol=$1
  local requirements=$here/requirements-$protocol.txt
  local venv=$tools/a2a-$protocol
  local checksum
  checksum=$(cksum <"$requirements")

  # The stamp is written last, so a run that was cut short starts again from nothing.
  if [[ $(cat "$venv/installed" 2>/dev/null) == "$checksum" ]] && "$venv/bin/python" -c '' 2>/dev/null; then
    return
  fi
  echo "install a2a-$protocol into $venv" >&2
  "$python" -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$requirements" >&2
  echo "$checksum" >"$venv/installed"
}

case ${1:-all} in
  1.0 | 0.3) protocols=("$1") ;;
  all) protocols=(1.0 0.3) ;;
  *)
    echo "usage: install.sh [1.0|0.3|all]" >&2
    exit 2
    ;;
esac

mkdir -p "$tools"
tools=$(cd "$tools" && pwd)
# Two tests may ask at the same time; the second waits and then finds the work done.
if command -v flock >/dev/null; then
  exec 9>"$tools/a2a.lock"
  flock 9
fi
for protocol in "${protocols[@]}"; do
  install "$protocol"
done
