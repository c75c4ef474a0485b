# ===- timeline.py - The timeline report in a terminal and as a page ------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The timeline report in a terminal, and as a page with the queues of a rank."""

from typing import List, Sequence, Tuple

import numpy as np

from optimus.report import figures, html, text
from optimus.report.figures import MS
from optimus.report.profile import NOT_MEASURED
from optimus.report.queues import WAIT, Queues
from optimus.report.summary import heading
from optimus.report.window import Window

MOST_RANKS = 16
MOST_PATHS = 15
GROUND = 0.1  # between rows, of a row

SCRIPTS = ["boxes.js", "timeline.js"]

_BODY = """<h2>What queues execute, and collectives in flight</h2>
<div class="figure"><div id="time" class="plot"></div></div>"""


def lines(all_queues: Sequence[Queues]) -> List[str]:
    found = [*heading([queues.profile for queues in all_queues])]
    found += ["", "Share of the calls' time that queues are busy:", *_busy(all_queues)]
    found += ["", *_axes(all_queues)]
    for queues in all_queues[:1]:
        found += ["", "Exposed communication by axis and path, all ranks:"]
        found += _exposed(queues)
        found += ["", "Slowest commands by path, all ranks:", *_slowest(queues)]
    if len(all_queues) > 1:
        found += ["", "Paths: of the first file only."]
    return found


def _ranks(all_queues: Sequence[Queues]):
    return [item for queues in all_queues for item in sorted(queues.ranks.items())]


def _busy(all_queues: Sequence[Queues]) -> List[str]:
    ranks = _ranks(all_queues)
    queues = sorted({queue for _, rank in ranks for queue in rank.busy})
    rows = [
        [
            str(number),
            text.time(rank.inside),
            *(text.percent(rank.busy.get(queue, 0), rank.inside) for queue in queues),
            text.percent(rank.waited, rank.inside),
        ]
        for number, rank in ranks[:MOST_RANKS]
    ]
    header = ["rank", "in calls", *(queue.name for queue in queues), "waits"]
    return _with_rest(text.table(header, rows), len(ranks))


def _axes(all_queues: Sequence[Queues]) -> List[str]:
    rows = [
        [
            str(number),
            axis or "–",
            text.time(each.flight),
            text.time(each.exposed),
            text.percent(each.flight - each.exposed, each.flight),
            text.percent(each.exposed, rank.inside),
        ]
        for number, rank in _ranks(all_queues)[:MOST_RANKS]
        for axis, each in sorted(rank.axes.items())
    ]
    if not rows:
        return ["Nothing is communicated."]
    header = ["rank", "Axis", "in flight", "exposed", "overlapped", "exposed of calls"]
    title = "Communication in flight, and what of it nothing is computed behind:"
    return [title, *_with_rest(text.table(header, rows), len(_ranks(all_queues)))]


def _with_rest(shown: List[str], ranks: int) -> List[str]:
    left = ranks - MOST_RANKS
    return [*shown, "  and %d ranks more" % left] if left > 0 else shown


def _exposed(queues: Queues) -> List[str]:
    rows = [
        [
            *(text.time(each.exposed), text.time(each.flight)),
            text.percent(each.exposed, each.flight),
            *(format(each.times, ","), axes or "–", path),
        ]
        for (axes, path), each in queues.exposed()[:MOST_PATHS]
    ]
    header = ["exposed", "in flight", "share", "times", "Axis", "Path"]
    return text.table(header, rows) if rows else ["  none"]


def _slowest(queues: Queues) -> List[str]:
    found = queues.slowest()
    whole = sum(each.time for _, each in found)
    rows = [
        [
            *(text.time(each.time), text.percent(each.time, whole)),
            *(format(each.times, ","), text.time(each.time / each.times)),
            # Operations in a nanosecond are 10^9 in a second.
            "%.1f" % (each.flops / each.time) if each.flops and each.time else "–",
            *(what, path),
        ]
        for (what, path), each in found[:MOST_PATHS]
    ]
    header = ["time", "share", "times", "mean", "Gflop/s", "Command", "Path"]
    return text.table(header, rows) if rows else ["  none"]


def render(window: Window, summary: List[str]) -> str:
    return html.profile_page(
        title="Timeline",
        window=window,
        what="",
        summary=summary,
        body=_BODY,
        scripts=SCRIPTS,
        data=drawing([("", window)]),
    )


