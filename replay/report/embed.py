#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Puts the report's page, style and script into C strings, with the script's hash in the page's policy.

    embed.py PAGE.html PAGE.css SCRIPT.js... OUT.c
"""

import base64
import hashlib
import sys


def c_string(text):
    lines = []
    for line in text.encode().splitlines(keepends=True):
        out = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else "\\%03o" % b for b in line)
        lines.append('\t"%s"' % out)
    return "\n".join(lines)


def main():
    page, style, *scripts, out = sys.argv[1:]
    text = {}
    for name in [page, style] + scripts:
        with open(name, encoding="utf-8") as f:
            text[name] = f.read()
    script = '"use strict";\n' + "\n".join(text[name] for name in scripts)
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    whole = text[page].replace("@CSS@", text[style]).replace("@HASH@", hashed).replace("@JS@", script)
    head, tail = whole.split("@SPLIT@\n")
    with open(out, "w", encoding="utf-8") as f:
        f.write('#include "replay/report/report.h"\n\nconst char sr_report_head[] =\n%s;\n\nconst char sr_report_tail[] =\n%s;\n'
                % (c_string(head), c_string(tail)))


main()
