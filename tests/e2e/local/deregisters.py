#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A thread reads memory that another one registers and deregisters (tests/programs/verbs/deregisters.c): what it finds is
replayed.  Needs no RDMA.

    deregisters.py [RUNS [CASE...]]
"""

from pollers import main

main("deregisters")
