#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares the table of direct verbs in calls.def with the installed libraries and headers.

    direct_table.py CALLS.DEF

Each function of a header that takes an object of libibverbs's is in the table (what needs an object of
direct verbs' own making need not be), and what is in the table has the version that the library exports.
"""

import os
import re
import subprocess
import sys

HEADERS = {"mlx5": "mlx5dv.h", "mlx4": "mlx4dv.h", "efa": "efadv.h", "hns": "hnsdv.h", "mana": "manadv.h"}


def prototypes(header):
    with open(header) as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    found = re.finditer(r"^(?!static|#|typedef|\s)([a-z][\w \t*]*?[\s*]+)(_?\w+dv_\w+)\s*\(([^;{]*?)\);", text, re.M)
    return {m.group(2): m.group(3) for m in found}


def exported(library):
    path = subprocess.check_output(["cc", "-print-file-name=lib%s.so.1" % library], text=True).strip()
    if not os.path.exists(path):
        return {}
    symbols = subprocess.check_output(["nm", "-D", "--defined-only", path], text=True)
    return dict(re.findall(r" T (\w+)@@(\w+[\d.]+)$", symbols, re.M))


def main():
    with open(sys.argv[1]) as f:
        table = {m.group(2): (m.group(1), m.group(3))
                 for m in re.finditer(r"^direct (\w+) \w+ (\w+) (\S+)", f.read(), re.M)}
    count = bad = 0
    for library, header in HEADERS.items():
        functions = exported(library)
        for name, (of, version) in table.items():
            if of == library and name in functions:
                count += 1
                good = functions[name] == version
                bad += not good
                print("%s %d - %s@%s" % ("ok" if good else "not ok", count, name, functions[name]))
        path = os.path.join("/usr/include/infiniband", header)
        for name, arguments in prototypes(path).items() if os.path.exists(path) else ():
            if name in functions and re.search(r"struct ibv_\w+ \*", arguments) and name not in table:
                count, bad = count + 1, bad + 1
                print("not ok %d - %s takes an object of libibverbs's and is not in the table" % (count, name))
    print("1..%d" % count)
    sys.exit(bad > 0 or count < 50)


if __name__ == "__main__":
    main()
