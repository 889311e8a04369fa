#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a recorded program can notice is what docs/user/limits.md says: its heap, its threads' stacks, its completion queues.

    noticed.py [PART...]
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from harness import BUILD, SREPLAY, replay_problem, run, run_functions

PROGRAM = os.path.join(os.path.realpath(BUILD), "tests", "programs", "noticed")
SOFTDEV = os.path.join(os.path.realpath(BUILD), "tests", "lib", "softdev")


def both(tap, directory, part, options=(), **more):
    """What it prints bare, and recorded, where it is also replayed."""
    env = {**os.environ, **more}
    trace = os.path.join(directory, part + ".srec")
    bare = run([PROGRAM, part], 60, env=env)
    recorded = run([SREPLAY, "record", *options, "-o", trace, "--", PROGRAM, part], 60, env=env)
    replayed = run([SREPLAY, "replay", trace], 60, env=env)
    tap.ok(bare[0] == recorded[0] == 0 and replayed[:2] == recorded[:2] and "0 divergences: exact" in replayed[2],
           "%s: it replays" % part, "%s\n%s\n%s" % (bare, recorded, replayed))
    return [dict((line.split()[0], int(line.split()[1])) for line in out.decode().splitlines()) for out in (bare[1], recorded[1])]


def memory(tap, directory):
    bare, recorded = both(tap, directory, "memory")
    tap.ok(bare["mappings"] == 1 and recorded["mappings"] == 0, "large blocks come from the heap", str((bare, recorded)))
    tap.ok(not bare["one_arena"] and recorded["one_arena"], "all threads allocate from one arena", str((bare, recorded)))
    tap.ok(recorded["dirty"] == 0, "main finds zeros below its frame", str((bare, recorded)))


def stacks(tap, directory):
    bare, recorded = both(tap, directory, "stacks")
    tap.ok(bare["more"] == 0 and recorded["more"] == 16384, "a stack is 16 KiB larger", str((bare, recorded)))
    tap.ok(bare["guard"] == recorded["guard"] > 0, "its guard is shown, which Rust's threads insist upon", str((bare, recorded)))
    tap.ok(bare["used_again"] and not recorded["used_again"], "its address is not used again", str((bare, recorded)))


def verbs(tap, directory):
    bare, recorded = both(tap, directory, "verbs", ["--clocks"], LD_LIBRARY_PATH=SOFTDEV)
    tap.ok(recorded["cqe"] > bare["cqe"] >= 10, "completion queues are deeper", str((bare, recorded)))


def rings(tap, directory):
    """What the kernel does there is not recorded; but it works."""
    bare = run([PROGRAM, "rings"], 60)
    recorded = run([SREPLAY, "record", "-o", os.path.join(directory, "rings.srec"), "--", PROGRAM, "rings"], 60)
    tap.ok(bare[:2] == recorded[:2] and (b"mapped 1" in bare[1] or b"none 1" in bare[1]), "io_uring's rings can be mapped",
           "%s\n%s" % (bare, recorded))


if __name__ == "__main__":
    run_functions([memory, stacks, verbs, rings])
