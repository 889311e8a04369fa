#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Man pages of the subcommands and completions have all commands and options, and their tools take them; the installed
header compiles alone under C11 and C++17.

    help_pages.py SREPLAY DIRECTORY
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
count = failed = 0


def ok(condition, text, detail=""):
    global count, failed
    count += 1
    failed += not condition
    for line in str(detail).splitlines()[:10] if not condition else ():
        print("# " + line)
    print("%s %d - %s" % ("ok" if condition else "not ok", count, text))


def said(*command, **options):
    r = subprocess.run(command, capture_output=True, text=True, **options)
    return r.stdout + r.stderr


def complete(completions, *words):
    script = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sreplay; echo "${COMPREPLY[@]}"'
    return said("bash", "-c", script, completions, *words).split()


def check_pages(sreplay, directory, commands):
    for name in commands:
        options = set(re.findall(r"--([\w-]+)", said(sreplay, name, "--help", env=dict(os.environ, ARGP_HELP_FMT="rmargin=300"))))
        page = os.path.join(directory, "sreplay-%s.1" % name)
        with open(page, encoding="utf-8") as f:
            text = f.read().replace("\\-", "-")
        warnings = said("man", "--warnings", "-l", "-Tutf8", "-Z", page, env=dict(os.environ, LC_ALL="C.UTF-8")) \
            if shutil.which("man") else ""
        missing = [o for o in options - {"help"} if "--" + o not in text]
        ok(not missing and "warning" not in warnings, "sreplay-%s(1) has its options" % name, missing)


def check_completion(directory, commands):
    completions = os.path.join(directory, "sreplay")
    ok(set(complete(completions, "sreplay", "")) >= set(commands), "bash: all commands", complete(completions, "sreplay", ""))
    ok(complete(completions, "sreplay", "rep") == ["replay", "report"], "bash: by their beginnings")
    ok(complete(completions, "sreplay", "replay", "--tra") == ["--transport"], "bash: options of a command",
       complete(completions, "sreplay", "replay", "--tra"))
    if shutil.which("zsh"):
        ok(not said("zsh", "-n", os.path.join(directory, "_sreplay")), "zsh reads its completions")


def check_header():
    header = os.path.join(ROOT, "include", "sreplay", "trace.h")
    for compiler, language, standard in (("gcc", "c", "c11"), ("g++", "c++", "c++17")):
        if not shutil.which(compiler):
            continue
        wrong = said(compiler, "-x", language, "-std=" + standard, "-Wall", "-Wextra", "-pedantic-errors", "-Werror", "-fsyntax-only",
                     "-I" + os.path.join(ROOT, "include"), header)
        ok(not re.sub(r".*#pragma once in main file.*", "", wrong).strip(), "trace.h compiles alone as %s" % standard, wrong)


def check_unit(directory):
    """systemd's own check of the daemon's unit, with the daemon where it is built."""
    if not shutil.which("systemd-analyze"):
        return
    daemon = os.path.join(directory, "logd", "sreplay-logd")
    with open(daemon + ".service", encoding="utf-8") as f:
        text = re.sub(r"(?m)^ExecStart=\S+", "ExecStart=" + daemon, f.read())
    with tempfile.TemporaryDirectory() as place:
        unit = os.path.join(place, "sreplay-logd.service")
        with open(unit, "w", encoding="utf-8") as f:
            f.write(text)
        wrong = said("systemd-analyze", "verify", "--man=no", unit)
        ok("sreplay-logd" not in wrong, "systemd finds nothing wrong with the unit", wrong)
        with open(unit, "a", encoding="utf-8") as f:
            f.write("[Service]\nRestart=perhaps\n")
        ok("sreplay-logd" in said("systemd-analyze", "verify", "--man=no", unit), "... and would")


def check_installed(commands):
    with open(os.path.join(ROOT, "docs", "meson.build"), encoding="utf-8") as f:
        text = f.read()
    missing = [c for c in commands if "'%s'" % c not in text]
    ok(not missing, "the page of each command is installed", missing)


def main():
    sreplay, directory = sys.argv[1:]
    commands = re.findall(r"^  (\w+) ", said(sreplay, "--help"), re.M)
    check_pages(sreplay, directory, commands)
    check_completion(directory, commands)
    check_header()
    check_installed(commands)
    check_unit(os.path.dirname(directory))
    print("1..%d" % count)
    return failed > 0


sys.exit(main())
