#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes a man page of each subcommand, and completions for bash and zsh, of what `sreplay COMMAND --help` says.

    make_pages.py SREPLAY OUT-DIRECTORY
"""

import os
import re
import subprocess
import sys

# Options whose argument is a file; other arguments are traces.
FILES = {"output", "key"}


def help_of(sreplay, *words):
    return subprocess.run([sreplay] + list(words) + ["--help"], capture_output=True, text=True, check=True,
                          env=dict(os.environ, ARGP_HELP_FMT="rmargin=200", SREPLAY_TRACE_DIR="/")).stdout


class Command:
    def __init__(self, sreplay, name, what):
        self.name, self.what = name, what
        text = help_of(sreplay, name)
        head, _, rest = text.partition("\n\n")
        usage, _, doc = head.partition("\n")
        self.usage = re.sub(r"^Usage: sreplay %s *" % name, "", usage)
        self.doc = " ".join(doc.split())
        self.options = []
        for line in (rest or "").splitlines():
            m = re.match(r"\s+(?:-(\w), )?\s*(?:--([\w-]+)(\[?=\S+)?)(?:\s+(.*))?$", line)
            if m:
                # "=FILE", or "[=FILE]" if it may be left out
                self.options.append([m.group(1), m.group(2), m.group(3) or "", m.group(4) or ""])
            elif self.options and re.match(r"\s{10,}\S", line):
                self.options[-1][3] += " " + line.strip()


def escape(text):
    return text.replace("\\", "\\e").replace("-", "\\-")


def page(command):
    lines = ['.\\" Made by docs/man/make_pages.py.', ".TH SREPLAY\\-%s 1 \"\" sreplay" % command.name.upper(),
             ".SH NAME", "sreplay\\-%s \\- %s" % (command.name, escape(command.what)), ".SH SYNOPSIS",
             ".B sreplay %s" % command.name, escape(command.usage), ".SH DESCRIPTION", escape(command.doc), ".SH OPTIONS"]
    for letter, name, argument, text in command.options:
        forms = ["\\-%s" % letter] if letter else []
        forms.append(escape("--" + name) + "\\fR" + escape(argument).replace("=", "=\\fI"))
        lines += [".TP", ".B " + ", ".join(forms) + "\\fR", escape(text) or "."]
    lines += [".SH EXIT STATUS", "See", ".BR sreplay (1),", "which lists those of all commands.", ".SH SEE ALSO",
              ".BR sreplay (1)"]
    return "\n".join(lines) + "\n"


def bash(commands):
    cases = []
    for c in commands:
        words = " ".join("--" + o[1] for o in c.options)
        cases.append('\t%s) options="%s" ;;' % (c.name, words))
    names = " ".join(c.name for c in commands)
    return """# bash completion of sreplay: made by docs/man/make_pages.py
_sreplay() {
	local word=${COMP_WORDS[COMP_CWORD]} options=
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		COMPREPLY=($(compgen -W "%s --help --version" -- "$word"))
		return
	fi
	case ${COMP_WORDS[1]} in
%s
	esac
	case $word in
	-*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
	*) COMPREPLY=($(compgen -d -- "$word") $(compgen -f -X '!*.html' -- "$word"))
		[ -z "$SREPLAY_TRACE_DIR" ] || COMPREPLY+=($(cd "$SREPLAY_TRACE_DIR" 2>/dev/null && compgen -d -X '!*.srec' -- "$word")) ;;
	esac
}
complete -o filenames -o bashdefault -F _sreplay sreplay
""" % (names, "\n".join(cases))


def quote(text):
    return text.replace("'", "").replace("[", "(").replace("]", ")").replace(":", " -")


def zsh(commands):
    cases = []
    for c in commands:
        options = []
        for letter, name, argument, text in c.options:
            is_optional = argument.startswith("[")
            kind = "%s%s:%s" % ("::" if is_optional else ":", name, "_files" if name in FILES else " ") if argument else ""
            options.append("\t\t'--%s%s[%s]%s'" % (name, "=-" if is_optional else "=" if argument else "", quote(text), kind))
        last = "'*::: _normal'" if c.name == "record" else "'*:trace:_files -/'"
        cases.append("\t%s) _arguments \\\n%s ;;" % (c.name, " \\\n".join(options + ["\t\t" + last])))
    names = "\n".join("\t'%s:%s'" % (c.name, quote(c.what)) for c in commands)
    return """#compdef sreplay
# zsh completion of sreplay: made by docs/man/make_pages.py
local -a commands
commands=(
%s
)
if (( CURRENT == 2 )); then
	_describe command commands
	return
fi
local command=$words[2]
shift words
(( CURRENT-- ))
case $command in
%s
esac
""" % (names, "\n".join(cases))


def main():
    sreplay, out = sys.argv[1:]
    listed = re.findall(r"^  (\w+) +(.*)$", help_of(sreplay), re.M)
    commands = [Command(sreplay, name, what) for name, what in listed]
    texts = {"sreplay-%s.1" % c.name: page(c) for c in commands}
    texts.update({"sreplay": bash(commands), "_sreplay": zsh(commands)})
    for name, text in texts.items():
        with open(os.path.join(out, name), "w", encoding="utf-8") as f:
            f.write(text)


main()
