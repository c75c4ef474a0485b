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

from typing import Dict, List, Sequence

import numpy as np

from optimus.report import events, html, text
from optimus.report.intervals import Histogram, least_of
from optimus.report.memory import SHORT, Memory
from optimus.report.swaps import Link
from optimus.report.window import Window

MS = 1e6  # ns
MOST_MOMENTS = 3_000  # at which live bytes are drawn
MOST_POINTS = 4_000  # of ATI × size

_BODY = """<h1>%(title)s</h1>
<p>%(subtitle)s</p>
<p>Find by path: <input id="search" type="search" placeholder="h.3.mlp"> <span id="matches"></span>
Drag to zoom, shift and drag to move, double click to see all.</p>
<h2>Where blocks lie in the arena, and the live bytes</h2>
<div class="figure"><div id="time" class="plot"></div></div>
<h2>How long blocks lie idle (ATI), and what a swap could hide</h2>
<p>%(left_out)s</p>
<div class="figure"><div id="idle" class="plot"></div></div>
<h2>How long blocks of the arena live</h2>
<div class="figure"><div id="lifetimes" class="plot"></div></div>
<h2>Summary</h2>
<pre>%(summary)s</pre>
<div id="tip"></div>"""


def render(
    memory: Memory, window: Window, links: Sequence[Link], summary: List[str]
) -> str:
    choice = window.choice
    blocks = memory.blocks
    alive = window.lives
    names, left_out = _points(memory, window)
    data = {
        "categories": blocks.categories,
        "colours": [html.colour(i) for i in range(len(blocks.categories))],
        "blocks": {
            "path": blocks.paths,
            "name": blocks.names,
            "source": blocks.sources,
            "bytes": blocks.bytes.tolist(),
        },
        "boxes": _boxes(memory, window, alive),
        "stripes": [
            [(begin - window.begin) / MS, (end - window.begin) / MS, "step %d" % step]
            for step, begin, end in window.steps()
        ],
        "figures": {
            "time": _time_figure(memory, window, alive),
            "idle": _idle_figure(memory, names, links),
            "lifetimes": _lifetimes_figure(memory),
        },
    }
    body = _BODY % {
        "title": html.escape(str(memory.profile.trace.get("library", "Memory"))),
        "subtitle": "Rank %d, steps %d to %d; distributions are of all ranks of %s."
        % (choice.rank, choice.first, choice.last, html.escape(memory.profile.path)),
        "left_out": left_out,
        "summary": html.escape("\n".join(summary)),
    }
    return html.page("Memory", body, ["boxes.js", "memory.js"], data)


def _boxes(memory: Memory, window: Window, alive: events.Lives) -> Dict[str, dict]:
    blocks = memory.blocks
    return {
        "block": html.numbers(alive.block),
        "left": html.numbers((alive.malloc - window.begin) / MS),
        "right": html.numbers((alive.free - window.begin) / MS),
        "bottom": html.numbers(alive.address),
        "top": html.numbers(alive.address + blocks.bytes[alive.block]),
        "kind": html.numbers(blocks.category[alive.block]),
    }


def live_bytes(memory: Memory, alive: events.Lives):
    """Times, and bytes of each category from then on (a row each)."""
    blocks = memory.blocks
    changes = events.changes(alive, blocks)
    each = np.zeros((len(blocks.categories), len(changes.time)), np.int64)
    each[blocks.category[changes.block], np.arange(len(changes.time))] = changes.bytes
    return changes.time, np.cumsum(each, axis=1) + memory.resident_by_category[:, None]


def thinned(time: np.ndarray, total: np.ndarray, most: int) -> np.ndarray:
    """Indices of at most `most` moments: of each stretch that with most bytes, so
    that no peak is lost."""
    if len(time) <= most:
        return np.arange(len(time))
    span = max(int(time[-1] - time[0]), 1)
    stretch = (time - time[0]) * (most - 1) // span
    order = np.lexsort((total, stretch))
    last = np.r_[stretch[order][1:] != stretch[order][:-1], True]
    return np.sort(order[last])


