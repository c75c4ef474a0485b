# ===- compare.py - A run beside its simulation ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Where a simulated step departs from a run of the same library, by kind and by command,
of one rank; and both timelines, one above the other.

A step's commands follow one another, so that their times and those between them add up
to the step. Of a run the mean counts, over the middle half of its warm steps by length:
the slowest and the fastest tell of the machine."""

from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from optimus.report import ReportError, html, text, timeline
from optimus.report.profile import NOT_MEASURED, Function, Profile
from optimus.report.queues import WAIT
from optimus.report.window import Choice, Window, profile_of

MOST_COMMANDS = 15
BETWEEN = "between commands"

_BODY = """<h2>A step of the run, and the simulated one below</h2>
<div class="figure"><div id="time" class="plot"></div></div>"""


class Term(NamedTuple):
    """A part of a step; nanoseconds."""

    run: float
    simulated: float

    @property
    def difference(self) -> float:
        return self.simulated - self.run


class Steps:
    """What one rank takes of a step."""

    def __init__(self, profile: Profile, rank: int):
        self.profile = profile
        self.rank = rank
        spans: Dict[int, Tuple[int, int]] = {}
        for info in profile.calls:
            if info.rank == rank and profile.is_warm(info.step):
                begin, end = spans.get(info.step, (info.begin, info.end))
                spans[info.step] = min(begin, info.begin), max(end, info.end)
        if not spans:
            raise ReportError("rank %d of %s has no step" % (rank, profile.path))
        length = {step: end - begin for step, (begin, end) in spans.items()}
        order = sorted(length, key=lambda step: (length[step], step))
        quarter = len(order) // 4
        self.all = len(order)
        self.chosen = order[quarter : len(order) - quarter]
        self.middle = order[len(order) // 2]
        self.length = float(np.mean([length[step] for step in self.chosen]))
        self.functions: Dict[str, Function] = {}
        self.times: Dict[str, np.ndarray] = {}  # of a step, by command

    def gather(self, window: Window) -> "Steps":
        """Reads all calls; `window` sees them, too."""
        chosen = set(self.chosen)
        for call in self.profile.measured():
            window(call)
            if call.info.rank != self.rank or call.info.step not in chosen:
                continue
            function = call.function
            sums = self.times.setdefault(function.name, np.zeros(len(function.commands)))
            self.functions[function.name] = function
            ran = call.begin != NOT_MEASURED
            sums += np.where(ran & _on_rank(function), call.end - call.begin, 0)
        for sums in self.times.values():
            sums /= len(self.chosen)
        return self


def _on_rank(function: Function) -> np.ndarray:
    """Commands that the rank does nothing else during: copies go on beside."""
    copies = np.array([queue.kind == "copies" for queue in function.queues], bool)
    return ~copies[function.commands.queue]


class Comparison:
    """A run and its simulation. Raises ReportError where they are of two programs."""

    def __init__(
        self, run: Sequence[Profile], simulated: Profile, rank: Optional[int] = None
    ):
        _check(run[0], simulated)
        rank = _rank(run, simulated, rank)
        profiles = profile_of(run, rank), simulated
        self.steps = [Steps(profile, rank) for profile in profiles]
        self.windows = [
            Window(each.profile, Choice(rank, each.middle, each.middle))
            for each in self.steps
        ]
        for each, window in zip(self.steps, self.windows):
            each.gather(window)
        self.step = Term(*(each.length for each in self.steps))
        ran, simulated_ones = (each.functions for each in self.steps)
        if {name: len(each.commands) for name, each in ran.items()} != {
            name: len(each.commands) for name, each in simulated_ones.items()
        }:
            raise ReportError(
                "expected the calls of one step, found those of %s in the run and of %s "
                "in the simulation; simulate the run's --microbatches"
                % (", ".join(sorted(ran)), ", ".join(sorted(simulated_ones)))
            )

    def by_kind(self) -> Dict[tuple, Term]:
        """By (kind,); a wait has the kind of what it waits for, with its axes."""
        found = self._sums(_kind)
        inside = Term(*(sum(each) for each in zip(*found.values())))
        found[(BETWEEN,)] = Term(*(a - b for a, b in zip(self.step, inside)))
        return found

    def by_command(self) -> Dict[tuple, Term]:
        """By (what, path)."""
        return self._sums(_command)

    def _sums(self, key_of: Callable[[Function, int], tuple]) -> Dict[tuple, Term]:
        run, simulated = self.steps
        found: Dict[tuple, Term] = {}
        for name, function in run.functions.items():
            for index in range(len(function.commands)):
                key = key_of(function, index)
                before = found.get(key, Term(0, 0))
                more = run.times[name][index], simulated.times[name][index]
                found[key] = Term(*(a + float(b) for a, b in zip(before, more)))
        return found


def _kind(function: Function, index: int) -> tuple:
    commands = function.commands
    if commands.kind[index] != WAIT:
        return (commands.kind[index],)
    awaited = int(commands.waits_for[index])
    if awaited < 0:
        return ("wait for an earlier call",)
    axes = function.queues[commands.queue[awaited]].axes
    return ("wait for %s%s" % (commands.kind[awaited], axes and " over " + axes),)


def _command(function: Function, index: int) -> tuple:
    commands = function.commands
    if commands.kind[index] == WAIT:
        return (*_kind(function, index), commands.path[index])
    return commands.name[index] or commands.kind[index], commands.path[index]


def _check(run: Profile, simulated: Profile) -> None:
    for profile, expected in ((run, False), (simulated, True)):
        if (profile.trace.get("backend") == "simulated") != expected:
            raise ReportError(
                "expected profiles of `optimus-run train --profile`, and last one of "
                "`optimus-simulate --profile`; '%s' is%s simulated"
                % (profile.path, " not" if expected else "")
            )
    ours, theirs = (each.trace.get("model_hash") for each in (run, simulated))
    if ours != theirs:
        raise ReportError(
            "expected profiles of one library, found model %s in '%s' and %s in '%s'; "
            "simulate the library that ran" % (ours, run.path, theirs, simulated.path)
        )


def _rank(run: Sequence[Profile], simulated: Profile, rank: Optional[int]) -> int:
    """A rank of both. One simulated rank stands for those that do the same."""
    there = {each for profile in run for each in profile.ranks}
    both = sorted(there & set(simulated.ranks))
    if rank is None and both:
        return both[0]
    if rank not in both:
        raise ReportError(
            "--rank: expected one of both, %s, found %s"
            % (", ".join(map(str, both)) or "of which there is none", rank)
        )
    return rank


def lines(found: Comparison) -> List[str]:
    run, simulated = found.steps
    shown = [
        "run        rank %d of %s, %s of the middle half by length, of %d"
        % (run.rank, run.profile.path, text.count(len(run.chosen), "step"), run.all),
        "simulated  %s, on %s"
        % (simulated.profile.path, simulated.profile.trace.get("processor", "?")),
        "step       %s ran, %s simulated: %s"
        % (*map(text.time, found.step), _share(found.step.difference, found.step.run)),
        "",
        "The step by kind:",
    ]
    shown += _table(found.by_kind(), ["Kind"], found.step)
    commands = found.by_command()
    shown += ["", "Commands whose times differ most:"]
    shown += _table(commands, ["Command", "Path"], found.step, MOST_COMMANDS)
    return shown


def _table(
    terms: Dict[tuple, Term], names: List[str], step: Term, most: Optional[int] = None
) -> List[str]:
    order = sorted(terms.items(), key=lambda item: (-abs(item[1].difference), item[0]))
    rows = [
        [
            *map(text.time, term),
            _signed(term.difference),
            _share(term.difference, step.run),
            *key,
        ]
        for key, term in order[:most]
        if term.run or term.simulated
    ]
    return text.table(["ran", "simulated", "difference", "of the step", *names], rows)


def _signed(nanoseconds: float) -> str:
    return "%s%s" % ("+" if nanoseconds > 0 else "", text.time(nanoseconds))


def _share(part: float, whole: float) -> str:
    return "%+.1f %%" % (100 * part / whole) if whole else "–"


def render(found: Comparison, summary: List[str]) -> str:
    run, simulated = found.steps
    return html.page(
        title="Run and simulation",
        heading=str(run.profile.trace.get("library", "Run and simulation")),
        subtitle="Rank %d: step %d of %s, of the median length, above; %s below."
        % (run.rank, run.middle, run.profile.path, simulated.profile.path),
        summary=summary,
        body=html.SEARCH + _BODY,
        scripts=timeline.SCRIPTS,
        data=timeline.drawing(
            list(zip(("run: ", "simulated: "), found.windows)),
        ),
    )
