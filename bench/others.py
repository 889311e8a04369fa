# SPDX-License-Identifier: BSD-2-Clause
"""Programs of others in bench/table2: perftest, UCX's, and MPI and OpenSHMEM on UCX; bare and recorded in turn.

Of perftest and ucx_perftest the time is what they print of a message, of MPI and OpenSHMEM that of the launch.
Both sides, or all ranks, are recorded. The time-stamp counter is left alone (--tsc=native), as these programs
read it around each message: bench/runner has what it costs to record it.
"""

import json
import os
import re
import shutil
import statistics
import time
import types

WORK = "/tmp/table2"


# ------------------------------------------------------------------ measuring, where rxe is

# What the programs of tests/e2e/rxe/stacks.py are launched with.
DEFAULTS = types.SimpleNamespace(serial=False, with_fence=False)


def messages():
    """Of perftest and ucx_perftest, as tests/e2e/rxe/third_party.py knows them."""
    import third_party
    for program, size, count in (("ib_write_bw", 4096, 1000), ("ib_read_bw", 4096, 1000), ("ib_send_bw", 4096, 1000),
                                 ("ib_write_lat", 8, 500), ("ib_read_lat", 8, 500), ("ib_send_lat", 8, 500),
                                 ("ib_atomic_lat", 8, 500)):
        yield third_party.perftest(False, program, "-s %d" % size, count=count)
    ucx = "ucx_perftest -d rxe0:1 -x rc_verbs"
    for test in ("put_lat -s 8", "put_bw -s 8", "am_lat -s 8", "get -D zcopy -s 4096", "fadd -s 8"):
        yield third_party.Program("ucx_perftest -t " + test, ucx, "%s -t %s -n 500 -w 10 127.0.0.1" % (ucx, test),
                                  third_party.UCX_PORT)


def microseconds(name, text):
    """Of a message, from what the client printed; None: nothing."""
    if name.startswith("ucx"):  # iterations, median, average, and overall latency
        line = re.search(r"^Final: +\d+ +([\d.]+) +[\d.]+ +([\d.]+) ", text, re.M)
        return line and float(line.group(2 if "_bw" in name else 1))
    line = re.search(r"^ *\d+ +\d+ +[\d.]+ .*$", text, re.M)
    fields = line.group(0).split() if line else []
    if "_bw" in name:           # size, iterations, peak, average MiB/s (0: it could not tell the CPU's clock rate), ...
        return float(fields[0]) / float(fields[3]) / 1.048576 if line and float(fields[3]) else None
    return float(fields[4]) if line else None  # size, iterations, least, most, typical, ...


def text_of(path):
    with open(path, errors="replace") as f:
        return f.read()


def one_run(program, commands, row):
    """Microseconds of a message, or None; what failed is kept."""
    import third_party
    log = os.path.join(WORK, "third-party")
    statuses = third_party.run(program, commands, log)
    found = microseconds(program.name, text_of(log + ".1")) if statuses == [0, 0] else None
    if found is None:
        row.setdefault("failed", []).append("%s: %s\n%s" % (program.name, statuses, third_party.tails(log)))
    return found


def measure_messages(rows, counts_of, end):
    from harness import SREPLAY
    trace = os.path.join(WORK, "third-party.srec")
    for program in messages():
        if time.monotonic() > end or not shutil.which(program.name.split()[0]):
            continue
        row = rows.setdefault(program.name, {"unit": "us", "bare": [], "recorded": []})
        shutil.rmtree(trace, ignore_errors=True)
        recorded = [[SREPLAY, "record", "--tsc=native", "-o", trace, "--rank", str(rank), "--group", "0,1", "--"] + command
                    for rank, command in enumerate(program.commands)]
        pair = one_run(program, program.commands, row), one_run(program, recorded, row)
        if None in pair:
            continue
        row["bare"].append(pair[0])
        row["recorded"].append(pair[1])
        row["counts"] = counts_of(trace)


def measure_stacks(rows, counts_of, end):
    """From mpirun's start to its end."""
    import stacks
    trace = os.path.join(WORK, "stacks.srec")
    for name in stacks.PROGRAMS:
        if not os.path.exists(os.path.join(stacks.APPS, name)) or time.monotonic() > end:
            continue
        row = rows.setdefault(name + " 5", {"unit": "s", "bare": [], "recorded": []})
        bare, recorded = (stacks.Launch(name, 2, os.path.join(WORK, "stacks.log"), DEFAULTS, t) for t in (None, trace))
        for launch in (bare, recorded):
            if launch.wrong:
                row.setdefault("failed", []).append("%s: %s" % (name, launch.detail()[:4000]))
        if not bare.wrong and not recorded.wrong:
            row["bare"].append(bare.seconds)
            row["recorded"].append(recorded.seconds)
            row["counts"] = counts_of(trace)


def measure(out, counts_of, end, with_stacks):
    """One pair of each. counts_of: of a trace, by rank. What was measured is kept after each kind."""
    path = os.path.join(out, "third-party.json")
    rows = json.loads(text_of(path)) if os.path.exists(path) else {}
    os.makedirs(WORK, exist_ok=True)
    for kind in [measure_messages] + [measure_stacks] * with_stacks:
        kind(rows, counts_of, end)
        with open(path, "w") as f:
            json.dump(rows, f)


# ------------------------------------------------------------------ what comes of it


def summarise(rows, discard):
    for row in rows.values():
        best = min(row["bare"], default=0)
        kept = [(b, r) for b, r in zip(row["bare"], row["recorded"]) if b <= discard * best]
        row["discarded"] = len(row["bare"]) - len(kept)
        row["ratio"] = statistics.median(r / b for b, r in kept) if kept else None


def table(rows, markdown, number):
    lines = []
    for name, row in rows.items():
        counts = row.get("counts", {}).values()
        unit = "µs" if row["unit"] == "us" else "s"
        medians = ["%.1f %s" % (statistics.median(row[k]), unit) if row[k] else "-" for k in ("bare", "recorded")]
        lines.append(["`%s`" % name] + medians + [number(row["ratio"]) + ("" if "failed" not in row else ", %d failed" % len(row["failed"]))] +
                     ["%d (%d)" % (len(row["bare"]), row["discarded"])] +
                     [number(max((c.get(k, 0) for c in counts), default=None), "%d") for k in ("calls", "faults", "values", "asynchronous")] +
                     [number(max((c.get(k, 0) for c in counts), default=0) / unit_of, "%.1f")
                      for k, unit_of in (("bytes_on_disk", 1e3), ("exposed_bytes", 2**20))])
    return markdown(["program", "bare", "recorded", "ratio", "pairs (discarded)", "calls", "faults", "values", "async", "trace kB",
                     "exposed MiB"], lines)
