#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`sreplay report`: the page has what `dump`, the plan and `explain` say, is small, and runs no script of a stranger's.

    report.py [page] [hostile] [large] [executed] [refused]
    report.py browser

`browser` opens pages in a headless Chromium: they load without errors, and draw as many arrows as the trace has.
"""

import html
import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
from export import PINGPONG, SOFTDEV, arrows, called, record_group
from harness import SREPLAY, read, run, run_functions

SECONDS = 60
HOSTILE = "</script><script>document.body.dataset.evil='yes'</script><img src=x onerror=\"document.body.dataset.evil='yes'\">"
NUMBERS = 8  # of an arrow


def data_of(path):
    text = read(path).decode()
    return text, json.loads(re.search(r'<script type="application/json" id="data">\n(.*?)</script>', text, re.S).group(1))


def report(trace, path):
    return run([SREPLAY, "report", "-o", path, trace], SECONDS)


def drawn(data):
    """Arrows of each kind, also where several are shown as one."""
    return {kind: sum(numbers[4::NUMBERS]) for kind, numbers in data["arrows"].items()}


def completions(trace):
    """(successful completions of requests, receives), from `dump`."""
    _, out, _ = run([SREPLAY, "dump", "--addresses", "--json", trace], SECONDS)
    return sum(len(json.loads(line).get("out", {}).get("wc") or ()) for line in out.splitlines() if b'"poll_cq"' in line)


def page(tap, directory):
    trace, (status, _, err) = record_group(directory, "uts", 4, "T1-5")
    path = os.path.join(directory, "uts.html")
    calls, (orders, messages) = called(trace), arrows(trace)
    status, _, err = report(trace, path)
    if not tap.ok(status == 0, "uts on 4 ranks has a page", err):
        return
    text, data = data_of(path)
    tap.ok(sum(len(t["b"]) for t in data["tracks"]) == sum(map(len, calls.values())), "each call is a bar", data["calls"])
    got = drawn(data)
    tap.ok((got["order"], got["message"]) == (orders, messages) and orders, "orders and messages are those of the plan", got)
    tap.ok(got["request"] == len(data["posts"]) > 0, "each request has its completion", (got, len(data["posts"])))
    tap.ok(got["write"] > 0 and len(data["values"]) == data["valuesTotal"], "values have their writers", got)
    tap.ok(not re.search(r'(src|href)="?(https?:)?//', text), "nothing is loaded from elsewhere")
    wrong = []
    for v in data["values"][::17]:
        track = data["tracks"][v[0]]
        place = "%d.%d:%d" % (data["ranks"][track["rank"]]["n"], track["thread"], v[2])
        _, out, _ = run([SREPLAY, "explain", trace, place], SECONDS)
        said = v[8].split("\n", 1)[1].strip()
        if said not in out.decode():
            wrong.append((place, said, out.decode()))
    tap.ok(not wrong, "a value says what `sreplay explain` says", wrong)
    matrix = {(e["from"], e["to"]): sum(e[k][0] for k in ("send", "write", "read", "atomic")) for e in data["traffic"]}
    _, out, _ = run([SREPLAY, "graph", trace], SECONDS)
    graph = {(int(a), int(b)): sum(map(int, re.findall(r"(\d+) (?:write|send|read|atomic)", rest)))
             for a, b, rest in re.findall(r"rank (\d+) to rank (\d+): (.*)", out.decode())}
    tap.ok(matrix == {k: n for k, n in graph.items() if n}, "the matrix is that of `sreplay graph`", (matrix, graph))
    status, _, err = run([SREPLAY, "replay", trace], SECONDS)
    report(trace, path)
    _, data = data_of(path)
    tap.ok(status == 0 and data["replayed"] and drawn(data)["write"] > 0, "after a replay its findings are shown", err)


def record_hostile(directory):
    trace, program = os.path.join(directory, "evil.srec"), os.path.join(directory, HOSTILE.replace("/", "%"))
    shutil.copy(shutil.which("true"), program)
    return trace, run([SREPLAY, "record", "--from-start", "-o", trace, "--", program, HOSTILE], SECONDS)


def hostile(tap, directory):
    trace, (status, _, err) = record_hostile(directory)
    path = os.path.join(directory, "evil.html")
    made, _, err2 = report(trace, path)
    text, data = data_of(path)
    tap.ok(status == made == 0 and data["ranks"][0]["command"].endswith(HOSTILE), "arguments are told as they are", err + err2)
    tap.ok(text.count("<script") == 2 and "<img" not in text, "they are no elements of the page", re.findall("<script.*", text))


def large(tap, directory):
    """A run with more calls than the page has bars for; the counts stay whole."""
    trace = os.path.join(directory, "large.srec")
    run([SREPLAY, "record", "--from-start", "-o", trace, "--", "perl", "-e",
         'open F, "<:raw", "/dev/urandom"; sysread F, $b, 8 for 1 .. 250000'], SECONDS)
    path = os.path.join(directory, "large.html")
    status, _, err = report(trace, path)
    if not tap.ok(status == 0, "a run of 250,000 calls has a page", err):
        return
    text, data = data_of(path)
    track = data["tracks"][0]
    tap.ok(data["chunk"] > 1 and len(track["b"]) <= 120000 and sum(track["c"]) >= track["n"] > 200000, "bars stand for several calls",
           (data["chunk"], len(track["b"]), track["n"]))
    tap.ok(len(text) < 8 << 20, "it is small", len(text))


def executed(tap, directory):
    """Of several programs that a rank executed in turn all are shown. That values are of the last is said."""
    trace, path = os.path.join(directory, "exec.srec"), os.path.join(directory, "exec.html")
    run([SREPLAY, "record", "--from-start", "-o", trace, "--", "sh", "-c", "exec cat $0", __file__], SECONDS)
    report(trace, path)
    _, data = data_of(path)
    tap.ok(any("executed 2 programs" in text for _, text in data["health"]), "that it executed another one is said", data["health"])
    _, out, _ = run([SREPLAY, "dump", "--addresses", "--json", trace], SECONDS)
    images = [r["image"] for r in map(json.loads, out.splitlines()) if "call" in r]
    tap.ok(set(images) == {0, 1} and data["calls"] == len(images), "the calls of both are there", (images, data["calls"]))


def refused(tap, directory):
    status, _, err = run([SREPLAY, "report", os.path.join(directory, "none.srec")], SECONDS)
    tap.ok(status == 125 and "none.srec" in err, "a trace that is not there is named", err)
    trace = os.path.join(directory, "true.srec")
    run([SREPLAY, "record", "--from-start", "-o", trace, "--", "true"], SECONDS)
    status, _, err = report(trace, "/dev/full")
    tap.ok(status == 125 and "not complete" in err, "a full disk is said", err)
    status, out, err = run([SREPLAY, "report", trace], SECONDS, cwd=directory)
    tap.ok(status == 0 and os.path.exists(os.path.join(directory, "true.html")), "the page is named as the trace", err)


def open_page(path, directory, place=""):
    """What the page says of itself, in its body's attributes."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + os.path.join(directory, "chromium"),
               "--dump-dom", "file://" + path + place]
    status, out, err = run(command, SECONDS)
    body = re.search(r"<body[^>]*>", out.decode())
    found = dict(re.findall(r'data-([\w-]+)="([^"]*)"', body.group(0) if body else ""))
    return {k: html.unescape(v) for k, v in found.items()}, out.decode(), err


