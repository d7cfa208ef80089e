# shellcheck shell=bash
# What the scripts beside this file share: source it, do not run it.
# It keeps a virtual environment in .venv and touches nothing else on the machine. TENURE_VENV names
# another folder for it: scripts/test --matrix has one for each Python.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="${TENURE_VENV:-$ROOT/.venv}"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

say() { printf '%s\n' "$*" >&2; }

die() {
  say "error: $*"
  exit 1
}

# Print the comment block at the top of the calling script.
usage() { sed -n '2,/^$/{/^$/q;s/^# \{0,1\}//;p;}' "$0"; }

is_recent_python() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# $PYTHON if set, else python3, else a newer one by its full name.
find_python() {
  local candidate
  if [ -n "${PYTHON:-}" ]; then
    is_recent_python "$PYTHON" || die "PYTHON=$PYTHON is not a Python of at least 3.11."
    printf '%s\n' "$PYTHON"
    return
  fi
  for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if is_recent_python "$candidate"; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  die "Tenure needs Python 3.11 or newer and found none (python3 is $(python3 --version 2>&1 || true))." \
    "Install one, or name it: PYTHON=/path/to/python3.12 $0"
}

# A virtual environment has its own path written into its programs.
was_moved() {
  [ -f "$VENV/.root" ] && [ "$(cat "$VENV/.root")" != "$ROOT" ]
}

# What an installation depends on.
fingerprint() {
  printf '%s\n' "$ROOT"
  cat "$ROOT/pyproject.toml" "$ROOT/constraints.txt" "$ROOT/scripts/lib.sh" | cksum
}

is_installed() {
  local stamp="$VENV/.installed-$1"
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint)" ] && "$VENV/bin/python" -c '' 2>/dev/null
}

# pip, silent unless it fails.
quiet_pip() {
  local log="$VENV/pip.log"
  "$VENV/bin/python" -m pip "$@" >"$log" 2>&1 && return
  cat "$log" >&2
  die "pip could not install the packages (see above). The first set-up needs a package index;" \
    "after that everything works offline."
}

install() {
  local level="$1" python
  cd "$ROOT" || exit
  rm -f "$VENV"/.installed-*
  if was_moved || ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    python="$(find_python)"
    say "Creating ${VENV#"$ROOT/"} with $("$python" --version) ..."
    "$python" -m venv --clear "$VENV" >&2 ||
      die "$python cannot create virtual environments; on Debian and Ubuntu install python3-venv."
    printf '%s\n' "$ROOT" >"$VENV/.root"
  fi
  say "Installing Tenure and its $level packages into ${VENV#"$ROOT/"} (only when they change) ..."
  # Without build isolation the build tools are pinned too, and later builds need no index.
  quiet_pip install --constraint constraints.txt hatchling editables
  if [ "$level" = runtime ]; then
    quiet_pip install --no-build-isolation --constraint constraints.txt --editable '.[web]'
  else
    quiet_pip install --no-build-isolation --constraint constraints.txt --editable '.[dev]'
    # As wheels, from which tests fill empty environments, offline: the runtime packages, and what a
    # backend author needs for the contract.
    rm -rf "$VENV/wheels"
    quiet_pip wheel --no-build-isolation --constraint constraints.txt --wheel-dir "$VENV/wheels" . \
      hypothesis pytest pytest-asyncio
    rm -f "$VENV"/wheels/tenure-*.whl
    fingerprint >"$VENV/.installed-dev"
  fi
  fingerprint >"$VENV/.installed-runtime"
}

# ensure_venv runtime|dev: make .venv fit pyproject.toml and constraints.txt, if it does not yet.
ensure_venv() {
  is_installed "$1" && return
  (
    # Two scripts started together must not install into each other.
    if command -v flock >/dev/null 2>&1; then
      mkdir -p "$(dirname "$VENV")"
      exec 9>"$VENV.lock"
      flock 9
    fi
    is_installed "$1" || install "$1"
  )
}
