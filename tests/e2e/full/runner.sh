#!/bin/bash
# Tests of ci/rxe. Prints "ok N - WHAT" or "not ok N - WHAT" for each, the plan at the end; exits
# with 1 if any failed. Each start of the virtual machine takes 5 s, so one start proves several
# things where they do not disturb each other.

set -u

here=$(dirname "$(readlink -f "$0")")
cd "$here" || exit 1
rxe=$here/../../../ci/rxe
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

number=0
failed=0

check() { # WHAT CONDITION...
	local what=$1
	shift
	number=$((number + 1))
	if "$@"; then
		echo "ok $number - $what"
	else
		echo "not ok $number - $what"
		echo "# failed: $*"
		failed=$((failed + 1))
		show_stderr
	fi
}

skip() { # WHAT WHY
	number=$((number + 1))
	echo "ok $number - $1 # SKIP $2"
}

show_stderr() {
	[ ! -s "$work/err" ] || tail -n 30 "$work/err" | tr -cd '[:print:]\n' | sed 's/^/# stderr: /'
}

# Sets $code; leaves stdout and stderr in $work.
run_rxe() {
	"$rxe" "$@" >"$work/out" 2>"$work/err" </dev/null
	code=$?
}

equal() { [ "$1" = "$2" ]; }
less() { [ "$1" -lt "$2" ]; }
says() { grep -q -e "$2" "$work/$1"; }
says_not() { ! says "$@"; }

streams_are_byte_exact() {
	head -c 3000000 /dev/urandom >"$work/one"
	"$rxe" -- bash -c 'tee /dev/stderr; exit 37' <"$work/one" >"$work/out" 2>"$work/err2"
	code=$?
	check "the exit code is the command's" equal $code 37
	check "stdin to stdout: binary data passes byte by byte" cmp "$work/one" "$work/out"
	check "stderr is apart and byte-exact, /dev/stderr can be opened" cmp "$work/one" "$work/err2"
}

slow_reader_loses_nothing() {
	local count
	count=$("$rxe" -- head -c 9000000 /dev/zero | { sleep 10; wc -c; })
	check "a reader slower than the command gets all" equal "$count" 9000000
}

command_is_at_home() {
	local odd=$'two\nlines "and" $quotes\\'
	ODD=$odd run_rxe -- bash -c '
		echo "odd=$ODD"; pwd; id -u; ulimit -l
		grep SigIgn /proc/self/status
		ls -l /proc/self/fd | grep -c " [0-9]* -> "
		sleep 1000 &
		disown'
	check "a job that the command left behind does not hold up its end" equal $code 0
	check "the environment arrives whole" says out 'quotes\\$'
	check "the working directory is the caller's" says out "^$here\$"
	check "the command is root" says out '^0$'
	check "locked memory is unlimited" says out '^unlimited$'
	check "no signal is ignored" says out 'SigIgn:.0000000000000000$'
	check "three files are open (and the listing's own)" says out '^4$'
	run_rxe -- no-such-command
	check "a command that is not there: 127" equal $code 127
}

devices_work() {
	run_rxe --devices 2 -- bash -c '
		for device in rxe0 rxe1; do
			cat /sys/class/infiniband/$device/ports/1/gids/1
			ibv_rc_pingpong -d $device -g 1 >/dev/null &
			sleep 3
			ibv_rc_pingpong -d $device -g 1 localhost || exit 1
			wait
		done'
	check "ibv_rc_pingpong between two processes, on each of two devices" equal $code 0
	check "... with an answer" says out '1000 iters'
	check "each device has its own IPv4 GID at index 1" \
		equal "$(grep -c '^0000:0000:0000:0000:0000:ffff:' "$work/out")" 2
	check "... and they differ" equal "$(grep '^0000:' "$work/out" | sort -u | wc -l)" 2
}

brings_files() {
	local target="$work/a, b/brought"
	cd "$work" || exit 1
	TARGET=$target run_rxe --bring "$target" --bring relative -- bash -c '
		mkdir "$TARGET/sub"
		head -c 200000000 /dev/zero >"$TARGET/sub/large"
		echo text >relative/file
		mv relative/file relative/renamed
		exit 3'
	check "--bring of a command that fails: its exit code" equal $code 3
	check "--bring: a large file comes back" \
		equal "$(stat -c %s "$target/sub/large" 2>/dev/null)" 200000000
	check "--bring: a relative directory" equal "$(cat relative/renamed 2>/dev/null)" text
	cd "$here" || exit 1
}

time_limit_ends_it() {
	local start=$SECONDS
	run_rxe --timeout 15 --bring "$work/late" -- \
		bash -c "echo before; echo saved >'$work/late/file'; sleep 1000"
	check "the time limit: 124" equal $code 124
	check "... in time" less $((SECONDS - start)) 25
	check "... said so" says err 'time limit of 15 s'
	check "... what was written before is there" says out '^before$'
	check "... and what was to be brought" equal "$(cat "$work/late/file" 2>/dev/null)" saved
}

