#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Exposed memory as a buffer of io_uring (tests/programs/verbs/exposed_uring.c): what comes there and goes out is replayed.
Needs no RDMA.

    exposed_uring.py [RUNS [CASE...]]
"""

import pollers

if __name__ == "__main__":
    pollers.main("exposed_uring")
