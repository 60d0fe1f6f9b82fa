# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The package's Python in target/python/venv, with maturin, Optuna, pytest and mypy, pinned. To be sourced; sets
# BUILD and PYTHON.

BUILD=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/target/python
PYTHON=$BUILD/venv/bin/python
TOOLS='maturin==1.16.0 optuna==5.0.0 pytest==9.2.0 mypy==2.4.1'

# Fails with a message if they cannot be installed.
python_tools() {
	command -v python3 >/dev/null || { echo 'Error: no python3' >&2; return 1; }
	[ "$(cat "$BUILD/tools" 2>/dev/null)" != "$TOOLS" ] || return 0
	echo "installing $TOOLS into $BUILD/venv" >&2
	mkdir -p "$BUILD" && python3 -m venv "$BUILD/venv" >&2 || { echo 'Error: python3 -m venv fails (Debian: apt-get install python3-venv)' >&2; return 1; }
	# shellcheck disable=SC2086 # split into words on purpose
	"$PYTHON" -m pip install -q --disable-pip-version-check --only-binary :all: $TOOLS >&2 || { echo "Error: pip cannot install $TOOLS" >&2; return 1; }
	echo "$TOOLS" >"$BUILD/tools"
}
