# ===- outcome.py - What came of a job -------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads the log of a trial, and says what its job's end means."""

import json
import math
import os
import statistics
from typing import Any, Dict, List, NamedTuple, Optional

LOG = "log.jsonl"
PATIENCE = "train.patience"
"""A trial with it keeps the state of its least held-out loss."""


ENDED = ("done", "stopped")
"""How a log says that all is saved."""


class Log(NamedTuple):
    steps: List[Dict[str, Any]]
    ended: Optional[str]
    """How the run says that it ended; None where it was killed."""
    message: str = ""


def read_log(folder: str) -> Log:
    """Of a trial; what a killed run left is taken as far as it goes."""
    steps: List[Dict[str, Any]] = []
    ended, message = None, ""
    try:
        with open(os.path.join(folder, LOG), encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    record = json.loads(line)
                except ValueError:
                    break
                if "ended" in record:
                    ended, message = record["ended"], record.get("message", "")
                elif "loss" in record:
                    steps.append(record)
    except OSError:
        pass
    return Log(steps, ended, message)


MAKES = ("build", "compile")
"""Commands that make a program."""


def making_seconds(result: Dict[str, Any]) -> float:
    """Of a job, for its program, which may have been there."""
    return sum(result["seconds"].get(name, 0.0) for name in MAKES)


def made_in(result: Dict[str, Any]) -> Dict[str, float]:
    """The same as a measurement, of a job that compiled its program."""
    is_made = MAKES[-1] in result.get("made", ())
    return {"making_seconds": making_seconds(result)} if is_made else {}


def typical(times: List[float], cores: float) -> float:
    """Of a run's steps; the first one warms up. A part of a core is granted for a moment of
    each period, in which a short step is as fast as on a whole one: the mean counts."""
    is_whole = cores == int(cores)
    return (statistics.median if is_whole else statistics.fmean)(times[1:] or times)


def measured(
    log: Log, result: Dict[str, Any], first_step: int, cores: float
) -> Dict[str, Any]:
    """What a job took on so many cores; its own steps come after `first_step`."""
    own = [each for each in log.steps if each["step"] > first_step]
    seconds = sum(result["seconds"].values())
    found = {"seconds": seconds, "max_rss": result.get("max_rss", 0), **made_in(result)}
    making = making_seconds(result)
    if own:
        times = [each["ms"] for each in own]
        found["step_ms"] = typical(times, cores)
        # What warming up takes is beside steps.
        steps = sum(times[1:]) + min(times[0], found["step_ms"])
        found["other_seconds"] = max(0.0, seconds - making - steps / 1e3)
        # From the first step to the last, evaluations between them included.
        under_way = own[-1].get("seconds", sum(times) / 1e3)
        started = result["seconds"].get("train", seconds) - under_way
        found["start_seconds"] = min(max(0.0, started), found["other_seconds"])
    return found


def measured_lanes(
    logs: List[Log],
    result: Dict[str, Any],
    first_steps: List[int],
    threads: int,
    cores: float,
) -> List[Dict[str, Any]]:
    """What lanes of a process took: of its time each an equal part. The time of a step,
    on a thread, is said once. A lane's steps are logged with the time of all lanes."""
    own = [
        [each["ms"] for each in log.steps if each["step"] > first]
        for log, first in zip(logs, first_steps)
    ]
    found = [
        {
            "seconds": sum(result["seconds"].values()) / len(logs),
            "max_rss": result.get("max_rss", 0),
            "lanes": len(logs),
            "threads": threads,
        }
        for _ in logs
    ]
    times = [
        ms / -(-sum(len(lane) > place for lane in own) // threads)
        for place, ms in enumerate(max(own, key=len))
    ]
    if times:
        found[0]["lane_ms"] = typical(times, cores)
    found[0].update(made_in(result))
    return found


class Outcome(NamedTuple):
    kind: str
    """rung, ended or lost, as the journal has it."""
    outcome: str = ""
    why: str = ""


def judge(
    log: Log,
    result: Dict[str, Any],
    until: Optional[int],
    steps: int,
    is_lane: bool = False,
) -> Outcome:
    """Of a job that was to end after the step `until`; as a lane it has its own end."""
    code, said = result["code"], _last_line(result.get("said", ""))
    reached = log.steps[-1]["step"] if log.steps else 0
    if is_lane and result["phase"] == "train":
        target = steps if until is None else until
        if log.ended == "patience" or (log.ended in ENDED and reached >= target):
            code = 0
        elif code == 1 and log.ended not in ("diverged", "memory") and not result.get("disk"):
            # Another one may have ended it.
            return Outcome("lost", "fault", log.message or said)
    if code == 0:
        if log.ended == "patience" or reached >= steps:
            return Outcome("ended", "done")
        if until is not None and reached >= until:
            return Outcome("rung")
        if log.ended in ENDED:
            return Outcome("lost", "log", "its log lacks steps")
    if result.get("disk"):
        return Outcome("lost", "disk", log.message or said or "no room")
    if code == 0:
        return Outcome("lost", "fault", "it ended before its last step")
    if code == 1 and result["phase"] == "train" and log.ended == "diverged":
        return Outcome("ended", "diverged", log.message or said)
    if code == 1 and log.ended == "memory":
        return Outcome("lost", "memory", log.message or said)
    if code == 1:
        return Outcome("ended", "failed", "%s: %s" % (result["phase"], log.message or said))
    if code == -9 and result.get("oom", True):
        return Outcome("lost", "memory", "it was killed for memory")
    if code < 0 or code > 128:
        number = -code if code < 0 else code - 128
        return Outcome("lost", "killed", "signal %d ended it" % number)
    return Outcome(
        "lost", "fault", "%s ended with exit code %d: %s" % (result["phase"], code, said)
    )


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if "error: " in line] or text.splitlines()
    return lines[-1].strip() if lines else ""


def objectives(
    names,
    log: Log,
    prediction: Dict[str, Any],
    spent: Dict[str, Any],
    diverged: bool = False,
    has_patience: bool = False,
) -> List[float]:
    """The values of a trial; a diverged one is infinitely bad where it was measured. With
    patience its held-out loss is the least, of the kept state."""
    last = log.steps[-1] if log.steps else {}
    found = []
    for name in names:
        if name in prediction:
            found.append(float(prediction[name]))
        elif diverged:
            found.append(math.inf)
        elif name == "seconds":
            found.append(float(spent["seconds"]))
        elif name == "eval_loss" and has_patience:
            losses = [each[name] for each in log.steps if each.get(name) is not None]
            found.append(float(min(losses, default=math.inf)))
        else:
            value = last.get(name)
            found.append(math.inf if value is None else float(value))
    return found
