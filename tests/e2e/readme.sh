#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The commands of README.md work as written: the demo, building, installing, and what was installed.
# TAP output; $SREPLAY_BUILD is the build tree.

set -uo pipefail

root=$(dirname "$(readlink -f "$0")")/../..
work=$(mktemp -d "${TMPDIR:-/tmp}/sreplay-readme.XXXXXX")
trap 'rm -rf "$work"' EXIT
count=0
failed=0

check() { # TEXT COMMAND...
	local text=$1
	shift
	count=$((count + 1))
	if "$@" >"$work/log" 2>&1; then
		echo "ok $count - $text"
	else
		sed 's/^/# /' "$work/log" | tail -30
		echo "not ok $count - $text"
		failed=1
	fi
}

demo() {
	"$root/ci/demo" "$work/demo" && cmp "$work/demo/client.out" "$work/demo/replayed.out" &&
		[ -s "$work/demo/replayed.out" ]
}

install_it() {
	DESTDIR=$work/root meson install -C "$SREPLAY_BUILD" --no-rebuild
}

installed_works() {
	local bin=$work/root/usr/local/bin
	export SREPLAY_SOCKET=$work/socket
	"$bin/sreplay" record -o "$work/t.srec" -- "$SREPLAY_BUILD/tests/apps/environment" 1 >"$work/recorded"
	"$bin/sreplay" replay "$work/t.srec" >"$work/replayed"
	cat "$work/recorded"
	[ -s "$work/recorded" ] && cmp "$work/recorded" "$work/replayed"
}

man_pages_are_there() {
	local man=$work/root/usr/local/share/man/man1
	[ -s "$man/sreplay.1" ] && [ -s "$man/sreplay-logd.1" ]
}

check "ci/demo" demo
check "meson install" install_it
check "what was installed records and replays" installed_works
check "man pages" man_pages_are_there
echo "1..$count"
exit $failed
