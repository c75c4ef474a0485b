# ===- test_tune_nearest.py - With what a trial would fit --------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The least changes of a trial that no worker has the memory for, by plans of a function."""

import pytest

from optimus.tune import nearest
from optimus.tune.costs import Corrections
from optimus.tune.domains import parse
from optimus.tune.machine import Class
from optimus.tune.spaces import Leaf, Space
from optimus.tune.study import Study

MEBIBYTE = 1 << 20
SPACE = Space(
    tuple(
        Leaf(name, parse(domain), line)
        for line, (name, domain) in enumerate(
            {
                "model.name": "gpt2",
                "model.batch": {"choice": [8, 32, 16]},
                "model.hidden": {"randint": [64, 512], "step": 64},
                "model.ffn": {"dependent": "4 * model.hidden"},
                "compile.recompute": {"choice": ["none", "attention", "layer"]},
                "train.lr": {"log-uniform": [1e-4, 1e-2]},
            }.items()
        )
    )
)
VALUES = {
    **{"model.name": "gpt2", "model.batch": 32, "model.hidden": 512, "model.ffn": 2048},
    **{"compile.recompute": "none", "train.lr": 1e-3},
}
SAVED = {"none": 1, "attention": 2, "layer": 4}


def predict(values):
    """In MiB the batch times the inner width, less by what is computed again; odd widths
    are refused."""
    assert values["model.ffn"] == 4 * values["model.hidden"]
    if values["model.hidden"] % 128:
        return {"refusal": "odd"}
    size = values["model.batch"] * values["model.ffn"] // 64
    size //= SAVED[values["compile.recompute"]]
    return {"rank_bytes": size * MEBIBYTE, "ranks": 1}


def study_of(mebibytes, outcome="infeasible"):
    study = Study()
    its = Class(1.0, mebibytes * MEBIBYTE, "avx2", "cpu")._asdict()
    for record in (
        {"kind": "worker", "worker": "a", "class": {**its, "memory": MEBIBYTE}},
        {"kind": "worker", "worker": "b", "class": its},
        {"kind": "given", "trial": 0, "values": VALUES, "space": ""},
        {"kind": "predicted", "trial": 0, "prediction": predict(VALUES)},
        {"kind": "ended", "trial": 0, "outcome": outcome},
    ):
        study.apply(record)
    return study


@pytest.mark.parametrize(
    "mebibytes, expected",
    [
        # A process has 96 MiB of its own, and the plan 1,024.
        (
            800,
            [
                "would fit with compile.recompute = attention: 608 MiB",
                "would fit with model.hidden = 256: 608 MiB",
                "would fit with model.batch = 16: 608 MiB",
            ],
        ),
        (
            500,
            [
                "would fit with compile.recompute = layer: 352 MiB",
                "would fit with model.batch = 8: 352 MiB",
                "would fit with model.hidden = 128: 352 MiB",
            ],
        ),
        (200, ["no other value of one name alone would fit"]),
    ],
)
def test_the_least_change_is_first(mebibytes, expected):
    study, corrections = study_of(mebibytes), Corrections()
    (trial,) = study.trials
    assert nearest.lacks_memory(trial, study, corrections)
    found = nearest.lines(nearest.changes(SPACE, trial, study, corrections, predict))
    assert sorted(found) == sorted(expected) and found[0] == expected[0]


def test_other_ends_are_of_other_causes():
    for mebibytes, outcome in (1200, "infeasible"), (500, "failed"):
        study = study_of(mebibytes, outcome)
        assert not nearest.lacks_memory(study.trials[0], study, Corrections())
