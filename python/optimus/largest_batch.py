# ===- largest_batch.py - The largest batch that memory holds --------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`python3 -m optimus.largest_batch MODEL … -- FLAG…` finds the largest batch of a
model that fits, before anything runs: optimus-compile plans one batch after the other,
with the flags after --, and reports the needs of a rank and the memory there is. Where
the model's flags have --generate slots=most,… or pages=most, it is these.

Exit codes: 0 done, 1 nothing fits, or the arguments or the output are wrong, 2 a
fault of ours.
"""

import argparse
import json
import math
import re
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from optimus import __version__, arguments, output
from optimus.bisection import largest
from optimus.errors import UnavailableError
from optimus.planning import COMPILER, Fault, Plan, Requests, plan
from optimus.tools import find_tool

PROGRAM = "optimus.largest_batch"
# Of what a rank holds, in MiB.
PARTS = ["parameters", "state", "gradients", "inputs", "arena", "scratch", "total"]
COLUMNS = "%9s" + " %11s" * len(PARTS) + " %11s %11s  %s"
MOST = "most"


class Failure(Exception):
    """Why there is no answer."""


class Sought(NamedTuple):
    """What the largest number is looked for of."""

    name: str
    call: str = "decode"
    """Of which a time is printed."""
    tokens: int = 0
    """That it makes, or 0: one for each of what is looked for."""

    def said(self, number: int) -> str:
        if self is BATCH:
            return "a batch of %d" % number
        return "%d %s" % (number, self.name if number > 1 else self.name[:-1])

    def fails(self, number: int) -> str:
        """Of the least number."""
        is_one = self is BATCH or number == 1
        return "not even %s %s" % (self.said(number), "fits" if is_one else "fit")


BATCH = Sought("batch", "step")


class Trial(NamedTuple):
    """What optimus-compile says of one batch, or of so many slots or pages."""

    batch: int
    plan: Plan
    sought: Sought = BATCH

    @property
    def report(self) -> Optional[Dict[str, Any]]:
        return self.plan.report

    @property
    def limit(self) -> Dict[str, Any]:
        return self.plan.limit

    @property
    def fits(self) -> bool:
        return self.plan.fits

    @property
    def milliseconds(self) -> float:
        if self.sought is BATCH:
            return self.plan.milliseconds
        return self.plan.milliseconds_of("decode")

    def of_batch(self, batch: int) -> "Trial":
        """The same for a batch that is padded to the same one."""
        if not self.report or self.sought is not BATCH:
            return self._replace(batch=batch)
        model = dict(self.report["model"], batch=batch)
        return Trial(batch, Plan(dict(self.report, model=model)))

    @property
    def tokens_per_s(self) -> float:
        tokens = self.sought.tokens or self.batch
        if self.sought is BATCH:
            tokens *= self.report["model"]["sequence"]
        return 1e3 * tokens / self.milliseconds

    @property
    def recomputed(self) -> str:
        """A policy, or what stands for a list of values."""
        recompute = self.report["recompute"]
        return "by value" if ":" in recompute else recompute

    def row(self) -> str:
        if not self.report:
            return "%9d  %s" % (self.batch, self.plan.reason)
        rank_bytes = self.report["rank_bytes"]
        rows = self.report["memory"].values()
        most = next(row for row in rows if row["total"] == rank_bytes)
        sizes = [_mebibytes(most[part]) for part in PARTS]
        times = "{:,.2f} {:,.0f}".format(self.milliseconds, self.tokens_per_s).split()
        verdict = "" if self.fits else ", does not fit"
        return COLUMNS % (self.batch, *sizes, *times, self.recomputed + verdict)

    def summary(self) -> str:
        text = "{} {}: {} MiB a rank, {:,.2f} ms a {}, {:,.0f} tokens/s"
        said = text.format(
            self.sought.name,
            self.batch,
            _mebibytes(self.report["rank_bytes"]),
            self.milliseconds,
            self.sought.call,
            self.tokens_per_s,
        )
        return said + (", recomputed: " + self.recomputed if self.sought is BATCH else "")

    def described(self) -> Dict[str, Any]:
        """As --json has it."""
        found = {self.sought.name: self.batch, "fits": self.fits}
        if not self.report:
            return {**found, "refusal": self.plan.refusal}
        times = {self.sought.call + "_ms": self.milliseconds, "tokens_per_s": self.tokens_per_s}
        return {**found, **times, "report": self.report}


class Planner:
    """Builds and plans a model with one batch or another, and keeps what was tried."""

    def __init__(self, model: List[str], flags: List[str], unit: int, sought: Sought = BATCH):
        self._model, self._flags, self._unit = model, flags, unit
        self.sought = sought
        # What batches are padded to; all of them where another mesh may be chosen.
        self._multiple = 1
        self._known: Dict[Tuple[int, Tuple[str, ...]], Trial] = {}
        find_tool(COMPILER)
        self._compiler = Requests()
        self.tried: List[Trial] = []

    def has(self, name: str) -> bool:
        """Whether a flag of the compiler is given, its value behind it or after '='."""
        return any(flag.lstrip("-").partition("=")[0] == name for flag in self._flags)

    def try_batch(self, batch: int, *more: str) -> Trial:
        """Plans a batch, with more flags, and prints its row, unless one that is
        padded to the same was planned before."""
        batch_planned = self._fill(batch)
        if (batch_planned, more) not in self._known:
            trial = self._try(batch_planned, more)
            # The first one says to what batches are padded.
            self._known[self._fill(batch), more] = trial
        return self._known[self._fill(batch), more].of_batch(batch)

    def _fill(self, batch: int) -> int:
        """The largest batch in question with this one's padded size."""
        padded = -(-batch // self._multiple) * self._multiple
        return padded // self._unit * self._unit

    def _is_padded(self) -> bool:
        """Whether the flags alone say what batches are padded to."""
        chosen = self.has("ranks") or any("auto" in flag for flag in self._flags)
        return self.sought is BATCH and not chosen and not self.has("no-pad")

    def _try(self, batch: int, more: Tuple[str, ...]) -> Trial:
        trial = self._plan(batch, more)
        if not self.tried:
            if not trial.report:
                said = self.sought.said(batch)
                raise Failure("with %s: %s" % (said, trial.plan.refusal))
            allowed = _mebibytes(trial.limit["bytes"]), trial.limit["of"]
            _print("a rank may hold %s MiB: %s; what it holds, in MiB:" % allowed)
            call = self.sought.call + ", ms"
            _print(COLUMNS % (self.sought.name, *PARTS, call, "tokens/s", "recomputed"))
            if self._is_padded():
                self._multiple = trial.report["model"].get("batch_multiple", 1)
        self.tried.append(trial)
        _print(trial.row())
        return trial

    def _plan(self, batch: int, more: Tuple[str, ...]) -> Trial:
        try:
            given = self._given(batch)
            found = plan(given, [*self._flags, *more], self._compiler.call)
        except Fault as fault:
            raise Fault("with %s: %s" % (self.sought.said(batch), fault)) from None
        if found.is_of_model and not self._flags:
            hint = "; flags of optimus-compile stand behind --"
            found = found._replace(refusal=found.refusal + hint)
        return Trial(batch, found, self.sought)

    def _given(self, number: int) -> List[str]:
        """The model's flags."""
        if self.sought is BATCH:
            return [*self._model, "--batch", str(number)]
        asked = "%s=%s" % (self.sought.name, MOST)
        exact = "%s=%d" % (self.sought.name, number)
        return [flag.replace(asked, exact) for flag in self._model]


def find_drop(tried: List[Trial]) -> Optional[Tuple[Trial, Trial]]:
    """A batch and a larger one with smaller needs under the same plan, against the
    assumption of `largest`."""
    plans: Dict[Any, Trial] = {}
    keys = ("mesh", "strategy", "recompute", "offload")
    planned = [trial for trial in tried if trial.report]
    for trial in sorted(planned, key=lambda trial: trial.batch):
        plan = tuple(trial.report[key] for key in keys)
        before = plans.get(plan)
        if before and trial.report["rank_bytes"] < before.report["rank_bytes"]:
            return before, trial
        plans[plan] = trial
    return None


def find(planner: Planner, unit: int) -> Dict[str, Any]:
    """Prints each trial and the answer, and returns the object of --json. Raises
    Failure where nothing fits."""
    batch = largest(lambda batch: planner.try_batch(batch).fits, unit)
    tried = list(planner.tried)
    budget = "--memory-budget=%d" % tried[0].limit["bytes"]
    has_budget = planner.has("memory-budget")
    if not batch:
        within = None if has_budget else planner.try_batch(unit, budget)
        raise Failure(_explain(tried[0], within))
    recomputing = None
    if planner.sought is BATCH and not has_budget and not planner.has("recompute"):
        recomputing = planner.try_batch(2 * batch, budget)
    answer, beyond = planner.try_batch(batch), planner.try_batch(batch + unit)
    if beyond.plan.refusal:
        said = (planner.sought.name, beyond.batch, beyond.plan.reason)
        _print("%s %d is refused: %s" % said)
    drop = find_drop(tried)
    if drop:
        said = (planner.sought.name, drop[1].batch, drop[0].batch)
        _print("a rank needs less for %s %d than for %d; more than the answer may fit, too"
               % said)
    if recomputing and recomputing.fits:
        _print("with %s: %s" % (budget, recomputing.summary()))
    fitting = (trial for trial in [*tried, answer] if trial.fits)
    fastest = max(fitting, key=lambda trial: trial.tokens_per_s)
    if fastest.batch != batch:
        _print("fastest of those tried: %s" % fastest.summary())
    _print("largest: %s" % answer.summary())
    return {
        "limit": tried[0].limit,
        "largest": answer.described(),
        "fastest": fastest.described(),
        "recomputing": recomputing and recomputing.described(),
        "tried": [trial.described() for trial in tried],
    }


def _explain(least: Trial, within: Optional[Trial]) -> str:
    """Why not even the smallest batch fits, and what to do: with the limit as a budget,
    the compiler recomputes (`within`), or names other ways out."""
    text = "%s: a rank needs %d bytes, %s has %d; %s"
    if not within:
        out = "give more memory, or flags that need less"
    elif within.fits:
        out = "it does with --memory-budget=%d, by recomputation" % least.limit["bytes"]
    else:
        out = within.plan.refusal
    needs, limit = least.report["rank_bytes"], least.limit
    return text % (
        least.sought.fails(least.batch), needs, limit["of"], limit["bytes"], out
    )


def _mebibytes(size: int) -> str:
    return "{:,.1f}".format(size / (1 << 20))


def _print(line: str) -> None:
    output.write("-", line + "\n")


def _parse(given: List[str]) -> Tuple[argparse.Namespace, List[str]]:
    """The options, and the flags of optimus-compile. Raises Mistake."""
    at = given.index("--") if "--" in given else len(given)
    parser = arguments.Parser(
        prog="python3 -m optimus.largest_batch",
        usage="%(prog)s [options] MODEL FLAG… -- FLAG…",
        description="Find the largest batch of a model that fits: its flags, as "
        "optimus.models takes them, and after -- those of optimus-compile. With --generate "
        "slots=most,context=N,chunk=N, or pages=most, the most slots or pages.",
        allow_abbrev=False,
    )
    version = "%s %s" % (PROGRAM, __version__)
    parser.add_argument("--version", action="version", version=version)
    parser.add_argument(
        "--multiple-of",
        type=arguments.whole_number,
        default=1,
        metavar="N",
        help="look at multiples of N only (default: %(default)s)",
    )
    parser.add_argument("--json", metavar="FILE", help="write what was tried there, too")
    parser.add_argument("model", metavar="MODEL", help="as gpt2")
    parser.add_argument("flags", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args(given[:at])
    if options.multiple_of < 1:
        parser.error("--multiple-of: expected 1 or more, found %d" % options.multiple_of)
    refused = ["-o", "--output"]
    refused += ["--batch"] if _sought(options.flags)[0] is BATCH else []
    for flag in options.flags:
        if flag.partition("=")[0] in refused:
            parser.error("%s: expected no such flag; the batch is looked for, and "
                         "nothing is written" % flag)
    return options, given[at + 1 :]


def _sought(flags: List[str]) -> Tuple[Sought, int]:
    """By the model's flags, and a number that the answer is a multiple of."""
    text = " ".join(flags)
    found = re.search(r"--generate[ =]\S*\b(slots|pages)=%s\b" % MOST, text)
    if not found:
        return BATCH, 1
    if found[1] == "slots":
        return Sought("slots"), 1
    slots = re.search(r"\bslots=(\d{1,9})\b", text)
    # Without them the model's builder says what it expects.
    count = int(slots[1]) if slots else 1
    return Sought("pages", tokens=count), max(count, 1)


def main(given: Optional[List[str]] = None) -> int:
    def act() -> int:
        options, flags = _parse(sys.argv[1:] if given is None else given)
        sought, unit = _sought(options.flags)
        model = [options.model, *options.flags]
        # What generates depends on no batch.
        has_batch = any(flag.partition("=")[0] == "--batch" for flag in model)
        model += [] if sought is BATCH or has_batch else ["--batch", "1"]
        unit = math.lcm(unit, options.multiple_of)
        planner = Planner(model, flags, unit, sought)
        try:
            found = find(planner, unit)
        except Fault as fault:
            output.fail(PROGRAM, str(fault))
            return 2
        if options.json is not None:
            output.write(options.json, json.dumps(found, indent=1) + "\n")
        return 0

    return arguments.outcome(PROGRAM, act, Failure, UnavailableError)


if __name__ == "__main__":
    arguments.run(main)
