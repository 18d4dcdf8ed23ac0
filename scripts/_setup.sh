# Sourced by the scripts beside it: creates .venv with all they need, once. Needs bash 3.2 and Python 3.11.
# Afterwards $root is the checkout (and the current directory), $venv_python the interpreter in .venv.
# PYTHON=/path/to/python chooses another interpreter for a new .venv.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$(pwd -P)
venv_python=$root/.venv/bin/python

say() { printf '%s\n' "$*" >&2; }
fail() { say "setup: $1"; shift; for line in "$@"; do say "       $line"; done; exit 2; }

# Sets $python to the first interpreter that is new enough and can create a virtual environment.
find_python() {
  local candidate report seen=""
  for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python; do
    report=$("$candidate" -c '
import sys
version = "%d.%d" % sys.version_info[:2]
if sys.version_info < (3, 11): print(version + " is too old"); sys.exit()
try: import ensurepip, venv
except ImportError: print(version + " lacks the venv module"); sys.exit()
print("ok")' 2>/dev/null) || continue
    if [ "$report" = ok ]; then python=$candidate; return; fi
    seen="$seen, $candidate: $report"
  done
  case $seen in
    "") fail "no Python was found." "Logdex needs Python 3.11 or newer: install it, or name it: PYTHON=/path/to/python $0" ;;
    *lacks*) fail "no Python here can make a virtual environment (${seen#, })." \
      "Install its venv module (Debian, Ubuntu: apt install python3-venv), then run $0 again." ;;
    *) fail "Python is too old (${seen#, })." \
      "Logdex needs Python 3.11 or newer: install it, or name it: PYTHON=/path/to/python $0" ;;
  esac
}

# Where and from what .venv was created: if this text is unchanged, there is nothing to do.
wanted_stamp() { printf '%s\n' "$root" && cat pyproject.toml constraints.txt; }
is_ready() { [ -x "$venv_python" ] && [ "$(cat .venv/setup.stamp 2>/dev/null)" = "$(wanted_stamp)" ]; }

run_pip() {
  "$venv_python" -m pip --disable-pip-version-check --no-input "$@" >> .venv/setup.log 2>&1 && return
  tail -n 5 .venv/setup.log >&2
  case $(tail -n 40 .venv/setup.log) in
    *"No space left"*) fail "the disk is full." "About 2 GB are needed below $root and in ${TMPDIR:-/tmp}." ;;
    *"from versions: none"* | *NewConnectionError* | *"onnection broken"* | *"name resolution"* | *ConnectTimeout* | *ProxyError* | *SSLError*)
      fail "pip could not reach a package index." \
        "Check the network, the proxy (HTTPS_PROXY) or pip's own settings (pip config list), then run $0 again." ;;
    *) fail "pip could not install the packages; its output is in $root/.venv/setup.log" \
      "constraints.txt is tested with Python 3.11 to 3.14; PYTHON=/path/to/python $0 chooses one (remove .venv first)." ;;
  esac
}

install() {
  if ! { [ -x "$venv_python" ] && "$venv_python" -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }; then
    find_python
    say "setup: making .venv with $("$python" -c 'import sys; print(sys.executable, sys.version.split()[0])')"
    "$python" -m venv --clear .venv >&2 || fail "$python could not make .venv" "Remove $root/.venv and run $0 again."
  fi
  say "setup: installing packages (once: a minute or two, about 2 GB on disk)"
  : > .venv/setup.log
  # pip builds packages without a wheel in separate environments; the two variables (for old and new pip) pin
  # their packages.
  PIP_CONSTRAINT=$root/constraints.txt PIP_BUILD_CONSTRAINT=$root/constraints.txt \
    run_pip install -c constraints.txt -e '.[dev]'
  say "setup: compiling for this machine"
  # Where PYTHONDONTWRITEBYTECODE is set, each command would else compile its modules again.
  "$venv_python" -m compileall -q src >> .venv/setup.log 2>&1 || say "setup: not compiled: see .venv/setup.log"
  "$venv_python" -m logdex warm-up >> .venv/setup.log 2>&1 || say "setup: not compiled: see .venv/setup.log"
  wanted_stamp > .venv/setup.stamp
  say "setup: done in $SECONDS s"
}

# One set-up runs at a time. A lock whose process has ended is taken over.
setup() {
  is_ready && return
  local lock=$root/.venv.lock holder
  until mkdir "$lock" 2>/dev/null; do
    [ -d "$lock" ] || fail "cannot write to $root"
    holder=$(cat "$lock/pid" 2>/dev/null || true)
    if [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; then rm -rf "$lock"; continue; fi
    say "setup: waiting for process ${holder:-?}, which sets up .venv (if there is none: rm -r $lock)"
    sleep 3
  done
  trap 'rm -rf "$root/.venv.lock"' EXIT
  trap 'exit 130' INT TERM
  echo $$ > "$lock/pid"
  is_ready || install
  rm -rf "$lock"
  trap - EXIT INT TERM
}

setup
