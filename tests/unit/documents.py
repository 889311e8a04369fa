#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What the documents refer to must exist: links and their anchors, source files, and functions in docs/internals.

    documents.py SOURCE-ROOT
"""

import glob
import os
import re
import sys

FOLDERS = "shim|replay|logd|nicclock|include|tests|ci|bench|docs"
# Folders and files of examples, or that existed once.
PLACEHOLDERS = re.compile(r"SUBJECT|NAME|docs/windows\.md")


def anchor(heading):
    """As GitHub makes it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip().lower().replace("`", ""))
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(path):
    with open(path, encoding="utf-8") as f:
        return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", f.read(), re.M)}


def broken_links(page, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        path, _, name = target.partition("#")
        path = os.path.join(os.path.dirname(page), path) if path else page
        if not os.path.exists(path) or (name and path.endswith(".md") and name not in anchors(path)):
            yield target


def missing_files(text):
    for path in re.findall(r"`((?:%s)/[\w./-]+)`" % FOLDERS, text):
        if not PLACEHOLDERS.search(path) and not os.path.exists(path):
            yield path


def source_text():
    text = []
    for folder in ("shim", "replay", "logd", "nicclock", "tests"):
        for path in glob.glob(folder + "/**/*.[ch]", recursive=True):
            with open(path, encoding="utf-8", errors="replace") as f:
                text.append(f.read())
    return "\n".join(text)


def missing_functions(text, sources):
    """A function that is named, and one that is named with its file and is not defined there."""
    text = re.sub(r"\s+", " ", text)
    for name in set(re.findall(r"`(\w+)\(\)`", text)):
        if not re.search(r"\b%s\(" % name, sources):
            yield name + "()"
    for name, path in re.findall(r"`(\w+)\(\)`,? (?:\(|in )`([\w/]+\.[ch])`", text):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                if not re.search(r"^[^\n;]*\b%s\([^;{]*\{" % name, f.read(), re.M):
                    yield "%s() in %s" % (name, path)


def main():
    os.chdir(sys.argv[1])
    pages = sorted(glob.glob("*.md") + glob.glob("docs/*/*.md") + ["tests/programs/README.md"])
    sources = source_text()
    failed = False
    for number, page in enumerate(pages, 1):
        with open(page, encoding="utf-8") as f:
            text = f.read()
        wrong = ["link to " + t for t in broken_links(page, text)] + ["file " + p for p in missing_files(text)]
        if page.startswith("docs/internals"):
            wrong += ["function " + n for n in missing_functions(text, sources)]
        for what in wrong:
            print("# %s: %s" % (page, what))
        print("%sok %d - %s refers to what exists" % ("not " if wrong else "", number, page))
        failed = failed or bool(wrong)
    print("1..%d" % len(pages))
    return failed


sys.exit(main())
