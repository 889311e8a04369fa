#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Each promise of docs/user/limits.md names the tests that hold it, and these exist; and so do those that docs/internals/testing.md
names in its table of exactness.

    promises.py SOURCE-ROOT BUILD-ROOT [list]

A promise is an item of a list in one of the sections below. Its tests are in a comment at its end, which a reader of the
page does not see: <!-- local/outputs unit/signals -->. In other sections items may have such a comment, too. With `list`
promises and tests are printed.
"""

import json
import os
import re
import sys

PAGE = "docs/user/limits.md"
PROMISING = ("What works", "What a recorded program can notice", "What a group's replay says about producers")
TABLE = "docs/internals/testing.md"
TABLE_BEGINS = "| what must hold | tests |"
COMMENT = re.compile(r"<!--(.*?)-->", re.S)


def items(text):
    """(section, line, item) of each item of a list in the page."""
    section, begin, item = "", 0, []
    for number, line in enumerate(text.splitlines() + ["# end"], 1):
        ends = line.startswith(("#", "- ", "**")) or not line.strip()
        if ends and item:
            yield section, begin, " ".join(item)
            item = []
        if line.startswith("## "):
            section = line[3:].strip()
        if line.startswith("- "):
            begin, item = number, [line[2:]]
        elif item:
            item.append(line.strip())


def tests_of(item):
    return [name for comment in COMMENT.findall(item) for name in comment.split()]


def check(text, known):
    """([(place, promise, tests)], [what is wrong])."""
    promises, wrong = [], []
    for section, line, item in items(text):
        place, names = "%s:%d" % (PAGE, line), tests_of(item)
        words = COMMENT.sub("", item).strip()
        if section in PROMISING:
            promises.append((place, words, names))
            if not names:
                wrong.append("%s: no test is named: %.70s" % (place, words))
        wrong += ["%s: there is no test %s" % (place, name) for name in names if name not in known]
    for comment in COMMENT.findall(text):
        if not any(comment in item for _, _, item in items(text)):
            wrong.append("%s: not at the end of an item: <!--%s-->" % (PAGE, comment))
    return promises, wrong


def check_table(text, known):
    """(how many rows the table has, [what is wrong])."""
    rows, wrong = 0, []
    for line in text.partition(TABLE_BEGINS)[2].splitlines()[2:]:
        if not line.startswith("|"):
            break
        names = re.findall(r"`([a-z]+/[a-z0-9-]+)`", line.rsplit("|", 2)[1])
        rows += 1
        wrong += ["%s: no test is named: %.70s" % (TABLE, line)] if not names else []
        wrong += ["%s: there is no test %s" % (TABLE, name) for name in names if name not in known]
    return rows, wrong


def try_itself(known):
    """It finds what it is for."""
    page = "## What works\n\n- this holds; <!-- local/outputs -->\n- and\n  that\n\n## Other\n\n- a limit\n"
    promises, wrong = check(page, known)
    return len(promises) == 2 and len(wrong) == 1 and "and that" in wrong[0] and \
        check(page.replace("and\n", "and <!-- local/none -->\n"), known)[1] == ["%s:4: there is no test local/none" % PAGE]


def main():
    os.chdir(sys.argv[1])
    with open(os.path.join(sys.argv[2], "meson-info", "intro-tests.json"), encoding="utf-8") as f:
        known = {test["name"] for test in json.load(f)}
    with open(PAGE, encoding="utf-8") as f:
        promises, wrong = check(f.read(), known)
    if sys.argv[3:] == ["list"]:
        for place, words, names in promises:
            print("%s: %.80s\n    %s" % (place, words, " ".join(names)))
    with open(TABLE, encoding="utf-8") as f:
        rows, wrong_rows = check_table(f.read(), known)
    results = [(try_itself(known), "a promise without a test and a test that is not there are found"),
               (len(promises) > 35 and not wrong, "%d promises name their tests" % len(promises)),
               (rows > 25 and not wrong_rows, "%d things that must hold name their tests" % rows)]
    for n, (good, name) in enumerate(results, 1):
        print("%s %d - %s" % ("ok" if good else "not ok", n, name))
    for line in wrong + wrong_rows:
        print("# " + line)
    print("1..%d" % len(results))
    sys.exit(not all(good for good, _ in results))


if __name__ == "__main__":
    main()
