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
from typing import List

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
<script>%(plotly)s</script>
<script>const data = %(data)s;</script>
%(body)s
<script>%(script)s</script>
</body>
</html>
"""


SEARCH = """<p>Find by path:
<input id="search" type="search" placeholder="h.3.mlp"> <span id="matches"></span>
Drag to zoom, shift and drag to move, double click to see all.</p>"""


def page(title: str, body: str, scripts, data: dict) -> str:
    """`scripts` are files beside this one, `data` what they call `data`."""
    return _PAGE % {
        "title": escape(title),
        "style": (HERE / "page.css").read_text("utf-8"),
        "plotly": _plotly(),
        # Nothing inside ends the script.
        "data": json.dumps(data, allow_nan=False).replace("</", "<\\/"),
        "body": body,
        "script": "\n".join((HERE / name).read_text("utf-8") for name in scripts),
    }


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ReportError(
            "pages need Plotly, expected Debian's package python3-plotly; scripts/setup "
            "installs it"
        ) from None
    return get_plotlyjs()


def escape(text: str) -> str:
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return text


def numbers(values) -> dict:
    """An array for `unpack` in boxes.js."""
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
