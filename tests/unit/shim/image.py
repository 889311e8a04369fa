#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The library's image is smaller than 2 MiB.

    image.py LIBRARY

Linux 6.7 and later align mappings of 2 MiB and more to a huge page, earlier ones do not: libraries would then
lie at another distance from this one in a replay than in the recording (shim/calls/codec/place.c).
"""

import subprocess
import sys

LIMIT = 2 << 20


def main():
    headers = subprocess.run(["readelf", "-lW", sys.argv[1]], check=True, stdout=subprocess.PIPE, text=True).stdout
    loads = [line.split() for line in headers.splitlines() if line.split()[:1] == ["LOAD"]]
    size = max(int(f[2], 16) + int(f[5], 16) for f in loads)
    print("1..1")
    print("%s 1 - the image is %d KiB, below %d" % ("ok" if size < LIMIT else "not ok", size >> 10, LIMIT >> 10))
    sys.exit(size >= LIMIT)


if __name__ == "__main__":
    main()
