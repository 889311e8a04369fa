# SPDX-License-Identifier: BSD-2-Clause
"""Runs one test that needs the machine, when meson starts it and not ci/test."""

import os
import sys

from machine import Machine

SECONDS = 1200


class Single:
    def __init__(self, stages):
        self.name, self.stages = "test", stages
        self.environment, self.directory, self.seconds = {}, os.getcwd(), SECONDS


def run(stages):
    """The exit status."""
    machine = Machine([Single(stages)], os.environ["SREPLAY_BUILD"])
    machine.run()
    result = machine.afterwards("test")
    machine.finish()
    sys.stdout.buffer.write(result.log)
    return 1 if result.failed else 0
