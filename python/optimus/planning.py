# ===- planning.py - What the compiler knows before anything runs ----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Builds a model and lets optimus-compile plan it up to the placement of buffers, a
second or less: the bytes of a rank and the predicted time of a step."""

import json
import subprocess
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from optimus.arguments import Mistake
from optimus.models.__main__ import program
from optimus.tools import find_tool

COMPILER = "optimus-compile"
PATIENCE = 10.0
"""Seconds for a compiler to end."""


class Fault(Exception):
    """The compiler failed by a fault of its own; what it said."""


class Plan(NamedTuple):
    """What optimus-compile says of a program with some flags."""

    report: Optional[Dict[str, Any]] = None
    """Of --report-json."""
    refusal: str = ""
    """Why there is none."""
    is_of_model: bool = False
    """The model's arguments are refused, before the compiler sees them."""

    @property
    def reason(self) -> str:
        """The refusal without what it explains."""
        return self.refusal.partition("\n")[0]

    @property
    def limit(self) -> Dict[str, Any]:
        """What a rank may hold."""
        return min(self.report["limits"], key=lambda limit: limit["bytes"])

    @property
    def fits(self) -> bool:
        return bool(self.report) and self.report["rank_bytes"] <= self.limit["bytes"]

    @property
    def milliseconds(self) -> float:
        """Of a training step; on a cluster, where it was simulated there."""
        finalists = self.report.get("finalists")
        return finalists[0]["step_ms"] if finalists else self.milliseconds_of("train")

    def milliseconds_of(self, kind: str) -> float:
        """Of a call of the function of this kind."""
        functions = self.report["schedule"].values()
        return next(each for each in functions if each["kind"] == kind)["predicted_step_ms"]


class Said(NamedTuple):
    """What a compilation ended with."""

    code: int
    output: str
    errors: str


Call = Callable[[List[str], str], Said]
"""Runs optimus-compile with arguments and a standard input."""


class Requests:
    """One optimus-compile in a folder, or here, that answers calls, one at a time: each is
    a process without a start. It ends with this program."""

    def __init__(self, folder: Optional[str] = None):
        self._folder = folder
        self._process: Optional[subprocess.Popen] = None

    def call(self, arguments: List[str], text: str, niceness: int = 0) -> Said:
        """Raises Fault where it ends, and UnavailableError without a compiler."""
        request = {"arguments": arguments, "input": text, "nice": niceness}
        if self._process is None:
            self._process = subprocess.Popen(
                [find_tool(COMPILER), "--requests"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                cwd=self._folder,
                # Ctrl-C is for whoever asks.
                start_new_session=True,
            )
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line.endswith("\n"):
            raise Fault("%s ended with exit code %d\n%s" % (COMPILER, *self._end()))
        return Said(**json.loads(line))

    def _end(self) -> Tuple[int, str]:
        """The exit code and last words of a process that ends by itself."""
        process, self._process = self._process, None
        try:
            _, said = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            _, said = process.communicate()
        return process.returncode, said.strip()

    def close(self) -> None:
        if self._process:
            self._end()


def plan(model: List[str], flags: List[str], call: Call) -> Plan:
    """Plans a model, by the arguments of optimus.models, with flags of optimus-compile.
    Raises what `call` does, and Fault."""
    try:
        _, text = program(model)
    except Mistake as mistake:
        return Plan(refusal=str(mistake), is_of_model=True)
    return plan_text(text, flags, call)


def plan_text(text: str, flags: List[str], call: Call) -> Plan:
    """As `plan`, of a model's text."""
    outputs = ["--compile-to=place", "-o", "/dev/null", "--report-json", "-"]
    said = call(["-", *flags, *outputs], text)
    errors = said.errors.strip()
    if said.code == 0:
        return Plan(json.loads(said.output))
    if said.code != 1:
        raise Fault("%s ended with exit code %d\n%s" % (COMPILER, said.code, errors))
    # The table of what was weighed comes before, where to read on behind.
    errors = errors.partition("error: ")[2] or errors
    return Plan(refusal=errors.partition("\n`optimus-compile --help`")[0])
