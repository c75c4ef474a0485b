# ===- simulation.py - Driving optimus-simulate --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What the tests of optimus-simulate share."""

import json

from tools import Model

SHAPE = dict(layers=2, hidden=32, heads=4, sequence=16, vocabulary=64, batch=8)
MODEL = Model(**SHAPE)

CLUSTER = {
    "version": 1,
    "nodes": {"devices": 2, "nics": 1},
    "device_link": {"bytes_per_s": 4e9, "latency_s": 1e-5},
    "nic": {"bytes_per_s": 4e9, "latency_s": 1e-5},
}


def compile_model(tools, model, folder, *flags):
    """A library, and what the compiler predicted of its functions."""
    report = tools.run(
        *("optimus-compile", tools.program(model), *flags),
        *("-o", folder / "model.so", "--report-json", "-"),
    )
    return folder / "model.so", json.loads(report)["schedule"]


def refuse(tools, *command):
    """The message of a tool that must fail for its input."""
    result = tools.call(*command)
    assert result.returncode == 1 and not result.stdout, result.stdout
    return result.stderr


def simulate(tools, library, *flags):
    return json.loads(tools.run("optimus-simulate", library, *flags, "--json", "-"))
