# ===- figures.py - The figures of the memory page ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The figures of the memory page, as Plotly's curves and layouts."""

from html import escape
from typing import List, Sequence, Tuple

import numpy as np

from optimus.report import events, html
from optimus.report.intervals import Histogram, Intervals, least_of
from optimus.report.memory import SHORT, Memory
from optimus.report.swaps import Link
from optimus.report.window import Window

MS, US = 1e6, 1e3  # ns
MOST_MOMENTS = 3_000  # at which live bytes are drawn

MARGIN = {"t": 20, "l": 90, "r": 20, "b": 50}
CLEAR = "rgba(0,0,0,0)"
BYTES = {"ticksuffix": "B", "exponentformat": "SI"}
BELOW = {"orientation": "h", "y": -0.1}
# Of the height of a figure: two graphs with one axis across.
UPPER, LOWER = [0.4, 1], [0, 0.36]
SHARES = [0, 1.02]


def anchor(x: float, y: float) -> dict:
    """An axis exists only where a curve is; this one is not seen."""
    return {
        "x": [x],
        "y": [y],
        "mode": "none",
        "hoverinfo": "skip",
        "showlegend": False,
    }


def live_bytes(memory: Memory, alive: events.Lives) -> Tuple[np.ndarray, np.ndarray]:
    """Times, and bytes of each category from then on (a row each)."""
    blocks = memory.blocks
    changes = events.changes(alive, blocks)
    each = np.zeros((len(blocks.categories), len(changes.time)), np.int64)
    each[blocks.category[changes.block], np.arange(len(changes.time))] = changes.bytes
    return changes.time, np.cumsum(each, axis=1) + memory.resident_by_category[:, None]


def thinned(time: np.ndarray, total: np.ndarray, most: int) -> np.ndarray:
    """Indices of at most `most` moments: the moment with most bytes of each stretch, so
    that no peak is lost."""
    if len(time) <= most:
        return np.arange(len(time))
    span = max(int(time[-1] - time[0]), 1)
    stretch = (time - time[0]) * (most - 1) // span
    order = np.lexsort((total, stretch))
    last = np.r_[stretch[order][1:] != stretch[order][:-1], True]
    return np.sort(order[last])


def time_figure(memory: Memory, window: Window, alive: events.Lives) -> dict:
    """Above room for the Gantt chart, below the live bytes."""
    arena = max([call.function.arena_bytes for call in window.calls], default=0)
    width = (window.end - window.begin) / MS
    above = alive.address + memory.blocks.bytes[alive.block] - window.lowest_address
    planned = arena + int(memory.resident_by_category.sum())
    layout = {
        "height": 820,
        "margin": MARGIN,
        "plot_bgcolor": CLEAR,
        "paper_bgcolor": CLEAR,
        "legend": BELOW,
        "xaxis": {
            "title": {"text": "ms"},
            "range": [0, width],
            "anchor": "y2",
            "showgrid": False,
        },
        "yaxis": {
            **BYTES,
            "title": {"text": "address"},
            "range": [0, max(arena, int(above.max(initial=1)))],
            "domain": UPPER,
            "zeroline": False,
            "showgrid": False,
        },
        "yaxis2": {
            **BYTES,
            "title": {"text": "live bytes"},
            "domain": LOWER,
            "rangemode": "tozero",
        },
    }
    curves = [
        *_live_curves(memory, window, alive),
        _planned_line(width, planned),
        anchor(0, 0),
    ]
    return {"data": curves, "layout": layout}


def _live_curves(memory: Memory, window: Window, alive: events.Lives) -> List[dict]:
    time, each = live_bytes(memory, alive)
    kept = thinned(time, each.sum(axis=0), MOST_MOMENTS)
    shown = ((time[kept] - window.begin) / MS).tolist()
    return [
        {
            "x": shown,
            "y": each[index, kept].tolist(),
            "yaxis": "y2",
            "name": name,
            "stackgroup": "alive",
            "meta": {"category": index},
            "line": {"shape": "hv", "width": 0, "color": html.colour(index)},
            "hovertemplate": "%{y:.4s}B " + escape(name, quote=False) + "<extra></extra>",
        }
        for index, name in enumerate(memory.blocks.categories)
        if each[index, kept].any()
    ]


def _planned_line(width: float, planned: int) -> dict:
    return {
        "x": [0, width],
        "y": [planned, planned],
        "yaxis": "y2",
        "mode": "lines",
        "name": "planned",
        "line": {"color": "#222", "dash": "dash"},
        "hovertemplate": "%{y:.4s}B resident and planned arena<extra></extra>",
    }


