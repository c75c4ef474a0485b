# ===- training_page.py - Training runs side by side as a page -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Training runs side by side as a page: graphs one below another with one axis across,
which is steps, tokens or time; memory; and what differs between settings.

Of long runs a curve has the mean of each stretch of steps, and a band from the least to
the largest value, in which no single step is lost."""

from typing import Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from optimus.report import figures, html, training
from optimus.report.training import Run
from optimus.report.training_log import TrainingLog

MOST_POINTS = 1_500  # of a curve
GAP = 0.02  # between graphs, of the whole height
AXES = {"steps": "Steps", "tokens": "Tokens", "seconds": "Time"}


class Graph(NamedTuple):
    title: str
    columns: Sequence[str]  # of the log; the second is drawn dashed
    height: float = 1
    band: bool = False  # whether least and largest values are shown
    logarithmic: bool = False


GRAPHS = [
    Graph("loss, held-out dashed", ("loss", "eval_loss"), 2, band=True),
    Graph("gradient norm", ("grad_norm",), band=True, logarithmic=True),
    Graph("learning rate", ("lr",)),
    Graph("tokens/s", ("tokens_per_s",)),
    Graph("communication exposed, % of a step", ("exposed",)),
]

_BODY = """<p class="choice">Over <span id="axes"></span>
Drag to zoom, double click to see all; a click in the legend takes a run away.</p>
<div class="figure"><div id="curves" class="plot"></div></div>
<h2>Memory of the largest rank</h2>
<div class="figure"><div id="memory" class="plot"></div></div>
<h2>What differs between their settings</h2>
%s"""


def render(runs: Sequence[Run], summary: List[str]) -> str:
    data = {
        "axes": AXES,
        "runs": [_axes(run.log) for run in runs],
        "figures": {"curves": _curves(runs), "memory": _memory(runs)},
    }
    names = [run.name for run in runs]
    return html.page(
        title="Training",
        heading="Training: %s" % ", ".join(names),
        subtitle=_subtitle(runs),
        summary=summary,
        body=_BODY % _differences(runs),
        scripts=["training.js"],
        data=data,
    )


def _subtitle(runs: Sequence[Run]) -> str:
    thinned = [run for run in runs if len(run.log) > MOST_POINTS]
    if not thinned:
        return "Every step is drawn."
    return (
        "A curve has the means of %s stretches of steps; bands reach from the least to "
        "the largest value of a stretch." % format(MOST_POINTS, ",")
    )


def _column(log: TrainingLog, name: str) -> np.ndarray:
    return 100 * training.exposed_share(log) if name == "exposed" else log[name]


class Stretches:
    """At most MOST_POINTS pieces of a column, of steps that have a finite value."""

    def __init__(self, values: np.ndarray):
        self.there = np.flatnonzero(np.isfinite(values))
        self.values = values[self.there]
        count = min(len(self.values), MOST_POINTS)
        self.begins = np.linspace(0, len(self.values), count, False).astype(np.int64)

    @property
    def are_thinned(self) -> bool:
        return len(self.begins) < len(self.values)

    def means(self) -> np.ndarray:
        sizes = np.diff(np.r_[self.begins, len(self.values)])
        return self._reduce(np.add) / np.maximum(sizes, 1)

    def band(self) -> Tuple[np.ndarray, np.ndarray]:
        return self._reduce(np.minimum), self._reduce(np.maximum)

    def ends(self) -> np.ndarray:
        """Of each stretch the last row: of a short run the rows themselves."""
        last = np.r_[self.begins[1:], len(self.values)] - 1
        return self.there[last[: len(self.begins)]]

    def _reduce(self, function) -> np.ndarray:
        if not len(self.begins):
            return np.empty(0)
        return function.reduceat(self.values, self.begins)


def _axes(log: TrainingLog) -> Dict[str, dict]:
    """Of each axis across the places of rows that curves refer to."""
    columns = {
        "steps": log["step"],
        "tokens": training.tokens(log),
        "seconds": training.seconds(log),
    }
    rows = {name: Stretches(_column(log, name)).ends() for name in _names()}
    return {
        name: {axis: html.numbers(column[at]) for axis, column in columns.items()}
        for name, at in rows.items()
        if len(at)
    }


def _names() -> List[str]:
    return [name for graph in GRAPHS for name in graph.columns]


def _domains() -> List[List[float]]:
    """Of each graph from the top its part of the height."""
    whole = sum(graph.height for graph in GRAPHS)
    free = 1 - GAP * (len(GRAPHS) - 1)
    found, top = [], 1.0
    for graph in GRAPHS:
        bottom = top - graph.height / whole * free
        found.append([max(bottom, 0), top])
        top = bottom - GAP
    return found


def _curves(runs: Sequence[Run]) -> dict:
    curves = [
        curve
        for row, graph in enumerate(GRAPHS)
        for number, run in enumerate(runs)
        for dashed, name in enumerate(graph.columns)
        for curve in _curve(run, number, graph, name, row, bool(dashed))
    ]
    layout = {
        "height": 1150,
        "margin": figures.MARGIN,
        "hovermode": "x",
        "legend": {"orientation": "h", "y": 1.03},
        "xaxis": {"anchor": "y%d" % len(GRAPHS), "title": {"text": AXES["steps"]}},
    }
    for row, (graph, domain) in enumerate(zip(GRAPHS, _domains())):
        layout["yaxis%s" % (row + 1 if row else "")] = {
            "domain": domain,
            "title": {"text": graph.title},
            "type": "log" if graph.logarithmic else "linear",
        }
    return {"data": curves, "layout": layout}


def _curve(
    run: Run, number: int, graph: Graph, name: str, row: int, dashed: bool
) -> List[dict]:
    """With the band below it, if there is one."""
    pieces = Stretches(_column(run.log, name))
    if not len(pieces.begins):
        return []
    common = {
        "meta": {"run": number, "column": name},
        "xaxis": "x",
        "yaxis": "y%s" % (row + 1 if row else ""),
        "legendgroup": run.name,
        "mode": "lines",
    }
    curves = []
    if graph.band and pieces.are_thinned and not dashed:
        for bound, values in enumerate(pieces.band()):
            band = {
                **common,
                "y": html.numbers(values),
                "line": {"width": 0},
                "showlegend": False,
                "hoverinfo": "skip",
            }
            if bound:
                band.update(fill="tonexty", fillcolor=html.colour(number) + "30")
            curves.append(band)
    curves.append(
        {
            **common,
            "y": html.numbers(pieces.means()),
            "name": run.name,
            "mode": "lines+markers" if dashed else "lines",
            "marker": {"size": 4},
            "line": {
                "color": html.colour(number),
                "width": 1.5,
                "dash": "dash" if dashed else "solid",
            },
            "showlegend": row == 0 and not dashed,
        }
    )
    return curves


def _memory(runs: Sequence[Run]) -> dict:
    bars = [
        {
            "type": "bar",
            "orientation": "h",
            "name": run.name,
            "y": [run.name],
            "x": [float(np.nanmax(run.log["peak_bytes"]))],
            "marker": {"color": html.colour(number)},
        }
        for number, run in enumerate(runs)
        if np.isfinite(run.log["peak_bytes"]).any()
    ]
    layout = {
        "height": 110 + 30 * len(runs),
        "margin": {**figures.MARGIN, "l": 200},
        "showlegend": False,
        "xaxis": figures.BYTES,
        "yaxis": {"autorange": "reversed", "type": "category"},
    }
    return {"data": bars, "layout": layout}


def _differences(runs: Sequence[Run]) -> str:
    found = training.differences(runs)
    said = ""
    if found.unknown:
        said = "<p>The logs of %s begin without settings.</p>" % html.escape(
            ", ".join(found.unknown)
        )
    if not found.names:
        return said + "<p>No setting differs.</p>"
    rows = [[name, *row] for name, row in zip(found.names, found.values)]
    return said + html.table(["", *(run.name for run in runs)], rows)
