#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Includes must point down the layers of docs/internals/architecture.md, and modules must not form a circle.

    includes.py SOURCE-ROOT

A module is a .c file with its header. The table's third column names folders; a folder may include these and
whatever these may include.
"""

import os
import re
import sys

TOPS = ["include", "logd", "nicclock", "replay", "shim"]
TABLE = "docs/internals/architecture.md"

# Includes that are still to be cut: (file, what it includes).  Upward, and in a circle of modules.
UPWARD = set()
CIRCULAR = set()


def read_table(root):
    """Folder to the folders that it names, from the bottom up."""
    rows = {}
    with open(os.path.join(root, TABLE), encoding="utf-8") as f:
        for line in f:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) == 3 and re.fullmatch(r"`[\w/]+`", cells[0]):
                rows[cells[0].strip("`")] = re.findall(r"`([\w/]+)`", cells[2])
    return rows


def closures(rows):
    """Folder to all folders that it may include, itself among them; and what is wrong with the table."""
    closed, wrong = {}, []
    for folder, named in rows.items():
        closed[folder] = {folder}
        for other in named:
            if other in closed:
                closed[folder] |= closed[other]
            else:
                wrong.append("%s names %s, which is not above it" % (folder, other))
    return closed, wrong


def read_includes(root):
    """Pairs of a file and what it includes of the project's files."""
    files = [os.path.relpath(os.path.join(folder, name), root) for top in TOPS
             for folder, _, names in os.walk(os.path.join(root, top)) for name in names if name.endswith((".c", ".h", ".S"))]
    known, pairs = set(files), []
    for path in sorted(files):
        with open(os.path.join(root, path), encoding="utf-8") as f:
            for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', f.read(), re.M):
                beside = os.path.join(os.path.dirname(path), name)
                if name in known or beside in known:
                    pairs.append((path, name if name in known else beside))
    return files, pairs


def circles(pairs):
    """Modules that reach themselves, each with the next ones on the way."""
    graph = {}
    for path, name in pairs:
        a, b = os.path.splitext(path)[0], os.path.splitext(name)[0]
        if a != b:
            graph.setdefault(a, set()).add(b)

    def reached_from(module):
        found, todo = set(), [module]
        while todo:
            new = graph.get(todo.pop(), set()) - found
            found |= new
            todo += new
        return found

    reached = {module: reached_from(module) for module in graph}
    return ["%s -> %s" % (m, " ".join(sorted(n for n in graph[m] if m in reached.get(n, ()))))
            for m in sorted(graph) if m in reached[m]]


def main():
    root = sys.argv[1]
    rows = read_table(root)
    may_include, wrong = closures(rows)
    files, pairs = read_includes(root)
    folders = {os.path.dirname(path) for path in files}
    upward = {(a, b) for a, b in pairs if os.path.dirname(b) not in may_include.get(os.path.dirname(a), folders)}
    checks = [
        ("the table names each folder once, from the bottom up",
         wrong + ["%s is not in the table" % f for f in sorted(folders - rows.keys())] +
         ["%s has no sources" % f for f in sorted(rows.keys() - folders)]),
        ("no include points up", ["%s -> %s" % pair for pair in sorted(upward - UPWARD)]),
        ("no modules include each other in a circle", circles([pair for pair in pairs if pair not in CIRCULAR])),
        ("exceptions are still needed",
         ["%s -> %s" % pair for pair in sorted((UPWARD - upward) | (CIRCULAR - set(pairs)))]),
    ]
    print("1..%d" % len(checks))
    for n, (name, failures) in enumerate(checks, 1):
        print("%s %d - %s" % ("not ok" if failures else "ok", n, name))
        for failure in failures:
            print("#   " + failure)
    sys.exit(any(failures for _, failures in checks))


if __name__ == "__main__":
    main()
