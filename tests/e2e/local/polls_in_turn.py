#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Loops that poll several completion queues in turn (tests/programs/verbs/polls_in_turn.c): what is counted in the trace
comes to the program again, poll by poll.  Needs no RDMA.

    polls_in_turn.py [RUNS [CASE...]]
"""

from pollers import main

main("polls_in_turn")