def _time_figure(memory: Memory, window: Window, alive: events.Lives) -> dict:
    time, each = live_bytes(memory, alive)
    kept = thinned(time, each.sum(axis=0), MOST_MOMENTS)
    shown = ((time[kept] - window.begin) / MS).tolist()
    curves = []
    for index, name in enumerate(memory.blocks.categories):
        bytes_alive = each[index, kept]
        if bytes_alive.any():
            curves.append(
                {
                    **dict(x=shown, y=bytes_alive.tolist(), name=name),
                    **dict(stackgroup="alive", xaxis="x", yaxis="y2", meta={"category": index}),
                    "line": {"shape": "hv", "width": 0, "color": html.colour(index)},
                    "hovertemplate": "%{y:.4s}B " + name + "<extra></extra>",
                }
            )
    arena = max([call.function.arena_bytes for call in window.calls], default=0)
    planned = arena + int(memory.resident_by_category.sum())
    width = (window.end - window.begin) / MS
    curves.append(
        {
            **dict(x=[0, width], y=[planned, planned], mode="lines", name="planned"),
            **dict(xaxis="x", yaxis="y2", line={"color": "#222", "dash": "dash"}),
            "hovertemplate": "%{y:.4s}B resident and planned arena<extra></extra>",
        }
    )
    lowest, highest = _addresses(memory, alive, arena)
    layout = {
        **dict(height=820, margin=dict(t=20, l=90, r=20, b=50), plot_bgcolor="rgba(0,0,0,0)"),
        **dict(paper_bgcolor="rgba(0,0,0,0)", legend={"orientation": "h", "y": -0.1}),
        "xaxis": {
            **dict(title={"text": "ms"}, range=[0, width], anchor="y2", showgrid=False),
        },
        "yaxis": {
            **dict(title={"text": "address"}, range=[lowest, highest], domain=[0.4, 1]),
            **dict(ticksuffix="B", exponentformat="SI", zeroline=False, showgrid=False),
        },
        "yaxis2": {
            **dict(title={"text": "live bytes"}, domain=[0, 0.36], rangemode="tozero"),
            **dict(ticksuffix="B", exponentformat="SI"),
        },
    }
    # An axis exists only where a curve is.
    curves.append({"x": [0], "y": [lowest], "mode": "none", "hoverinfo": "skip", "showlegend": False})
    return {"data": curves, "layout": layout}


def _addresses(memory: Memory, alive: events.Lives, arena: int):
    if not len(alive.block):
        return 0, max(arena, 1)
    above = int((alive.address + memory.blocks.bytes[alive.block]).max())
    below = int(alive.address.min())
    # Offsets begin at 0; addresses of allocations where they begin.
    planned = memory.profile.trace.get("placement") != "dynamic"
    return (0, max(arena, above)) if planned else (below, above)


def _points(memory: Memory, window: Window):
    """The intervals of the window of most ATI × size, and how many are left out."""
    idle = window.idle
    size = memory.blocks.bytes[idle.block]
    order = np.argsort(-(idle.length.astype(np.float64) * size), kind="stable")
    kept = order[:MOST_POINTS]
    shown = type(idle)(*[column[kept] for column in idle])
    note = "A point is an interval in the steps above."
    if len(order) > len(kept):
        note += " The %s of greatest ATI × size are shown, of %s." % (
            format(len(kept), ","),
            format(len(order), ","),
        )
    return shown, note


