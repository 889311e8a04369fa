#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes what settings.def says into the documents, between their "settings:" marks.

    settings_docs.py          brings docs/man/sreplay.1 and docs/user/guide.md up to date
    settings_docs.py --check  is a test: fails (TAP) where they differ from settings.def
"""
import os
import re
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
TABLE = os.path.join(HERE, "settings.def")
COMMAND = "shim/core/settings_docs.py"


# ------------------------------------------------------------------ the table

class Setting:
    def __init__(self, name, field, kind, default, variable, letter, option, argument, help, text):
        self.name, self.default, self.variable, self.letter = name, default, variable, letter
        self.option, self.help, self.text = option, help, text
        self.kind, self.words, self.range = kind["kind"], kind.get("words", []), kind.get("range")
        self.what = kind.get("what")
        self.has_argument = kind["kind"] not in ("FLAG", "FLAG_OR")
        self.argument = (argument or "|".join(self.words) or "N") if self.has_argument else None

    def note(self):
        """The help, and what a table of defaults would have."""
        if self.default and self.has_argument:
            return "%s (default: %s)" % (self.help, self.default)
        return self.help


class Names(dict):
    """What settings.def names without defining it: fields, and constants of ranks.h."""

    def read_constants(self, path):
        with open(path) as f:
            self.update((name, int(value)) for name, value in re.findall(r"#define (\w+) (\d+)$", f.read(), re.M))

    def __missing__(self, name):
        return name


def read_table(path=TABLE):
    """settings.def is a list of calls, to Python as well: SETTING(...), RENAMED(...)."""
    settings, renamed = [], []
    names = Names(
        SETTING=lambda *row: settings.append(Setting(*row)),
        RENAMED=lambda *row: renamed.append(row),
        NULL=None, FLAG={"kind": "FLAG", "words": ["off", "on"]},
        FLAG_OR=lambda word: {"kind": "FLAG_OR", "words": ["off", "on", word]},
        SWITCH={"kind": "SWITCH", "words": ["off", "on"]},
        CHOICE=lambda *words: {"kind": "CHOICE", "words": list(words)},
        NUMBER=lambda unit, least, most: {"kind": "NUMBER", "range": (unit, least, most)},
        PATH={"kind": "PATH"}, RANKS={"kind": "RANKS"}, RANGES={"kind": "RANGES"},
        TEXT=lambda what: {"kind": "TEXT", "what": what})
    names.read_constants(os.path.join(HERE, "ranks.h"))
    with open(path) as f:
        exec(compile(re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S), path, "exec"), {}, names)
    return settings, renamed


def of_variable(s):
    """What the variable may have, in short."""
    if s.kind in ("FLAG", "FLAG_OR", "SWITCH"):
        return "on or off"
    if s.words:
        return "%s or %s" % (", ".join(s.words[:-1]), s.words[-1])
    if s.range and s.range[0]:
        return "%s, %d to %d" % s.range
    return {"NUMBER": "a number", "PATH": "an absolute path", "RANKS": "a list of ranks such as 0,2-5",
            "RANGES": "at most 64 ranges such as 0x6a0000000000+4096", "TEXT": s.what}[s.kind]


# ------------------------------------------------------------------- the guide

def markdown(text):
    return text.replace("|", "\\|")


def guide_options(settings):
    """A table of short facts, and a paragraph for each setting that needs one."""
    lines = ["| option | meaning |", "| --- | --- |"]
    for s in settings:
        if s.option:
            option = "--" + s.option + (" " + markdown(s.argument) if s.argument else "")
            lines.append("| `-%s`, `%s` | %s |" % (s.letter, option, markdown(s.note())))
    for s in settings:
        if s.option and s.text:
            lines += [""] + textwrap.wrap("**`--%s`.** %s" % (s.option, s.text), 120, break_long_words=False,
                                          break_on_hyphens=False)
    return lines


def guide_variables(settings):
    lines = ["| variable | like | value |", "| --- | --- | --- |"]
    for s in settings:
        like = "`--%s`" % s.option if s.option else s.note()
        lines.append("| `%s` | %s | %s |" % (s.variable, markdown(like), of_variable(s)))
    return lines


# ------------------------------------------------------------- the manual page

def mdoc(text):
    """Markdown's links and code as roff's; its sentences begin new lines, as is usual there."""
    text = re.sub(r"\[([^]]*)\]\((#?)([^)#]*)[^)]*\)", lambda m: m[1] + " in guide.md" if m[2] else m[3], text)
    text = text.replace("\\", "\\e").replace("µ", "\\(mc").replace("-", "\\-")
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fP", text)
    return re.sub(r"(?<=[.]) (?=[A-Z])", "\n", text)


def flag(s):
    long_form = "Fl -%s" % s.option.replace("-", "\\-")
    return long_form + (" Ns = Ns Ar %s" % s.argument if s.argument else "")


def man_synopsis(settings):
    return [".Op %s" % flag(s) for s in settings if s.option]


def man_options(settings):
    lines = [".Bl -tag -width Ds"]
    for s in settings:
        if s.option:
            note = s.note()
            lines += [".It Fl %s , %s" % (s.letter, flag(s)), mdoc(note[0].upper() + note[1:] + ".")]
            lines += [mdoc(s.text)] if s.text else []
    return lines + [".El"]


def man_variables(settings):
    lines = [".Bl -tag -width SREPLAY_SYSCALL_TRAP"]
    for s in settings:
        value = of_variable(s)
        lines.append(".It Ev %s" % s.variable)
        if s.option:
            lines += ["As", ".Fl -%s :" % s.option.replace("-", "\\-"), mdoc(value + ".")]
        else:
            note = s.note()
            lines.append(mdoc("%s: %s." % (note[0].upper() + note[1:], value)))
    return lines + [".El"]


# --------------------------------------------------------------- the documents

DOCUMENTS = {
    "docs/user/guide.md": ("<!-- settings: %s (made by " + COMMAND + ") -->", "<!-- settings: end -->",
                           {"options": guide_options, "variables": guide_variables}),
    "docs/man/sreplay.1": ('.\\" settings: %s (made by ' + COMMAND + ")", '.\\" settings: end',
                           {"synopsis": man_synopsis, "options": man_options, "variables": man_variables}),
}


def renewed(document, text, settings):
    begin, end, blocks = DOCUMENTS[document]
    for name, make in blocks.items():
        mark = begin % name
        if mark not in text or end not in text.split(mark, 1)[1]:
            sys.exit("%s has no block %s ... %s" % (document, mark, end))
        before, rest = text.split(mark + "\n", 1)
        gap = "\n" if document.endswith(".md") else ""
        text = before + mark + "\n" + gap + "\n".join(make(settings)) + "\n" + gap + end + rest.split(end, 1)[1]
    return text


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    settings, _ = read_table()
    print("1..%d" % len(DOCUMENTS) if check else "%d settings" % len(settings))
    failed = False
    for number, document in enumerate(DOCUMENTS):
        path = os.path.join(ROOT, document)
        with open(path) as f:
            old = f.read()
        new = renewed(document, old, settings)
        failed = failed or old != new
        if check:
            print("%sok %d - %s says what settings.def says%s"
                  % ("" if old == new else "not ", number + 1, document,
                     "" if old == new else "; run " + COMMAND))
        elif old != new:
            with open(path, "w") as f:
                f.write(new)
            print("%s: changed" % document)
    return check and failed


if __name__ == "__main__":
    sys.exit(main())
