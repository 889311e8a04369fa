#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The commands of README.md work as written: those to try it, the demo, installing, and what was installed.
# (ci/setup and the build are behind us, and this is a part of ci/test.)
# TAP output; $SREPLAY_BUILD is the build tree.

set -uo pipefail

root=$(dirname "$(readlink -f "$0")")/../../..
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

# "sreplay" from the build tree, as README.md puts it into the PATH.
PATH=$(readlink -f "$SREPLAY_BUILD/replay"):$PATH
apps=$(readlink -f "$SREPLAY_BUILD/tests/programs")
standin=$(readlink -f "$SREPLAY_BUILD/tests/lib/softdev")

same_output() { # FILE FILE
	[ -s "$1" ] && cmp "$1" "$2"
}

# In a subshell, with a daemon of our own, and an empty directory to work in.
begin() { # NAME
	export SREPLAY_SOCKET=$work/socket
	mkdir "$work/$1" && cd "$work/$1" || exit 1
}

without_rdma() (
	begin date
	sreplay record --from-start -o date.srec -- date +%N >recorded &&
		sreplay replay date.srec >replayed && same_output recorded replayed
)

a_program() (
	begin program
	cp "$apps/environment" program
	sreplay record -o program.srec -- ./program 1 >recorded
	sreplay replay program.srec >replayed
	same_output recorded replayed
)

# On the stand-in for verbs; each rank talks to itself.
a_job() (
	begin job
	cp "$apps/loopback" program
	export LD_LIBRARY_PATH=$standin OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
		OMPI_MCA_rmaps_base_oversubscribe=1
	mpirun -n 4 sreplay record --clocks -o job.srec -- ./program 1 1 &&
		sreplay replay job.srec 2>&1 | tee replayed && grep -q 'all 4 ranks ended as recorded' replayed
)

demo() {
	"$root/ci/demo" "$work/demo" && cmp "$work/demo/client.out" "$work/demo/replayed.out" &&
		[ -s "$work/demo/replayed.out" ]
}

debugged() {
	sreplay replay --gdb 2 "$work/demo/uts.srec" -- -nx -batch -ex 'sreplay break 50' -ex continue -ex 'sreplay sn' \
		-ex continue >"$work/gdb" 2>&1
	cat "$work/gdb"
	grep -q 'rank 2 thread 0 SN 50;' "$work/gdb" && grep -q 'all 2 ranks ended as recorded' "$work/gdb"
}

install_it() {
	DESTDIR=$work/root meson install -C "$SREPLAY_BUILD" --no-rebuild
}

installed_works() {
	local bin=$work/root/usr/local/bin
	export SREPLAY_SOCKET=$work/socket
	"$bin/sreplay" record -o "$work/t.srec" -- "$SREPLAY_BUILD/tests/programs/environment" 1 >"$work/recorded"
	"$bin/sreplay" replay "$work/t.srec" >"$work/replayed"
	cat "$work/recorded"
	same_output "$work/recorded" "$work/replayed"
}

# Every link from an installed document for users leads to another installed one.
documents_are_there() {
	local share=$work/root/usr/local/share page name
	[ -s "$share/man/man1/sreplay.1" ] && [ -s "$share/man/man1/sreplay-logd.1" ] || return
	[ -s "$share/doc/sreplay/user/guide.md" ] && [ -s "$share/doc/sreplay/format/trace-format.md" ] || return
	for page in "$share"/doc/sreplay/user/*.md "$share"/doc/sreplay/format/*.md; do
		for name in $(grep -oh '](\([a-z0-9./-]*\.\(md\|svg\)\)[#)]' "$page" | tr -d ']()#' | sort -u); do
			echo "$page: $name"
			[ -s "$(dirname "$page")/$name" ] || return
		done
	done
}

check "a program that knows nothing of RDMA records and replays" without_rdma
check "a program" a_program
check "mpirun starts a job, whose ranks replay together" a_job
check "ci/demo" demo
check "gdb on one rank of the demo's group" debugged
check "meson install" install_it
check "what was installed records and replays" installed_works
check "man pages, and the documents that refer to each other" documents_are_there
echo "1..$count"
exit $failed
