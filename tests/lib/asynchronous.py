# SPDX-License-Identifier: BSD-2-Clause
"""Programs whose reads and writes the kernel makes asynchronously: recorded, and replayed without the files.

A case of such a program writes what it saw into the file OUT, and works on OUT.data. The replay must write the same into
its own copies of both, and leave the files that are there as they are. The case `copies` writes what is in OUT.in.
"""

import os
import re
import shutil

from harness import SREPLAY, read, run, write_old

NOT_RECORDED = "not compared is what system calls do"
INPUT = "forty-two and some more\n" + "".join("line %d of a text\n" % i for i in range(100))


def kept(directory):
    """The content of the replay's files, by name."""
    return {name.rsplit("/", 1)[-1]: read(os.path.join(where, name))
            for where, _, names in os.walk(directory) for name in names}


def finds_other_output(trace, path, call):
    """What the program now submits to be written is not what it was: "", or what the replay says instead."""
    for old, new in (("two", "six"), ("line 50", "line 5x")):
        write_old(path, INPUT.replace(old, new))
        status, _, said = run([SREPLAY, "replay", "--timeout", "20", trace], 60)
        if status != 124 or not re.search(r"^sreplay: rank 0 thread \d+ SN \d+: %s (with other arguments|writes other bytes)" % call, said, re.M):
            return "%s became %s: status %s\n%s" % (old, new, status, said)
    return ""


def problem_of_fio(directory, engine, more=()):
    """It verifies what it reads, and says how it went."""
    trace, data = os.path.join(directory, "fio.srec"), os.path.join(directory, "data")
    for old in (trace, data):
        shutil.rmtree(old, ignore_errors=True)
    os.mkdir(data)
    fio = ["fio", "--thread", "--ioengine=" + engine, "--iodepth=32", "--rw=randrw", "--bs=4k", "--size=2m",
           "--verify=crc32c", "--verify_state_save=0", "--name=job", "--output-format=terse", "--directory=" + data] + list(more)
    status, printed, said = run([SREPLAY, "record", "--from-start", "-o", trace, "--"] + fio, 120)
    if status or said or not printed:
        return "recorded: status %s\n%s\n%s" % (status, printed, said)
    before = kept(data)
    shutil.rmtree(data)
    os.mkdir(data)
    status, again, said = run([SREPLAY, "replay", "--timeout", "60", trace], 120)
    if status or again != printed or "0 divergences: exact" not in said or NOT_RECORDED in said:
        return "replayed: status %s\n%s\n%s\n%s" % (status, printed, again, said)
    return "" if before and not os.listdir(data) else "files: %s, %s" % (list(before), os.listdir(data))


def problem(directory, program, case, call):
    """call: the one that submits."""
    trace, out, copies = (os.path.join(directory, name) for name in ("t.srec", "out", "copies"))
    for old in (trace, copies):
        shutil.rmtree(old, ignore_errors=True)
    write_old(out + ".in", INPUT)
    status, _, said = run([SREPLAY, "record", "--from-start", "-o", trace, "--", program, case, out], 60)
    recorded, data = read(out), read(out + ".data")
    if status or said or not recorded:
        return "recorded: status %s, %s\n%s" % (status, said, recorded)
    for name in (out, out + ".data"):
        with open(name, "w") as f:
            f.write("another content")
    status, _, said = run([SREPLAY, "replay", "--timeout", "20", "-o", copies, trace], 60)
    if status or "0 divergences: exact" not in said or "not compared" in re.sub("not compared is what its child(ren)? did", "", said):
        return "replayed: status %s\n%s" % (status, said)
    found = kept(copies)
    if found.get("out") != recorded or found.get("out.data", b"") != data:
        return "the replay wrote other files: %s\n%s\n%s" % (list(found), recorded.decode(), found.get("out", b"").decode())
    if read(out) != b"another content" or read(out + ".data") != b"another content":
        return "the replay changed the host's files"
    return finds_other_output(trace, out + ".in", call) if case == "copies" else ""
