# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Installs what ./demo and ./test need on Debian 12 or newer. To be sourced; prints what it installs.

: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
export HOME PATH="$HOME/.cargo/bin:$PATH"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

RUST_OLDEST=1.88 # let chains

say() { printf '%s\n' "$*"; }

give_up() { # WHAT NEXT_STEP
	printf 'Error: %s\nHint: %s\n' "$1" "$2" >&2
	return 1
}

# Installs the missing ones of these packages. If that is not possible, fails and prints the command to run.
install_packages() { # PACKAGE…
	local missing
	missing=$(for package; do dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed$' || echo "$package"; done)
	[ -n "$missing" ] || return 0
	local words="apt-get install -y --no-install-recommends ${missing//$'\n'/ }"
	[ "$(id -u)" = 0 ] || { give_up "missing packages, and this is not root: ${missing//$'\n'/ }" "sudo $words"; return 1; }
	say "installing Debian packages: ${missing//$'\n'/ }"
	# shellcheck disable=SC2086 # split into words on purpose
	{ apt-get -q update && $words; } >/tmp/tierline-apt.$$ 2>&1 || { tail -5 /tmp/tierline-apt.$$ >&2; rm -f /tmp/tierline-apt.$$; give_up "cannot install them" "$words"; return 1; }
	rm -f /tmp/tierline-apt.$$
}

rust_is_new_enough() {
	local have
	have=$(cargo --version 2>/dev/null | cut -d' ' -f2) && [ -n "$have" ] && printf '%s\n' $RUST_OLDEST "$have" | sort -VC
}

# Makes cargo of RUST_OLDEST or newer available: an installed one, else by rustup, else by Debian's rustup (13
# and newer), else by rustup's own installer.
prepare_rust() {
	install_packages gcc libc6-dev || return 1
	rust_is_new_enough && return 0
	if ! command -v rustup >/dev/null && apt-cache show rustup >/dev/null 2>&1; then
		install_packages rustup || return 1
	fi
	if command -v rustup >/dev/null; then
		say "installing Rust's stable toolchain with rustup"
		rustup -q toolchain install stable --profile minimal && rustup -q default stable
	else
		say "installing Rust's stable toolchain into ~/.cargo and ~/.rustup, by the installer at https://sh.rustup.rs"
		install_packages curl ca-certificates || return 1
		curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -q -y --profile minimal --no-modify-path
	fi
	rust_is_new_enough || give_up "no Rust $RUST_OLDEST or newer" "https://rustup.rs, then run this again"
}

# Prepares the lab: its packages, a kernel and QEMU. LAB_PROBLEM holds the reason of a failure.
prepare_lab() {
	local log status
	log=$(mktemp)
	{
		# shellcheck disable=SC2046 # one package per line
		install_packages python3 && install_packages $(lab/lab deps) && lab/lab fetch
	} 2>&1 | tee "$log"
	status=${PIPESTATUS[0]}
	LAB_PROBLEM=$(grep -m1 '^Error: ' "$log" || tail -1 "$log")
	LAB_PROBLEM=${LAB_PROBLEM#Error: }
	rm -f "$log"
	return "$status"
}

# Builds the guest's programs, and the plugin for the QEMU that `lab/lab run` will use.
build_lab() {
	lab/lab build || return 1
	lab/lab list | grep -q '^qemu  *11 ' || lab/lab build --qemu 10
}