def _idle_figure(memory: Memory, idle, links: Sequence[Link]) -> dict:
    blocks = memory.blocks
    curves: List[dict] = []
    for index, name in enumerate(blocks.categories):
        mine = blocks.category[idle.block] == index
        if mine.any():
            block = idle.block[mine]
            curves.append(
                {
                    **dict(x=(idle.length[mine] / 1e3).tolist(), mode="markers", name=name),
                    **dict(y=blocks.bytes[block].tolist(), xaxis="x", yaxis="y", legendgroup=name),
                    "text": ["%s<br>%s" % (blocks.paths[b], blocks.sources[b]) for b in block],
                    "marker": {"color": html.colour(index), "size": 5, "opacity": 0.6},
                    "hovertemplate": "%{text}<br>%{y:.4s}B idle for %{x:.4s} µs<extra></extra>",
                }
            )
    curves += _distribution(memory, memory.idle_times, "y2", bool(curves))
    curves += [_swap_line(link, idle) for link in links]
    layout = {
        **dict(height=760, margin=dict(t=20, l=90, r=20, b=50), legend={"orientation": "h", "y": -0.1}),
        "xaxis": {"title": {"text": "ATI, µs"}, "type": "log", "anchor": "y2"},
        "yaxis": {
            **dict(title={"text": "size"}, type="log", domain=[0.4, 1]),
            **dict(ticksuffix="B", exponentformat="SI"),
        },
        "yaxis2": {"title": {"text": "share of intervals"}, "domain": [0, 0.36], "range": [0, 1.02]},
        "shapes": [
            {
                **dict(type="line", x0=SHORT / 1e3, x1=SHORT / 1e3, yref="paper", y0=0, y1=1),
                "line": {"color": "#999", "width": 1, "dash": "dot"},
            }
        ],
    }
    return {"data": curves, "layout": _said_empty(layout, curves, "no block is accessed twice")}


def _swap_line(link: Link, idle) -> dict:
    """Above it a swap is longer than the interval."""
    longest = int(idle.length.max()) if len(idle.length) else 1_000_000
    times = np.array([1_000, max(longest, 2_000)])
    return {
        "x": (times / 1e3).tolist(),
        "y": (times / link.time(1)).tolist(),
        "mode": "lines+text",
        "text": ["", html.escape(link.name)],
        "textposition": "middle left",
        "xaxis": "x",
        "yaxis": "y",
        "showlegend": False,
        "line": {"width": 1, "dash": "dash", "color": "#888"},
        "hovertemplate": "%{y:.4s}B in %{x:.4s} µs<extra>%{text}</extra>",
    }


def _lifetimes_figure(memory: Memory) -> dict:
    curves = _distribution(memory, memory.lifetimes, "y", False)
    layout = {
        **dict(height=380, margin=dict(t=20, l=90, r=20, b=50)),
        "xaxis": {"title": {"text": "lifetime, µs"}, "type": "log"},
        "yaxis": {"title": {"text": "share of blocks"}, "range": [0, 1.02]},
        "showlegend": True,
    }
    return {"data": curves, "layout": _said_empty(layout, curves, "the arena has no block")}


def _distribution(memory: Memory, histograms: Sequence[Histogram], axis: str, named: bool):
    """How large a share is not above x; `named`: the legend has the names already."""
    return [
        {
            **dict(x=(least_of(bins) / 1e3).tolist(), y=share.tolist(), name=name, xaxis="x"),
            **dict(yaxis=axis, mode="lines", legendgroup=name, showlegend=not named),
            "line": {"shape": "hv", "color": html.colour(index)},
            "hovertemplate": "%{y:.1%} up to %{x:.4s} µs<extra>" + name + "</extra>",
        }
        for index, (name, histogram) in enumerate(zip(memory.blocks.categories, histograms))
        if histogram.count
        for bins, share in [_cumulative(histogram)]
    ]


def _cumulative(histogram: Histogram):
    bins = np.flatnonzero(histogram.counts)
    return bins, np.cumsum(histogram.counts[bins]) / histogram.count


def _said_empty(layout: dict, curves: List[dict], why: str) -> dict:
    """A figure without data says so."""
    if any("legendgroup" in curve for curve in curves):
        return layout
    note = {**dict(text=why, xref="paper", yref="paper", x=0.5, y=0.5), "showarrow": False}
    return {**layout, "annotations": [note]}
