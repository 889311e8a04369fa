#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Threads and signal handlers that look how far another thread got, which is in libgcc's unwinder most of the time
(tests/programs/verbs/unwinds.c): they see the same in a replay.  Needs no RDMA.

    unwinds.py [RUNS [CASE...]]
"""

from pollers import main

main("unwinds")
