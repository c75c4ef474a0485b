# ===- study_page.py - A search as a page ----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A study as a page: the history of its trials, what is best at once in two objectives,
how much values matter, values side by side, workers in time with predictions behind,
memory, and errors of predictions."""

import math
from html import escape
from typing import Any, List, Sequence, Tuple

import numpy as np

from optimus.report import figures, html, study, text
from optimus.report.study import Attempt, StudyReport
from optimus.tune import costs, view
from optimus.tune.domains import text_of
from optimus.tune.study import Trial

MOST_BARS = 2_000  # of attempts
MOST_LINES = 1_000  # of trials side by side
TINTS = 8  # of these, from the best to the worst

OUTCOMES = {
    **{"done": "#4e79a7", "stopped": "#bab0ac", "diverged": "#e15759"},
    **{"rung": "#76b7b2", "lost": "#f28e2b", "running": "#59a14f"},
    **{"failed": "#9c755f", "memory": "#b07aa1", "infeasible": "#edc948"},
}

_BODY = """<h2>History</h2>
<div class="figure"><div id="history" class="plot"></div></div>
<h2>%(front)s</h2>
<div class="figure"><div id="front" class="plot"></div></div>
<h2>How much values matter</h2>
<p>%(influence)s</p>
<div class="figure"><div id="influence" class="plot"></div></div>
<h2>Values side by side</h2>
<p>A line is a trial, dark where it is good.%(lines)s</p>
<div class="figure"><div id="parallel" class="plot"></div></div>
<h2>Workers</h2>
<p>A bar is an attempt, the outline behind it what was predicted.%(bars)s</p>
<div class="figure"><div id="workers" class="plot"></div></div>
<h2>Memory</h2>
<p>Bytes that an attempt's process held, and planned ones, of the worker's limit.</p>
<div class="figure"><div id="memory" class="plot"></div></div>
<h2>Errors of predictions</h2>
<p>Steps before any correction; attempts as they were predicted when they began.</p>
<div class="figure"><div id="errors" class="plot"></div></div>"""


def render(report: StudyReport, summary: List[str]) -> str:
    trials = report.study.trials
    influences = study.influences(report.study)
    said = (
        "The share of the variance of the trials' ranks that groups of a value explain; "
        "what two values do only together is not in it."
        if influences
        else "Fewer than %d trials have a value." % study.FEWEST_TRIALS
    )
    names, axis = _second_axis(report)
    parts = {
        "front": escape("%s against %s" % (names[0], names[1])),
        "influence": said,
        "lines": _left_out(len(trials), MOST_LINES, "best"),
        "bars": _left_out(len(report.attempts), MOST_BARS, "last"),
    }
    return html.page(
        title="Study",
        heading="Study %s" % report.path,
        subtitle=view.summary(
            report.study, report.objectives, report.trials, report.end
        ),
        summary=summary,
        body=_BODY % parts,
        scripts=["study.js"],
        data={
            "trials": _trials(report),
            "figures": {
                "history": _history(report),
                "front": _front(report, names, axis),
                "influence": _influence(influences),
                "parallel": _parallel(report),
                "workers": _workers(report),
                "memory": _memory(report),
                "errors": _errors(report),
            }
        },
    )


def _left_out(count: int, most: int, which: str) -> str:
    if count <= most:
        return ""
    return " The %s %s of %s are shown." % (which, format(most, ","), format(count, ","))


def _layout(height: int, across: str, up: str, **more) -> dict:
    layout = {
        "height": height,
        "margin": dict(figures.MARGIN),
        "xaxis": {"title": {"text": across}},
        "yaxis": {"title": {"text": up}},
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": -0.2},
    }
    return {**layout, **more}


def _trials(report: StudyReport) -> dict:
    """The texts under the pointer, once for all figures: names of values, and a row for
    each trial, its end and its values, None for a missing one. Plotly reads a little HTML
    in it."""
    trials = report.study.trials
    names = sorted({name for trial in trials for name in trial.values})
    rows = []
    for trial in trials:
        said = view.ended(trial, report.objectives) if trial.end else trial.outcome
        values = [
            escape(text_of(trial.values[name])) if name in trial.values else None
            for name in names
        ]
        rows.append([escape("trial %d: %s" % (trial.number, said)), *values])
    return {"names": [*map(escape, names)], "rows": rows}


def _points(
    trials: Sequence[Trial], across: Sequence[float], up: Sequence[float]
) -> List[dict]:
    """A curve of points for each outcome."""
    curves = []
    for outcome, colour in OUTCOMES.items():
        those = [i for i, trial in enumerate(trials) if trial.outcome == outcome]
        if those:
            curves.append(
                {
                    "x": [across[i] for i in those],
                    "y": [up[i] for i in those],
                    "mode": "markers",
                    "name": outcome,
                    "marker": {
                        "color": colour,
                        "size": 8,
                        "symbol": "x" if outcome == "diverged" else "circle",
                    },
                    "trials": [trials[i].number for i in those],
                    "hoverinfo": "text",
                }
            )
    return curves


def _finite(values: Sequence[float]) -> List[float]:
    """With what is infinite a little above the rest, where it can be drawn."""
    known = [each for each in values if math.isfinite(each)]
    lowest, highest = min(known, default=0.0), max(known, default=1.0)
    top = highest + 0.08 * ((highest - lowest) or abs(highest) or 1)
    return [each if math.isfinite(each) else top for each in values]


def _history(report: StudyReport) -> dict:
    judged = report.judged
    numbers = [trial.number for trial in judged]
    curves = _points(judged, numbers, _finite([*map(study.value, judged)]))
    best, at, least = [], [], math.inf
    for trial in judged:
        if trial.outcome == "done" and study.value(trial) < least:
            least = study.value(trial)
            at.append(trial.number)
            best.append(least)
    if best:
        at.append(len(report.study.trials) - 1)
        best.append(least)
        curves.append(
            {
                "x": at,
                "y": best,
                "mode": "lines",
                "name": "best",
                "line": {"shape": "hv", "color": "#222", "width": 1.5},
                "hoverinfo": "skip",
            }
        )
    return {"data": curves, "layout": _layout(400, "trial", report.objectives[0])}


def _second_axis(report: StudyReport) -> Tuple[List[str], int]:
    """The first two objectives; of a search with one, what a trial took beside it."""
    if len(report.objectives) > 1:
        return report.objectives[:2], 1
    return [report.objectives[0], "seconds that a trial took"], 0


def _front(report: StudyReport, names: List[str], axis: int) -> dict:
    done = [trial for trial in report.study.trials if trial.outcome == "done"]
    done = [trial for trial in done if all(map(math.isfinite, trial.objectives))]

    def place(trial: Trial) -> Tuple[float, float]:
        second = trial.objectives[1] if axis else trial.seconds
        return second, trial.objectives[0]

    places = [*map(place, done)]
    across, up = [second for second, _ in places], [first for _, first in places]
    curves = _points(done, across, up)
    front = pareto(places)
    if front:
        curves.append(
            {
                "x": [each[0] for each in front],
                "y": [each[1] for each in front],
                "mode": "lines+markers",
                "name": "Pareto front",
                "line": {"shape": "hv", "color": "#e15759", "width": 1.5},
                "marker": {"symbol": "circle-open", "size": 13},
                "hoverinfo": "skip",
            }
        )
    return {"data": curves, "layout": _layout(400, names[1], names[0])}


def pareto(places: Sequence[Tuple[float, float]]) -> List[Tuple[float, float]]:
    """Those for which no other is as good in both and better in one, from the left."""
    kept: List[Tuple[float, float]] = []
    for place in sorted(set(places)):
        if not kept or place[1] < kept[-1][1]:
            kept.append(place)
    return kept


def _influence(influences: Sequence[study.Influence]) -> dict:
    rows = [*reversed(influences)]
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": [100 * each.share for each in rows],
        "y": [each.name for each in rows],
        "text": ["%d trials" % each.trials for each in rows],
        "marker": {"color": html.colour(0)},
    }
    layout = _layout(120 + 28 * len(rows), "% of the variance of ranks", "")
    layout["margin"]["l"] = 200
    layout["yaxis"] = {"type": "category"}
    layout["xaxis"]["range"] = [0, 100]
    return {"data": [bars], "layout": layout}


class Scale:
    """The values of a name, as heights from 0 to 1."""

    def __init__(self, values: Sequence[Any]):
        numbers = [each for each in values if type(each) in (int, float)]
        finite = [each for each in numbers if math.isfinite(each)]
        self.names: List[str] = []
        if len(numbers) < len(values) or not finite:
            self.names = sorted({text_of(each) for each in values})
            return
        self.low, self.high = min(finite), max(finite)
        # As learning rates are searched for.
        self.is_logarithmic = self.low > 0 and self.high >= 20 * self.low

    def height(self, value: Any) -> float:
        if self.names:
            return (self.names.index(text_of(value)) + 0.5) / len(self.names)
        if not math.isfinite(value):
            return 1.06
        low, high = self.low, self.high
        if self.is_logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low) if high > low else 0.5

    def labels(self) -> List[Tuple[float, str]]:
        if self.names:
            return [
                ((place + 0.5) / len(self.names), name)
                for place, name in enumerate(self.names)
            ]
        ends = [(0.0, "%.3g" % self.low), (1.0, "%.3g" % self.high)]
        return ends if self.high > self.low else [(0.5, ends[0][1])]


def _parallel(report: StudyReport) -> dict:
    judged = sorted(
        report.judged, key=lambda trial: (study.value(trial), trial.number)
    )[:MOST_LINES]
    names = view.varying(report.study)
    columns = [
        [(i, trial.values[name]) for i, trial in enumerate(judged) if name in trial.values]
        for name in names
    ]
    columns.append([(i, study.value(trial)) for i, trial in enumerate(judged)])
    scales = [Scale([value for _, value in column]) for column in columns if column]
    names = [name for name, column in zip([*names, report.objectives[0]], columns) if column]
    columns = [{i: value for i, value in column} for column in columns if column]
    # From the worst to the best, which lies above.
    curves = [
        _lines_of(part, judged, columns, scales, tint)
        for tint, part in reversed([*enumerate(np.array_split(range(len(judged)), TINTS))])
        if len(part)
    ]
    layout = _layout(460, "", "", showlegend=False)
    layout["xaxis"] = {
        "tickvals": [*range(len(names))],
        "ticktext": names,
        "range": [-0.2, len(names) - 0.6],
        "zeroline": False,
    }
    layout["yaxis"] = {"visible": False, "range": [-0.05, 1.12]}
    layout["annotations"] = [
        {
            **{"x": place, "y": height, "text": escape(label), "showarrow": False},
            **{"xanchor": "left", "font": {"size": 11}, "bgcolor": "#ffffffc0"},
        }
        for place, scale in enumerate(scales)
        for height, label in scale.labels()
    ]
    return {"data": curves, "layout": layout}


def _lines_of(part, judged, columns, scales, tint) -> dict:
    """Lines of some trials in one curve. Where a trial lacks a value its line has a
    gap."""
    across: List[Any] = []
    up: List[Any] = []
    numbers: List[Any] = []
    for i in part.tolist():
        for place, (column, scale) in enumerate(zip(columns, scales)):
            across.append(place)
            up.append(scale.height(column[i]) if i in column else None)
        across.append(None)
        up.append(None)
        numbers += [judged[i].number] * len(columns) + [None]
    shade = 40 + round(170 * tint / (TINTS - 1))
    return {
        "x": across,
        "y": up,
        "mode": "lines+markers",
        "line": {"color": "rgb(%d,%d,%d)" % (shade // 2, shade, 160 + shade // 4), "width": 1},
        "marker": {"size": 4},
        "trials": numbers,
        "hoverinfo": "text",
    }


def _workers(report: StudyReport) -> dict:
    attempts = report.attempts[-MOST_BARS:]
    workers = sorted({each.worker for each in attempts})
    known = [each for each in attempts if each.predicted is not None]
    curves = [
        {
            **_bars(known, [each.predicted for each in known], 0.85),
            "name": "predicted",
            "marker": {"color": figures.CLEAR, "line": {"color": "#888", "width": 1}},
            "hoverinfo": "skip",
        }
    ]
    for how, colour in OUTCOMES.items():
        those = [each for each in attempts if each.how == how]
        if those:
            taken = [(report.end if each.end is None else each.end) - each.begin for each in those]
            curves.append(
                {
                    **_bars(those, taken, 0.5),
                    "name": how,
                    "marker": {"color": colour},
                    "text": [_about_attempt(*each) for each in zip(those, taken)],
                    "textposition": "none",
                    "hoverinfo": "text",
                }
            )
    layout = _layout(170 + 34 * len(workers), "seconds", "", barmode="overlay")
    layout["yaxis"] = {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": workers[::-1],
    }
    return {"data": curves, "layout": layout}


def _bars(attempts: Sequence[Attempt], lengths: Sequence[float], width: float) -> dict:
    return {
        "type": "bar",
        "orientation": "h",
        "base": [each.begin for each in attempts],
        "x": [*lengths],
        "y": [each.worker for each in attempts],
        # Lanes of one process lie below one another.
        "width": [width / len(each.lanes) for each in attempts],
        "offset": [
            width * (each.lanes.index(each.trial) / len(each.lanes) - 0.5)
            for each in attempts
        ],
    }


def _about_attempt(attempt: Attempt, taken: float) -> str:
    said = ["trial %d on %s: %s" % (attempt.trial, attempt.worker, attempt.how)]
    said.append("%.2f s from %.2f s" % (taken, attempt.begin))
    if attempt.lanes[1:]:
        of = attempt.lanes.index(attempt.trial), len(attempt.lanes)
        said.append("lane %d of %d of one program" % of)
    if attempt.predicted is not None:
        said.append("predicted %.2f s" % attempt.predicted)
    return "<br>".join(map(escape, said))


def _memory(report: StudyReport) -> dict:
    limited = [each for each in report.attempts if each.limit]
    measured = [each for each in limited if each.measured.get("max_rss")]
    planned = [each for each in limited if each.planned]
    curves = [
        _shares(measured, [each.measured["max_rss"] for each in measured], "held", 0),
        _shares(planned, [each.planned for each in planned], "planned", 1),
    ]
    layout = _layout(360, "trial", "% of the worker's memory")
    layout["yaxis"]["rangemode"] = "tozero"
    layout["shapes"] = [
        {
            **{"type": "line", "xref": "paper", "x0": 0, "x1": 1},
            **{"y0": 100 * costs.SHARE, "y1": 100 * costs.SHARE},
            "line": {"color": "#e15759", "dash": "dash", "width": 1},
        }
    ]
    return {"data": curves, "layout": layout}


def _shares(
    attempts: Sequence[Attempt], counts: Sequence[int], name: str, number: int
) -> dict:
    said = [
        "trial %d on %s: %s %s of %s"
        % (each.trial, each.worker, name, text.size(count), text.size(each.limit))
        for each, count in zip(attempts, counts)
    ]
    return {
        "x": [each.trial for each in attempts],
        "y": [round(100 * count / each.limit, 2) for each, count in zip(attempts, counts)],
        "mode": "markers",
        "name": name,
        "marker": {"color": html.colour(number), "size": 7},
        "text": [*map(escape, said)],
        "hoverinfo": "text",
    }


def _errors(report: StudyReport) -> dict:
    curves = []
    for number, (name, of) in enumerate([("a step", "steps"), ("an attempt", "jobs")]):
        ratios = [(each.kind, getattr(each, of)) for each in study.errors(report.attempts)]
        curves.append(
            {
                "type": "box",
                "name": name,
                "x": [kind for kind, values in ratios for _ in values],
                "y": [round(value, 4) for _, values in ratios for value in values.tolist()],
                "boxpoints": "all",
                "marker": {"color": html.colour(number), "size": 4},
            }
        )
    layout = _layout(400, "class", "measured / predicted", boxmode="group")
    layout["yaxis"].update(type="log", dtick="D2")
    layout["xaxis"]["type"] = "category"
    layout["shapes"] = [
        {
            **{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1},
            "line": {"color": "#888", "dash": "dot", "width": 1},
        }
    ]
    return {"data": curves, "layout": layout}
