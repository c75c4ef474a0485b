# ===- html.py - Pages that stand by themselves ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A page of HTML with all that it needs inside: Plotly.js, our scripts, the data.

Numbers are binary, in base64: a page of 20,000 blocks stays small and opens fast."""

import base64
import json
import pathlib
from html import escape
from typing import List, Sequence

import numpy as np

from optimus.report import ReportError
from optimus.report.window import Window

HERE = pathlib.Path(__file__).parent

# Of Tableau; one for each category or kind, over again where there are more.
COLOURS = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1"),
    *("#76b7b2", "#edc948", "#9c755f", "#ff9da7", "#bab0ac"),
)

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none';
  script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
<title>%(title)s</title>
<style>%(style)s</style>
</head>
<body>
<!--
%(notice)s-->
<script>%(plotly)s</script>
<script>const data = %(data)s;</script>
<h1>%(heading)s</h1>
<p>%(subtitle)s</p>
%(body)s
<h2>Summary</h2>
<pre>%(summary)s</pre>
<div id="tip"></div>
<script>%(script)s</script>
</body>
</html>
"""


SEARCH = """<p>Find by path:
<input id="search" type="search" placeholder="h.3.mlp"> <span id="matches"></span>
Drag to zoom, shift and drag to move, double click to see all.</p>
"""


def page(
    title: str,
    heading: str,
    subtitle: str,
    summary: Sequence[str],
    body: str,
    scripts: Sequence[str],
    data: dict,
) -> str:
    """`body` is HTML, the other words are text; `scripts` are files beside this one,
    after plots.js, and `data` is their `data`."""
    return _PAGE % {
        "title": escape(title, quote=False),
        "heading": escape(heading, quote=False),
        "subtitle": escape(subtitle, quote=False),
        "summary": escape("\n".join(summary), quote=False),
        "style": (HERE / "page.css").read_text("utf-8"),
        "notice": (HERE / "plotly-notice.txt").read_text("utf-8"),
        "plotly": _plotly(),
        # Nothing inside ends the script.
        "data": json.dumps(data, allow_nan=False).replace("</", "<\\/"),
        "body": body,
        "script": "\n".join(
            (HERE / name).read_text("utf-8") for name in ("plots.js", *scripts)
        ),
    }


def profile_page(title: str, window: Window, what: str, body: str, **parts) -> str:
    """A page of some steps of one rank, with a search. `what` describes the page's part
    of the window's file, `parts` are those of `page`."""
    choice, profile = window.choice, window.profile
    subtitle = "Rank %d, steps %d to %d%s of %s."
    subtitle %= choice.rank, choice.first, choice.last, what, profile.path
    heading = str(profile.trace.get("library", title))
    return page(title, heading, subtitle, body=SEARCH + body, **parts)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Of texts; the first column names the rows."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join("<%s>%s</%s>" % (tag, escape(cell, quote=False), tag) for cell in row)

    lines = ["<tr>%s</tr>" % cells("th", header)]
    lines += [
        "<tr>%s%s</tr>" % (cells("th", row[:1]), cells("td", row[1:])) for row in rows
    ]
    return '<div class="wide"><table>\n%s\n</table></div>' % "\n".join(lines)


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ReportError(
            "pages need Plotly, expected Debian's package python3-plotly; scripts/setup "
            "installs it"
        ) from None
    return get_plotlyjs()


def numbers(values) -> dict:
    """An array for `unpack` in plots.js."""
    wide = np.asarray(values, "<f8").tobytes()
    return {"f64": base64.b64encode(wide).decode("ascii")}


def stripes(window: Window) -> List[list]:
    """Of each step begin and end, in ms, and its name."""
    return [
        [(begin - window.begin) / 1e6, (end - window.begin) / 1e6, "step %d" % step]
        for step, begin, end in window.steps()
    ]


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]
