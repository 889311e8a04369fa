#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""gencalls.py must refuse what calls.def's language does not have; the message names the line and the alternatives.

    gencalls.py GENCALLS.PY CALLS.DEF
"""
import os
import subprocess
import sys
import tempfile

FUNCTION = "call int getloadavg(double *loads, int n)"
GOOD = [FUNCTION, "\tfrom libc", "\tin n", "\tout data loads ret*sizeof(double) if ret > 0", "\tis order=none"]
# what stands in place of the last line, and what the message has
BAD = [
    ("\tin nosuch", '"nosuch" is neither an argument of getloadavg nor a wire type'),
    ("\tout dada loads 8", '"dada" is neither'),
    ("\tout data loads ret * 8", "no blanks"),
    ("\tis order=never", "there are none, entry, return, both"),
    ("\tis frozen", 'no attribute "frozen"; there are syscall[=NAME], fd='),
    ("\tis wait=1", 'no attribute "wait=1"'),
    ("\tis fd=q", 'getloadavg has no argument "q"'),
    ("\tform libc", "expected from, op, answer, in, out or is"),
    ("\top place field of loads", 'no container "place"'),
    (FUNCTION, "getloadavg is described twice"),
    ("call int f(foo_t n)\n\tin n", "no wire type is known for the C type"),
    ("call int f(n)", "an argument needs a type and a name"),
    ("function int f(int n)", 'expected "struct", "call" or "direct"'),
    ("struct s = struct s\n\tu32", "expected: TYPE FIELD [if CONDITION]"),
    ("direct mlx5 sometimes f MLX5_1.0", "expected: direct LIBRARY FAILURE NAME VERSION"),
]


def generate(gencalls, text):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "calls.def")
        with open(path, "w") as f:
            f.write(text + "\n")
        r = subprocess.run([sys.executable, gencalls, path, directory], capture_output=True, text=True)
        made = ""
        for name in sorted(os.listdir(directory)):
            with open(os.path.join(directory, name)) as f:
                made += f.read() if name.endswith(".gen.c") else ""
    return r.returncode, r.stderr, made


def main():
    gencalls, calls = sys.argv[1:]
    print("1..%d" % (len(BAD) + 3))
    status, err, made = generate(gencalls, "\n".join(GOOD))
    print("%sok 1 - a function of five lines gets a wrapper" %
          ("" if status == 0 and "SR_EXPORT int getloadavg(double *loads, int n)" in made else "not "))
    with open(calls) as f:
        status, err, made = generate(gencalls, f.read())
    print("%sok 2 - calls.def itself" % ("" if status == 0 and not err else "not "))
    status, err, made = generate(gencalls, "\n".join(GOOD[:-1] + ["\tis order=none pauses"]))
    good = status == 0 and "SR_CALL_PAUSES" in made and '\\"pauses\\":true' in made
    print("%sok 3 - who waits may call it again and again: the table and the schema of traces say so" % ("" if good else "not "))
    for number, (line, message) in enumerate(BAD):
        status, err, _ = generate(gencalls, "\n".join(GOOD[:-1] + [line]))
        # a description of two lines is refused in its second
        where = "calls.def:%d: " % (len(GOOD) + line.count("\n"))
        good = status == 1 and where in err and message in err and "Traceback" not in err
        print("%sok %d - %s" % ("" if good else "not ", number + 4, message))
        if not good:
            print("# " + err.replace("\n", "\n# "))


if __name__ == "__main__":
    main()