def drawing(windows: Sequence[Tuple[str, Window]]) -> dict:
    """What SCRIPTS draw in `time`: windows, each with what names of its rows begin with,
    one below the other; each begins at 0."""
    rows, boxes, kinds = _boxes(windows)
    width = max(window.end - window.begin for _, window in windows) / MS
    return {
        "rows": rows,
        "kinds": kinds,
        "colours": [_colour(kinds, i) for i in range(len(kinds))],
        "commands": [each for _, window in windows for each in _commands(window)],
        "boxes": {name: html.numbers(values) for name, values in boxes.items()},
        "stripes": html.stripes(windows[0][1]),
        "figures": {"time": _figure(width, rows, kinds)},
    }


def _colour(kinds: List[str], index: int) -> str:
    """What waits does nothing, and is pale."""
    return "#dddddd" if kinds[index] == WAIT else html.colour(index)


def _commands(window: Window) -> List[dict]:
    return [
        {
            "function": function.name,
            "path": function.commands.path,
            "source": function.commands.source,
            "kind": function.commands.kind,
            "name": function.commands.name,
        }
        for function in window.profile.functions
    ]


def _boxes(windows: Sequence[Tuple[str, Window]]):
    """Names of rows, columns of boxes, and names of kinds. A queue is a row, and what
    its collectives have in flight is a row below it."""
    rows: List[str] = []
    kinds: List[str] = []

    def number(names: List[str], name: str) -> int:
        if name not in names:
            names.append(name)
        return names.index(name)

    parts = []
    functions = 0  # of windows before
    for prefix, window in windows:
        # What computes comes first.
        queues = {queue for call in window.calls for queue in call.function.queues}
        for queue in sorted(queues, key=lambda each: (each.kind != "compute", each)):
            number(rows, prefix + queue.name)
        for call in window.calls:
            commands = call.function.commands
            kind = np.array([number(kinds, each) for each in commands.kind], np.int64)
            for suffix, begin, end in [
                ("", call.begin, call.end),
                (" in flight", call.transfer_begin, call.transfer_end),
            ]:
                there = np.flatnonzero(begin != NOT_MEASURED)
                names = [prefix + queue.name + suffix for queue in call.function.queues]
                used = commands.queue[there].tolist()
                row_of = {
                    index: number(rows, names[index]) for index in sorted(set(used))
                }
                row = np.array([row_of[index] for index in used], np.int64)
                function = np.full(len(there), functions + call.info.function)
                times = [begin[there] - window.begin, end[there] - window.begin]
                parts.append(np.stack([*times, row, kind[there], function, there]))
        functions += len(window.profile.functions)
    begin, end, row, kind, function, command = np.concatenate(parts, axis=1)
    boxes = {
        "left": begin / MS,
        "right": end / MS,
        "bottom": -row - 1 + GROUND,
        "top": -row - GROUND,
        "kind": kind,
        "function": function,
        "command": command,
    }
    return rows, boxes, kinds


def _figure(width: float, rows: List[str], kinds: List[str]) -> dict:
    # Nothing but the legend: the boxes are on the canvas.
    curves = [
        {
            "x": [None],
            "y": [None],
            "mode": "markers",
            "name": kind,
            "meta": {"category": index},
            "marker": {"color": _colour(kinds, index), "symbol": "square", "size": 10},
        }
        for index, kind in enumerate(kinds)
    ]
    layout = {
        "height": 160 + 70 * len(rows),
        # As wide as names of rows may be.
        "margin": {**figures.MARGIN, "l": max(190, 7 * max(map(len, rows)))},
        "plot_bgcolor": figures.CLEAR,
        "paper_bgcolor": figures.CLEAR,
        "showlegend": True,
        "legend": {"orientation": "h", "y": -0.25},
        "xaxis": {
            "title": {"text": "ms"},
            "range": [0, width],
            "showgrid": False,
            "zeroline": False,
        },
        "yaxis": {
            "range": [-len(rows), 0],
            "tickvals": [-index - 0.5 for index in range(len(rows))],
            "ticktext": rows,
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
    }
    return {"data": [*curves, figures.anchor(0, 0)], "layout": layout}
