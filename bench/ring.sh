#!/bin/sh
# bench/ring.sh BUILD_DIR [RUNS]: the ring's and the daemon's figures, LTTng-UST's
# beside them where it is installed.  Producer on CPU 0, daemon on CPU 1, traces
# in memory (a tmpfs with large pages where we may mount one, else /dev/shm).
set -eu
build=$1
runs=${2:-5}
work=$(mktemp -d)
shm=/dev/shm
realtime=
session=ring_bench_$$

end() {
	[ -z "${daemon:-}" ] || kill "$daemon" 2>/dev/null || :
	[ -z "${lttng:-}" ] || lttng destroy "$session" >/dev/null 2>&1 || :
	[ -z "${sessiond:-}" ] || kill "$sessiond" 2>/dev/null || :
	wait 2>/dev/null || :
	! mountpoint -q "$work/mem" || umount "$work/mem"
	rm -rf "$work"
}
trap end EXIT

mkdir "$work/mem"
if mount -t tmpfs -o size=8g,huge=always none "$work/mem" 2>/dev/null; then
	shm=$work/mem
fi
# Other work on the machine is not what is measured.
if chrt -f 10 true 2>/dev/null; then
	realtime="chrt -f 10"
fi

echo "load: $(cut -d' ' -f1-3 /proc/loadavg), CPUs: $(nproc), kernel $(uname -r)"
$realtime taskset -c 1 "$build/logd/sreplay-logd" --level 0 --socket "$work/s/logd.sock" &
daemon=$!
while [ ! -S "$work/s/logd.sock" ]; do sleep 0.05; done
$realtime taskset -c 0 "$build/bench/ring" "$work/s/logd.sock" "$shm/t" "$runs" | tee "$work/ours"

[ -x "$build/bench/ring_lttng" ] && command -v lttng >/dev/null || exit 0
lttng=1
export LTTNG_HOME=$work LTTNG_UST_ALLOW_BLOCKING=1
if ! pgrep -x lttng-sessiond >/dev/null; then
	taskset -c 1 lttng-sessiond --no-kernel >/dev/null 2>&1 &
	sessiond=$!
	sleep 2
fi

# name payload burst records pause: buffers are 8 MiB, as the ring is large enough for each burst
lttng_measure() {
	lttng create "$session" --output="$shm/lttng" >/dev/null
	lttng enable-channel -u -s "$session" --blocking-timeout=inf --subbuf-size=1M --num-subbuf=8 \
		c >/dev/null
	lttng enable-event -u -s "$session" -c c 'ring_bench:*' >/dev/null
	lttng start "$session" >/dev/null
	figures=$($realtime taskset -c 0 "$build/bench/ring_lttng" "$2" "$3" "$4" "$5" "$runs")
	lttng destroy "$session" >/dev/null
	rm -rf "$shm/lttng"
	theirs=${figures%% *}
	ours=$(sed -n "s/^sreplay $1 *\([0-9.]*\) ns.*/\1/p" "$work/ours")
	echo "LTTng   $1 $figures ns/record (median, least, most): ratio $(echo "$theirs $ours" |
		awk '{printf "%.1f", $1 / $2}')"
}
lttng_measure "8 B, keeping up" 8 50000 1000000 30
lttng_measure "64 B, keeping up" 64 20000 400000 30
lttng_measure "4 KiB, bursts" 4096 200 10000 20
lttng_measure "4 KiB, sustained" 4096 50000 50000 0
