#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""docs/format/trace-format.md says all that a second reader needs: this is one, made from that page alone (but for checksums
and compression), and finds in a trace what `sreplay dump --json` finds. Needs no RDMA.

    second_reader.py
"""

import collections
import ctypes
import ctypes.util
import glob
import json
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, Tap

ROOT = os.path.realpath(BUILD)
APPS = os.path.join(ROOT, "tests", "programs")

REPEAT, EXIT, MARK, HEAP, CLOCK, SIGNAL, EXEC, WINDOW, REGION, WINDOW_COUNTS, BATON, CONNECTION, CYCLE, PICKED, CALLS = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 19, 21, 64
# Where the kind says how long a payload is.
LENGTHS = {REPEAT: 8, EXIT: 16, HEAP: 16, SIGNAL: 176, REGION: 24, BATON: 32, CONNECTION: 24, CYCLE: 16, PICKED: 24}


CANCELLED = -2**31
LEFT_OUT = 1 << 63 # of an address, whose value the trace has a length and a checksum of
CODECS = collections.Counter()
CYCLES = [] # how many calls each has


class Wrong(Exception):
    pass


def want(condition, *what):
    if not condition:
        raise Wrong(" ".join(map(str, what)))


# ------------------------------------------------------------------ streams


def sns_of(kind, payload):
    if kind == REPEAT:
        return struct.unpack_from("<Q", payload)[0]
    if kind == MARK:
        return struct.unpack_from("<IIQQ", payload)[3]
    if kind == CYCLE:
        return struct.unpack_from("<I", payload)[0]
    return int(kind >= CALLS)


def cycle(sn, payload, kept):
    """Its calls; kept: (kind, payload) of the records that may come again."""
    calls, period = struct.unpack_from("<IB", payload)
    want(len(payload) == 16 and 0 < calls <= 4096 and 0 < period <= 11 and not any(payload[5 + period:]), "cycle", payload)
    want(all(0 < back <= min(32, len(kept)) for back in payload[5:5 + period]), "cycle of", payload, "with", len(kept))
    CYCLES.append(calls)
    return [(sn + i,) + kept[-payload[5 + i % period]] for i in range(calls)]


def unzstd(data, most):
    zstd = ctypes.CDLL(ctypes.util.find_library("zstd"))
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(most)
    n = zstd.ZSTD_decompress(out, ctypes.c_size_t(most), data, ctypes.c_size_t(len(data)))
    want(n <= most, "zstd")
    return out.raw[:n]


def column(data, width, n):
    how = data.integer(1)
    if how == 0:
        return [data.take(width) for _ in range(n)]
    if how == 1:
        return [data.take(width)] * n
    if how in (3, 4, 5):
        return how, data.leb128()
    want(how == 2 and width in (2, 4, 8), "a column of kind", how)
    value, values = 0, []
    for _ in range(n):
        number = data.leb128()
        value = (value + (number >> 1 ^ -(number & 1))) % (1 << 8 * width)
        values.append(value.to_bytes(width, "little"))
    return values


def by_key(data, width, how, keys):
    """The values of a field that is stored by a key; keys: that one's values."""
    last, step, values = collections.defaultdict(int), collections.defaultdict(int), []
    for key in keys:
        number = data.leb128()
        value = (last[key] + step[key] + (number >> 1 ^ -(number & 1))) % (1 << 8 * width)
        step[key] = value - last[key] if how == 4 else 0
        last[key] = value
        values.append(value.to_bytes(width, "little"))
    return values


def from_columns(data):
    """The records."""
    shapes = [[data.leb128() for _ in range(4)] for _ in range(data.leb128())]
    order = [data.leb128() for _ in range(sum(s[3] for s in shapes))]
    payloads = []
    for _, _, size, n in shapes:
        columns, widths, left = [], [], size - 8
        while left:
            width = data.leb128()
            want(0 < width <= left, "a field of", width)
            columns.append(column(data, width, n))
            widths.append(width)
            left -= width
        columns = [by_key(data, widths[i], c[0], columns[c[1]]) if c[0] in (3, 4) else c for i, c in enumerate(columns)]
        columns = [columns[c[1]] if c[0] == 5 else c for c in columns]
        payloads.append(iter([b"".join(parts) for parts in zip(*columns)] if columns else [b""] * n))
    want(not data.left(), "something behind the columns")
    raw = b""
    for shape in order:
        kind, flags, size, _ = shapes[shape]
        raw += struct.pack("<IHH", size, kind, flags) + next(payloads[shape]) + bytes(-size % 8)
    return raw


