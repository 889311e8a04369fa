#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A test that needs RDMA devices, as meson knows it:

    case.py FOLDER [--there COMMAND]... [--here COMMAND]...

The commands, each one argument, run one after the other: first those for the machine that ci/rxe starts ("there"), then
those for this one ("here"), such as replays of what was recorded. A command's first word is a script in FOLDER. In its
other words OUT stands for a directory that both machines see, TMP for one of the machine's own.

ci/test starts the machine once for all such tests. Run by itself, as `meson test` does, this starts it for one.
"""

import os
import shlex
import sys

FILE = os.path.realpath(__file__)


class Stages:
    def __init__(self, folder, there, here):
        self.folder, self.there, self.here = folder, there, here

    def commands(self, lines, out, tmp=""):
        """Each as a list of arguments."""
        places = {"OUT": out, "TMP": tmp}
        for line in lines:
            words = shlex.split(line)
            yield [os.path.join(self.folder, words[0])] + [places.get(word, word) for word in words[1:]]


def parse(command):
    """The stages of a test's command; None if it is no such test."""
    if FILE not in (os.path.realpath(word) for word in command[:2]):
        return None
    words = command[[os.path.realpath(word) for word in command].index(FILE) + 1:]
    lines = {"--there": [], "--here": []}
    for option, line in zip(words[1::2], words[2::2]):
        lines[option].append(line)
    return Stages(words[0], lines["--there"], lines["--here"])


def main():
    import alone
    sys.exit(alone.run(parse(sys.argv)))


if __name__ == "__main__":
    main()
