# ===- page.py - The memory report as a page ------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The memory report as one page of HTML: a Gantt chart of time × address above the
live bytes, with one axis of time; ATI × size above the distribution of ATI, with one
axis of ATI; lifetimes; and the summary."""

from typing import Dict, List, Sequence, Tuple

import numpy as np

from optimus.report import events, figures, html
from optimus.report.figures import MS
from optimus.report.intervals import Intervals
from optimus.report.memory import Memory
from optimus.report.swaps import Link
from optimus.report.window import Window

MOST_POINTS = 4_000  # of ATI × size

_BODY = """<h2>Where blocks lie in the arena, and the live bytes</h2>
<div class="figure"><div id="time" class="plot"></div></div>
<h2>How long blocks lie idle (ATI), and what a swap could hide</h2>
<p>%s</p>
<div class="figure"><div id="idle" class="plot"></div></div>
<h2>How long blocks of the arena live</h2>
<div class="figure"><div id="lifetimes" class="plot"></div></div>"""


def render(
    memory: Memory, window: Window, links: Sequence[Link], summary: List[str]
) -> str:
    blocks = memory.blocks
    alive = window.lives
    points, said = _points(memory, window)
    data = {
        "categories": blocks.categories,
        "colours": [html.colour(index) for index in range(len(blocks.categories))],
        "blocks": {
            "path": blocks.paths,
            "name": blocks.names,
            "source": blocks.sources,
            "bytes": blocks.bytes.tolist(),
        },
        "boxes": _boxes(memory, window, alive),
        "stripes": html.stripes(window),
        "figures": {
            "time": figures.time_figure(memory, window, alive),
            "idle": figures.idle_figure(memory, points, links),
            "lifetimes": figures.lifetimes_figure(memory),
        },
    }
    return html.profile_page(
        title="Memory",
        window=window,
        what="; distributions are of all ranks",
        summary=summary,
        body=_BODY % said,
        scripts=["boxes.js", "memory.js"],
        data=data,
    )


def _boxes(memory: Memory, window: Window, alive: events.Lives) -> Dict[str, dict]:
    blocks = memory.blocks
    bottom = alive.address - window.lowest_address
    return {
        "block": html.numbers(alive.block),
        "left": html.numbers((alive.malloc - window.begin) / MS),
        "right": html.numbers((alive.free - window.begin) / MS),
        "bottom": html.numbers(bottom),
        "top": html.numbers(bottom + blocks.bytes[alive.block]),
        "kind": html.numbers(blocks.category[alive.block]),
    }


def _points(memory: Memory, window: Window) -> Tuple[Intervals, str]:
    """The window's intervals of most ATI × size, and whether some are left out."""
    idle = window.idle
    product = idle.length.astype(np.float64) * memory.blocks.bytes[idle.block]
    kept = np.argsort(-product, kind="stable")[:MOST_POINTS]
    shown = Intervals(*[column[kept] for column in idle])
    said = "A point is an interval in the steps above."
    if len(product) > len(kept):
        said += " The %s of greatest ATI × size are shown, of %s." % (
            format(len(kept), ","),
            format(len(product), ","),
        )
    return shown, said