def check_page(tap, directory, trace, name):
    path = os.path.join(directory, name + ".html")
    report(trace, path)
    _, data = data_of(path)
    said, _, err = open_page(path, directory)
    tap.ok(said.get("ready") == "yes" and "error" not in said, "%s: the page loads without an error" % name, (said, err))
    wanted = {kind: 0 if kind == "request" else n for kind, n in drawn(data).items()}
    tap.ok(json.loads(said.get("drawn", "{}")) == wanted, "%s: it draws the arrows of the trace" % name, (said, wanted))
    tap.ok(said.get("backwards") == "0" and said.get("bars") == str(sum(len(t["b"]) for t in data["tracks"])),
           "%s: all calls are drawn, and no arrow points backwards" % name, said)
    return path


def browser(tap, directory):
    if not shutil.which("chromium"):
        tap.ok(True, "the page in a browser # SKIP no chromium here")
        return
    trace, _ = record_group(directory, "uts", 4, "T1-5")
    path = check_page(tap, directory, trace, "uts")
    _, dom, _ = open_page(path, directory, "#1.0:41")
    tap.ok("1.0:41 " in re.search(r'<pre id="detail"[^>]*>([^<]*)', dom).group(1), "a place in the address is shown", dom[-2000:])
    tap.ok("A trace has no times" in dom, "the causal axis is named", dom[-2000:])
    trace, _ = record_group(directory, "dht", 3, options="--stamps --tsc=native")
    path = check_page(tap, directory, trace, "stamped")
    _, dom, _ = open_page(path, directory, "#1.0:41")
    tap.ok("Times are those of the recording" in dom and "1.0:41 " in re.search(r'<pre id="detail"[^>]*>([^<]*)', dom).group(1),
           "the time axis is named, and a place is shown", dom[-2000:])
    trace = os.path.join(directory, "pingpong.srec")
    run([SOFTDEV, "--", "sh", "-c", PINGPONG, "sh", trace, SREPLAY, "record", "--clocks"], SECONDS)
    check_page(tap, directory, trace, "pingpong")
    trace, _ = record_hostile(directory)
    path = check_page(tap, directory, trace, "evil")
    said, dom, _ = open_page(path, directory)
    tap.ok("evil" not in said and dom.count("<script") == 2 and "<img" not in dom, "a stranger's trace runs no script", said)


if __name__ == "__main__":
    run_functions([browser] if sys.argv[1:] == ["browser"] else [page, hostile, large, executed, refused])
