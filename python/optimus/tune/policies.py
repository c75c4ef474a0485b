# ===- policies.py - How far each trial goes -------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The policy of a specification: each trial once and whole, or rungs."""

from typing import Any, Dict

from optimus.tune import dehb, rungs, spaces
from optimus.tune.search import Plain
from optimus.tune.spec import Spec

POLICIES: Dict[str, Any] = {
    "asha": rungs.Asha,
    "hyperband": rungs.Brackets,
    "dehb": dehb.Dehb,
}


def make_policy(spec: Spec):
    if not spec.study.rungs:
        return Plain(spec.study.trials)
    # One number, as `spec.py` checks.
    steps = next(leaf for leaf in spaces.names(spec.space) if leaf.name == "train.steps")
    return POLICIES[spec.study.rungs.method](spec, steps.domain.value)
