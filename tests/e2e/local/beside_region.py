#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A thread stores beside a region that peers may write, and then loads from it (tests/programs/verbs/beside_region.c): where
others run in between is replayed.  Needs no RDMA.

    beside_region.py [RUNS [CASE...]]
"""

from pollers import main

main("beside_region")