two_side_by_side() {
	local first second
	"$rxe" -- bash -c 'ibv_devices | grep -c rxe0; exit 11' >"$work/first" 2>"$work/err" &
	first=$!
	"$rxe" -- bash -c 'ibv_devices | grep -c rxe0; exit 12' >"$work/second" 2>>"$work/err" &
	second=$!
	wait $first
	check "two instances side by side: the first" equal "$? $(cat "$work/first")" "11 1"
	wait $second
	check "... the second" equal "$? $(cat "$work/second")" "12 1"
}

usage_is_told() {
	run_rxe --help
	check "--help" says out '--timeout SECONDS'
	run_rxe
	check "no command: an error that says what to do" says err 'ci/rxe \[options\] -- COMMAND'
}

# From here on only for the virtual machine.

crash_is_reported() {
	run_rxe --vm -- bash -c 'echo before; sleep 1; echo c >/proc/sysrq-trigger; sleep 100'
	check "a panic of the guest: 125" equal $code 125
	check "... with the end of its console" says err 'sysrq triggered crash'
	check "... after what the command said" says out '^before$'
}

qemu_of() { # RUNNER
	local child
	for child in $(cat /proc/"$1"/task/*/children); do
		if grep -q '^qemu' "/proc/$child/comm"; then
			echo "$child"
			return
		fi
	done
	return 1
}

wait_for_start() { # FILE
	local tries
	for tries in $(seq 300); do
		[ ! -s "$1" ] || return 0
		sleep 0.2
	done
	return 1
}

# Starts the runner in the background, waits until its command runs; sets $runner and $qemu.
start_runner() {
	: >"$work/out"
	"$rxe" --vm -- bash -c 'echo started; sleep 1000' >"$work/out" 2>"$work/err" </dev/null &
	runner=$!
	wait_for_start "$work/out"
	qemu=$(qemu_of $runner) || kill $runner
}

dead_qemu_is_reported() {
	start_runner
	kill -9 "$qemu"
	wait $runner
	check "qemu killed: 125" equal $? 125
	check "... said so" says err 'qemu: signal 9'
}

is_gone() { # PID
	local tries
	for tries in $(seq 50); do
		[ -d "/proc/$1" ] || return 0
		sleep 0.1
	done
	return 1
}

killed_runner_leaves_nothing() { # SIGNAL
	start_runner
	kill "-$1" $runner
	wait $runner 2>/dev/null
	check "the runner ended by SIG$1: qemu goes with it" is_gone "$qemu"
}

host_is_untouched() {
	touch "$work/on-host"
	run_rxe --vm -- bash -c "ls -d '$work'; echo changed >/etc/hostname; rm -rf '$here'; hostname"
	check "the guest's /tmp is fresh" says_not out "^$work\$"
	check "what it writes elsewhere stays with it" [ -f "$here/runner.sh" ]
	check "its host name is the host's" equal "$(tail -1 "$work/out")" "$(uname -n)"
}

checkout_in_tmp_is_seen() {
	mkdir -p "$work/checkout/below"
	echo content >"$work/checkout/file"
	cd "$work/checkout" || exit 1
	run_rxe --vm -- bash -c 'cat file; echo more >below/new'
	check "a working directory below /tmp is there" says out '^content$'
	check "... and the host's copy is left alone" [ ! -e "$work/checkout/below/new" ]
	cd "$here" || exit 1
}

shell_is_interactive() {
	# --norc: what a person's .bashrc does can take a minute in software emulation.
	echo 'tty; stty size; exit 9' |
		script -q -e -c "stty rows 33 cols 77; '$rxe' --vm --shell --timeout 60 -- bash --norc" \
			/dev/null >"$work/out" 2>&1
	check "--shell: exit code" equal $? 9
	check "--shell: a terminal" says out '/dev/pts/'
	check "--shell: of the caller's size" says out '^33 77'
}

missing_kernel_is_told() {
	XDG_CACHE_HOME=$work/empty run_rxe --vm -- true
	check "an empty cache: 125" equal $code 125
	check "... and the remedy" says err 'ci/setup'
}

streams_are_byte_exact
slow_reader_loses_nothing
command_is_at_home
devices_work
brings_files
time_limit_ends_it
two_side_by_side
usage_is_told
if "$rxe" --have-kernel 2>/dev/null; then
	crash_is_reported
	dead_qemu_is_reported
	killed_runner_leaves_nothing TERM
	killed_runner_leaves_nothing KILL
	host_is_untouched
	checkout_in_tmp_is_seen
	shell_is_interactive
	missing_kernel_is_told
else
	skip "the virtual machine" "native here, no kernel in the cache"
fi
echo "1..$number"
[ $failed = 0 ]
