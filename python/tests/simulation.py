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

# Of a machine with a price for everything.
STREAMS = [(16384, 1.5e11), (262144, 6e10), (4194304, 2e10), (67108864, 8e9)]
COMPUTE = {
    "threads": 1,
    "ranks": 1,
    "cores": 4,
    "alpha_s": 2e-6,
    "flops_per_s": 1e11,
    "cold_s_per_byte": 3e-11,
    "points": [
        {"m": 64, "n": 64, "k": 32, "trans_a": True, "seconds": 4e-5},
        {"m": 128, "n": 32, "k": 64, "trans_b": True, "bias": True, "seconds": 3e-5},
        {"m": 32, "n": 64, "k": 64, "gaps": True, "seconds": 9e-5},
    ],
    "kernel_alpha_s": 3e-6,
    "bytes_per_s": 8e9,
    "streams": [{"bytes": size, "bytes_per_s": rate} for size, rate in STREAMS],
    "columns": [{"bytes": size, "bytes_per_s": rate / 3} for size, rate in STREAMS],
    "packs": [{"rows": 32, "cols": 64, "trans": True, "seconds": 2e-6}],
    "vector_ops_per_s": 4e9,
    "divisions_per_s": 4e8,
    "scalar_ops_per_s": 1e8,
    "attention_flops_per_s": 4e10,
    "attention": [{"seq": 16, "head_dim": 8, "causal": True, "seconds": 5e-6}],
}
COMM = [
    {"backend": "local", "ranks": 2, "collective": kind, "alpha_s": 1e-5, "beta_s_per_byte": beta}
    for kind, beta in [("broadcast", 1e-9), ("reduce", 2e-9), ("all_reduce", 3e-9)]
]
MACHINE = {"version": 1, "gemm": [COMPUTE], "comm": COMM}


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