def idle_figure(memory: Memory, idle: Intervals, links: Sequence[Link]) -> dict:
    """Above ATI × size with what links can hide, below the distribution of ATI."""
    points = _points(memory, idle)
    named = {curve["name"] for curve in points}
    shares = _distribution(memory, memory.idle_times, "y2", named)
    layout = {
        "height": 760,
        "margin": MARGIN,
        "legend": BELOW,
        "xaxis": {"title": {"text": "ATI, µs"}, "type": "log", "anchor": "y2"},
        "yaxis": {**BYTES, "title": {"text": "size"}, "type": "log", "domain": UPPER},
        "yaxis2": {
            "title": {"text": "share of intervals"},
            "domain": LOWER,
            "range": SHARES,
        },
        "shapes": [_upright(SHORT / US)],
        "annotations": _unless(shares, "no block is accessed twice"),
    }
    curves = [*points, *shares, *(_swap_line(link, idle) for link in links)]
    return {"data": curves, "layout": layout}


def _points(memory: Memory, idle: Intervals) -> List[dict]:
    blocks, curves = memory.blocks, []
    for index, name in enumerate(blocks.categories):
        mine = blocks.category[idle.block] == index
        block = idle.block[mine]
        if not len(block):
            continue
        text = [
            escape(blocks.paths[b], quote=False) + "<br>" + blocks.sources[b]
            for b in block
        ]
        curves.append(
            {
                "x": (idle.length[mine] / US).tolist(),
                "y": blocks.bytes[block].tolist(),
                "mode": "markers",
                "name": name,
                "legendgroup": name,
                "text": text,
                "marker": {"color": html.colour(index), "size": 5, "opacity": 0.6},
                "hovertemplate": "%{text}<br>%{y:.4s}B idle for %{x:.4s} µs"
                "<extra></extra>",
            }
        )
    return curves


def _swap_line(link: Link, idle: Intervals) -> dict:
    """Above it a swap is longer than the interval."""
    longest = int(idle.length.max()) if len(idle.length) else 1_000_000
    times = np.array([1_000, max(longest, 2_000)])
    return {
        "x": (times / US).tolist(),
        "y": (times / link.time(1)).tolist(),
        "mode": "lines+text",
        "text": ["", escape(link.name, quote=False)],
        "textposition": "top left",
        "textfont": {"size": 8, "color": "#888"},
        "showlegend": False,
        "line": {"width": 1, "dash": "dash", "color": "#888"},
        "hovertemplate": "%{y:.4s}B in %{x:.4s} µs<extra>%{text}</extra>",
    }


def _upright(at: float) -> dict:
    """A line across both graphs."""
    line = {"color": "#999", "width": 1, "dash": "dot"}
    place = {"x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper"}
    return {"type": "line", "line": line, **place}


def lifetimes_figure(memory: Memory) -> dict:
    curves = _distribution(memory, memory.lifetimes, "y", set())
    layout = {
        "height": 380,
        "margin": MARGIN,
        "showlegend": True,
        "xaxis": {"title": {"text": "lifetime, µs"}, "type": "log"},
        "yaxis": {"title": {"text": "share of blocks"}, "range": SHARES},
        "annotations": _unless(curves, "the arena has no block"),
    }
    return {"data": curves, "layout": layout}


def _distribution(
    memory: Memory, histograms: Sequence[Histogram], axis: str, named: set
) -> List[dict]:
    """How large a share is not above x. The legend has the names in `named`."""
    curves = []
    for index, name in enumerate(memory.blocks.categories):
        histogram = histograms[index]
        if not histogram.count:
            continue
        bins = np.flatnonzero(histogram.counts)
        shares = np.cumsum(histogram.counts[bins]) / histogram.count
        curves.append(
            {
                # A logarithm has no 0.
                "x": (np.maximum(least_of(bins), 1) / US).tolist(),
                "y": shares.tolist(),
                "yaxis": axis,
                "mode": "lines",
                "name": name,
                "legendgroup": name,
                "showlegend": name not in named,
                "line": {"shape": "hv", "color": html.colour(index)},
                "hovertemplate": "%{y:.1%} up to %{x:.4s} µs<extra>%{fullData.name}"
                "</extra>",
            }
        )
    return curves


def _unless(curves: List[dict], why: str) -> List[dict]:
    """A figure without data says so."""
    if curves:
        return []
    middle = {"xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
    return [{"text": why, "showarrow": False, **middle}]