def decoded(codec, stored, raw_bytes):
    CODECS[codec] += 1
    codec &= ~16 # some of its records refer to others, which their flags say as well
    want(codec <= 3, "codec", codec)
    raw = unzstd(stored, raw_bytes) if codec else stored
    return from_columns(Bytes(raw)) if codec >= 2 else raw


def frames(data, rank, thread):
    """(the frame's header, its records' bytes)"""
    magic, version, at, of_rank, of_thread = struct.unpack_from("<8sIIiI", data)
    want((magic, version, of_rank, of_thread) == (b"srstream", 2, rank, thread), "header", magic, version, of_rank, of_thread)
    while at < len(data):
        header = struct.unpack_from("<IHHIIQQQII", data, at)
        want(header[0] == 0x6d726673, "frame at", at, header)
        raw = decoded(header[1], data[at + 64:at + 64 + header[3]], header[4])
        want(len(raw) == header[4], "frame at", at, header, "has", len(raw), "bytes")
        yield header, raw
        at += 64 + header[3]


def resolved(payload, stream):
    """The payload of a record that refers to earlier bytes of the stream."""
    n = int.from_bytes(payload[-4:], "little")
    written, out = Bytes(payload[:len(payload) - 4 - 16 * n]), b""
    for position, offset, size in struct.iter_unpack("<QII", payload[len(payload) - 4 - 16 * n:-4]):
        want(offset >= len(out) and position + size <= len(stream), "a reference to", position, "at", offset)
        out += written.take(offset - len(out))
        out += stream[position:position + size]
    return out + written.take(written.left())


def records(data, rank, thread, sns_before):
    """(SN, kind, payload), pieces put together"""
    sn, ring, begun, stream, kept = sns_before + 1, 0, None, bytearray(), []
    for (_, _, flags, _, _, first_sn, sns, ring_begin, ring_bytes, count), raw in frames(data, rank, thread):
        want(first_sn == sn and ring_begin == ring, "the frame with SN", first_sn, "does not follow on", sn)
        at, pieces, end = 0, 0, sn + sns
        stream += raw if ring_bytes else b""
        while at < len(raw):
            size, kind, more = struct.unpack_from("<IHH", raw, at)
            payload = raw[at + 8:at + size]
            if not begun:
                begun = [sn, kind, b""]
                sn += sns_of(kind, payload)
            begun[2] += payload
            if not more & 1:
                if more & 2:
                    begun[2] = resolved(begun[2], stream)
                if more & 4:
                    want(more == 4 and len(begun[2]) <= 64, "a record that may come again", begun)
                    kept.append(tuple(begun[1:]))
                yield from cycle(begun[0], begun[2], kept) if begun[1] == CYCLE else [tuple(begun)]
                begun = None
            pieces += 1
            at += (size + 7) // 8 * 8
        want(at == len(raw) and pieces == count and sn == end and bool(flags & 1) == bool(begun), "in the frame with SN", first_sn)
        ring += ring_bytes


# ------------------------------------------------------------------ values


class Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        want(self.at + n <= len(self.data), "too short")
        self.at += n
        return self.data[self.at - n:self.at]

    def integer(self, n, signed=False):
        return int.from_bytes(self.take(n), "little", signed=signed)

    def leb128(self):
        value = shift = 0
        while True:
            byte = self.integer(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def left(self):
        return len(self.data) - self.at


def value(structs, kind, data):
    if kind.endswith("?"):
        return value(structs, kind[:-1], data) if data.integer(1) else None
    if kind.endswith("[]"):
        return [value(structs, kind[:-2], data) for _ in range(data.integer(4))]
    if kind in structs:
        return fields(structs, structs[kind], data)
    if kind.startswith("raw"):
        return data.take(int(kind[3:]))
    if kind in ("bytes", "string", "chars"):
        return data.take(data.integer(4))
    size = 8 if kind == "ptr" else int(kind[1:]) // 8
    number = data.integer(size, kind[0] == "i")
    return hex(number) if kind[0] in "px" else number


def fields(structs, described, data):
    return {f["name"]: value(structs, f["type"], data) for f in described}


def call(schema, number, payload):
    described = schema["calls"][number]
    site, _, error, sizes = struct.unpack_from("<QQiI", payload)
    in_size, events = sizes & (1 << 30) - 1, sizes >> 30
    end = len(payload) - 8 * events
    given, back = Bytes(payload[24:24 + in_size]), Bytes(payload[24 + in_size:end])
    found = {"call": described["name"], "site": hex(site), "errno": error, "in": fields(schema["structs"], described["in"], given),
             "out": {} if error == CANCELLED else fields(schema["structs"], described["out"], back),
             "order": list(struct.unpack_from("<%dQ" % events, payload, end))}
    want(not given.left() and not back.left(), described["name"], "has more than its values")
    return found


def same(mine, dumped):
    """dump shows bytes as text, where they are some, and what is too large for JSON in hexadecimal."""
    if isinstance(mine, bytes):
        if isinstance(dumped, dict):
            return mine.hex() == dumped["hex"]
        return dumped in (mine.split(b"\0")[0].decode(errors="replace"), mine.decode(errors="replace"))
    if isinstance(mine, dict):
        return mine.keys() == dumped.keys() and all(same(mine[k], dumped[k]) for k in mine)
    if isinstance(mine, list):
        return len(mine) == len(dumped) and all(map(same, mine, dumped))
    return mine == dumped or isinstance(mine, int) and hex(mine) == dumped


def check_clock(payload):
    data = Bytes(payload)
    data.leb128()
    while data.left():
        if data.leb128() & 3 != 2:
            data.leb128()


def check_window(payload, dumped):
    _, _, _, _, closed, values = struct.unpack_from("<IIQQII", payload)
    at, found = 32 + 8 * closed, []
    for _ in range(values):
        address, length, _ = struct.unpack_from("<QII", payload, at)
        stands_for = struct.unpack_from("<I", payload, at + 16)[0] if address & LEFT_OUT else length
        found.append((hex(address & ~LEFT_OUT), stands_for))
        at += 16 + (length + 7) // 8 * 8
    want(at == len(payload) and found == [(v["addr"], v["length"]) for v in dumped["values"]], "values", found[:3], dumped)


TOKEN = {1: "acquired", 2: "reacquired", 3: "preempted", 4: "yielded", 5: "rejoined", 6: "parts", 7: "parted", 8: "at the heap"}


def check_baton(payload, dumped):
    what, other, event, _, arrived = struct.unpack("<IIQQQ", payload)
    found = {"what": TOKEN.get(what), "order": event}
    if what == 3:
        found["from"] = other
    if what in (4, 5):
        found["access"] = other
    if arrived:
        found["arrived"] = arrived
    want(all(dumped.get(k) == v for k, v in found.items()), found, dumped)


def check_picked(payload, dumped):
    cq, number, receives, told, not_told = struct.unpack("<QIIII", payload)
    found = {"cq": hex(cq), "qp_num": hex(number), "receives": bool(receives), "told": told, "not_told": not_told}
    want(all(dumped.get(k) == v for k, v in found.items()), found, dumped)


# ------------------------------------------------------------------ a trace


def dump(trace, rank, thread):
    r = subprocess.run([SREPLAY, "dump", "--json", "--rank", str(rank), "--thread", str(thread), trace], capture_output=True)
    return [json.loads(line) for line in r.stdout.splitlines()]


def check_exec(payload, shown):
    """Path, number of arguments, arguments, number of variables, checksum."""
    strings = payload.decode().split("\0")
    n = int(strings[1])
    want(strings[-1] == "" and len(strings) == n + 5 and strings[0] == shown["path"] and
         strings[2:n + 2] == shown["arguments"] and int(strings[n + 2]) == shown["variables"] and
         strings[n + 3] == shown["checksum"], "exec", strings, shown)


def check_stream(trace, image, rank, thread, schema, count):
    where = os.path.join(trace, "rank-%d" % rank, "image-%d" % image if image else "")
    with open(os.path.join(where, "process.json")) as f:
        process = json.load(f)
    want(process.get("image", 0) == image, "image")
    with open(os.path.join(where, "thread-%d.srs" % thread), "rb") as f:
        mine = [r for r in records(f.read(), rank, thread, process.get("sns_before", 0)) if r[1]]
    dumped = [r for r in dump(trace, rank, thread) if r.get("image", 0) == image]
    want(len(mine) == len(dumped), "thread %d:" % thread, len(mine), "records, dump has", len(dumped))
    for (sn, kind, payload), shown in zip(mine, dumped):
        count[min(kind, CALLS)] += 1
        want(kind not in LENGTHS or len(payload) == LENGTHS[kind], "kind", kind, "of", len(payload), "bytes")
        if kind >= CALLS:
            found = call(schema, kind - CALLS, payload)
            want(shown["sn"] == sn and all(same(found[k], shown.get(k, [])) for k in found), found, shown)
        elif kind == CLOCK:
            check_clock(payload)
        elif kind == EXEC:
            check_exec(payload, shown)
        elif kind == WINDOW:
            check_window(payload, shown)
        elif kind == BATON:
            check_baton(payload, shown)
        elif kind == PICKED:
            check_picked(payload, shown)


def images(rank):
    """The directories of a rank's images."""
    found = [rank]
    while os.path.isdir(os.path.join(rank, "image-%d" % len(found))):
        found.append(os.path.join(rank, "image-%d" % len(found)))
    return found


def check_trace(trace, kinds):
    """'' or what is wrong; kinds: that must be there."""
    count = collections.Counter()
    try:
        with open(os.path.join(trace, "manifest.json")) as f:
            want(json.load(f)["version"] == 2, "version")
        with open(os.path.join(trace, "rank-0", "schema.json")) as f:
            schema = json.load(f)
        for image, where in enumerate(images(os.path.join(trace, "rank-0"))):
            for stream in glob.glob(os.path.join(where, "thread-*.srs")):
                check_stream(trace, image, 0, int(stream.rsplit("-", 1)[1][:-4]), schema, count)
    except Wrong as e:
        return str(e)[:1000]
    missing = [k for k in kinds if not count[k]]
    return "no record of the kinds %s: %s" % (missing, count) if missing else ""


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SREPLAY_SOCKET"] = os.path.join(directory, "logd.sock")
        os.environ["LD_LIBRARY_PATH"] = os.path.join(ROOT, "tests", "lib", "softdev")
        subprocess.run([os.path.join(ROOT, "logd", "sreplay-logd"), "--daemonize", "--idle-exit", "30"], check=True)
        for name, command, settings, kinds in (
                ("verbs, exposed memory and clocks", ["loopback", "1", "3"], {"SREPLAY_CLOCKS": "2"}, [CALLS, REPEAT, EXIT, CLOCK, WINDOW, REGION, WINDOW_COUNTS, CONNECTION]),
                ("threads", ["threads", "all"], {}, [CALLS, EXIT, MARK, HEAP]),
                ("signals", ["signals", "random", "3"], {}, [CALLS, EXIT, SIGNAL]),
                ("programs that execute others", ["execs", "chain"], {"SREPLAY_FROM_START": "on"}, [CALLS, EXIT, MARK, EXEC]),
                ("polls in turn", ["hostile_verbs", "polls-in-turn"], {"SREPLAY_FROM_START": "on"}, [CALLS, REPEAT, EXIT]),
                ("threads in turns", ["atomics", "references", "sleepers"], {"SREPLAY_THREADS": "serial"}, [CALLS, EXIT, BATON])):
            trace = os.path.join(directory, command[0] + ".srec")
            subprocess.run([SREPLAY, "record", "-o", trace, "--", os.path.join(APPS, command[0])] + command[1:],
                           stdout=subprocess.DEVNULL, env=dict(os.environ, **settings))
            problem = check_trace(trace, kinds)
            tap.ok(not problem, "a reader made from the description finds what dump does: " + name, problem)
    tap.ok(len(CYCLES) > 100 and max(CYCLES) > 50, "calls that come again in turn are in a record", CYCLES[:100])
    tap.ok(CODECS[1] and CODECS[2], "some of their frames are compressed records, and some columns", str(CODECS))
    tap.finish()


if __name__ == "__main__":
    main()
