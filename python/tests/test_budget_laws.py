# ===- test_budget_laws.py - What a memory budget must find ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The laws of docs/scale.md on budgets: the search finds what others name by hand."""

import json
import os
import resource

import pytest

from test_laws import FAMILIES, PREDICTED, bound, often, slowness

BY_IDS = "h.*.attn.*:*,h.*.mlp.gelu:*,h.*.mlp.up*:*,h.*.ln_*:*"


def every(cut, depth):
    """All but the cut after every so many layers."""
    return ",".join([BY_IDS, *("h.%d.*:*" % i for i in range(depth) if (i + 1) % cut)])


def plan(tools, depth, mesh, *more):
    """The bytes and milliseconds of a training step, with the schedule and the moves
    that are the default: both add to a peak. Of a mesh with replicas, `grad_step` has
    whole gradients, which take more than a step; budgets are for the step."""
    flags = [*PREDICTED, "--mesh", mesh, "-o", os.devnull, "--report-json", "-"]
    program = tools.program(FAMILIES["gpt2"]._replace(layers=depth))
    report = json.loads(tools.run("optimus-compile", program, *flags, *more))
    step = report["schedule"]["train_step"]["predicted_step_ms"]
    return report["memory"]["train_step"]["total"], step


@pytest.mark.rotates
@pytest.mark.parametrize(
    "mesh, strategy",
    often(
        [
            ("row:2,col:2", "summa"),
            ("row:8,col:8", "summa"),
            ("row:32,col:32", "summa"),
            ("row:1,col:8", "megatron"),
            ("data:8,row:4,col:8", "summa"),
        ],
        ("row:2,col:2", "summa"),
    ),
)
def test_a_budget_finds_every_policy_and_cut(tools, mesh, strategy):
    depth = 6
    choices = ["none", "attention", "layer", *(every(cut, depth) for cut in (1, 2, 3))]
    layout = mesh, "--strategy", strategy
    known = [plan(tools, depth, *layout, "--recompute", each) for each in choices]
    for budget in sorted(int(needed * 1.001) for needed, _ in known):
        flags = ["--recompute", "budget", "--memory-budget", budget]
        found, step = plan(tools, depth, *layout, *flags)
        assert found <= budget
        assert step <= min(other for needed, other in known if needed <= budget), budget


@pytest.mark.rotates
@pytest.mark.parametrize(
    "mesh", often([("row:8,col:8",), ("row:32,col:32",)], ("row:8,col:8",))
)
def test_a_budget_is_met_in_time(tools, mesh):
    depth = 24
    choices = ["layer", *(every(cut, depth) for cut in (1, 2, 3))]
    known = [plan(tools, depth, mesh, "--recompute", each) for each in choices]
    budget = int(min(needed for needed, _ in known) * (1 + bound("budget-bytes")))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    flags = ["--recompute", "budget", "--memory-budget", budget]
    found, step = plan(tools, depth, mesh, *flags)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert found <= budget
    assert step <= min(other for needed, other in known if needed <= budget)
    # The processors' time, since other tests may run beside it.
    assert after.ru_utime - before.ru_utime <= bound("budget-time") * slowness()
