# ===- explain.py - Why a trial ran where it did ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Tells of one trial, from the journal: its values, the predictions for each class, the
workers that had it, and its end."""

from typing import List

from optimus.tune import TuneError
from optimus.tune.costs import bytes_of_lanes, step_ms
from optimus.tune.domains import text_of
from optimus.tune.journal import Record
from optimus.tune.study import Study
from optimus.tune.view import clock, ended


def lines(records: List[Record], study: Study, number: int) -> List[str]:
    """Raises TuneError where there is no such trial."""
    if not 0 <= number < len(study.trials):
        raise TuneError(
            "expected a trial from 0 to %d, found %d" % (len(study.trials) - 1, number)
        )
    trial = study.trials[number]
    found = [
        "trial %d%s: %s" % (number, trial.space and ", space " + trial.space, trial.outcome)
    ]
    found += [
        "  %s = %s" % (name, text_of(value)) for name, value in sorted(trial.values.items())
    ]
    found += _prediction(trial.prediction or {})
    for record in records:
        if record.get("trial") == number:
            found += _event(record, study, study.header["objectives"])
    return found


def _prediction(prediction: Record) -> List[str]:
    if "refusal" in prediction:
        return ["predicted: refused: %s" % prediction["refusal"]]
    if not prediction:
        return ["predicted: nothing yet"]
    return [
        "predicted: %d ranks of %.1f MiB, %.3g ms a step, before correction"
        % (prediction["ranks"], prediction["rank_bytes"] / 2**20, prediction["step_ms"]),
        *(
            "  by the profile %s: %.3g ms" % each
            for each in sorted(prediction.get("by_profile", {}).items())
        ),
    ]


def _event(record: Record, study: Study, objectives: List[str]) -> List[str]:
    trial, kind = study.trials[record["trial"]], record["kind"]
    when = "%8.1f s  " % record.get("time", 0.0)
    if kind == "started":
        return [
            when + "started on %s, class %s" % (record["worker"], record["class"]),
            *_lanes(record),
            *_candidates(record["costs"], record["class"]),
        ]
    if kind == "rung":
        return [
            when
            + "rung of step %d%s" % (record["step"], _measured(record, trial.prediction))
        ]
    if kind == "promoted":
        return [
            when
            + "promoted"
            + (" until step %d" % record["until"] if record["until"] else "")
        ]
    if kind == "slow":
        return [when + "slower than predicted: stopped, to go on elsewhere"]
    if kind == "lost":
        return [when + "lost: %s" % record.get("message", "")]
    if kind == "ended":
        return [when + ended(trial, objectives) + _measured(record, trial.prediction)]
    return []


def _lanes(record: Record) -> List[str]:
    """The trials beside it in one process, and why they are."""
    if "lanes" not in record:
        return []
    others = [str(each) for each in record["lanes"] if each != record["trial"]]
    where = record["lanes"].index(record["trial"]), len(record["lanes"])
    found = "lane %d of %d of one program, beside trial" % where
    found += "s %s and %s" % (", ".join(others[:-1]), others[-1]) if others[1:] else " " + others[0]
    if "together" in record:
        pair = clock(record["together"]), clock(record["apart"])
        found += ": about %s together, %s one after the other" % pair
    return [" " * 14 + found]


def _candidates(costs: Record, chosen: str) -> List[str]:
    """Its time on each class, and the loss against the chosen one."""
    found = []
    here = costs.get(chosen)
    for name, seconds in sorted(costs.items(), key=lambda each: (each[1] is None, each[1])):
        about = "cannot run there" if seconds is None else "about " + clock(seconds)
        loss = (
            ""
            if seconds is None or name == chosen or here is None
            else ", %s %s"
            % (clock(abs(seconds - here)), "longer" if seconds >= here else "sooner")
        )
        found.append(
            "              %s %s: %s%s"
            % ("→" if name == chosen else " ", name, about, loss)
        )
    return found


def _measured(record: Record, prediction: Record) -> str:
    found = record.get("measured") or {}
    if not prediction or "step_ms" not in prediction:
        return ""
    predicted = step_ms(prediction, record.get("class", ""))
    if found.get("lanes"):
        said = "; the process held %d MiB, planned %d for %d lanes" % (
            found.get("max_rss", 0) >> 20,
            bytes_of_lanes(prediction, found["lanes"], found["threads"]) >> 20,
            found["lanes"],
        )
        if found.get("lane_ms"):
            pair = found["lane_ms"], found["lane_ms"] / predicted
            said = "; a lane's step took a thread %.3g ms, %.2f of the prediction" % pair + said
        return said
    if not found.get("step_ms"):
        return ""
    return (
        "; a step took %.3g ms, %.2f of the prediction; the process held %d MiB, planned %d"
        % (
            found["step_ms"],
            found["step_ms"] / predicted,
            found["max_rss"] >> 20,
            bytes_of_lanes(prediction, lanes=1, threads=1) >> 20,
        )
    )
