# ===- test_cuda_bugs.py - Bugs of host code, seeded into the device --------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Whether training on the fake GPU finds a device's bugs.

libseeded_bugs.so (runtime/device/cuda/fake/SeededBugs.cpp) stands between the
device and the fake driver and makes it have one. Each run must end with the name
of the bug and with the command, or the two operations, that it shows at.
HostBugsTest and CollectiveOrderTest have the two that a run does not come to."""

import re

import pytest

from tools import EMULATED, Model, call, succeed

GPT2 = Model(layers=1, hidden=16, heads=2, sequence=8, vocabulary=256, batch=2)
#: "h.0.mlp.c_fc (gemm, gpt2.py:151)", of a rank.
COMMAND = r"rank \d, [\w.]+ \(\w+, [\w.]+\.py:\d+\): .*"
RACE = (
    r"(\w[\w ]*) on stream \d+ (reads|writes) \d+ bytes that (\w[\w ]*) on stream \d+ "
    r"(reads|writes), and nothing orders the two: an event is missing"
)
#: The output, and the mesh for the bug to show.
BUGS = {
    "missing event": (RACE, "row:1,col:2"),
    "missing event between ranks": (RACE, "row:1,col:2"),
    "wrong stream": (RACE, "row:1,col:2"),
    "host access": (
        r"host code touches the device's memory; the last that was put on a stream is \w+",
        None,
    ),
    "allocation in capture": (
        COMMAND + r"CAPTURE_UNSUPPORTED \(memory is allocated while a stream is captured\)",
        None,
    ),
    "wrong epilogue": (COMMAND + "cublasLtMatmulAlgoGetHeuristic", None),
    "misaligned workspace": (COMMAND + "cublasLtMatmul", None),
    "any reduction": (COMMAND + "cublasLtMatmulAlgoGetHeuristic", None),
}
#: What the program must have for it to show.
FLAGS = {"host access": ["--offload", "state", "--offload-to", "host"]}
#: What cuBLASLt logs besides.
LOGGED = {
    "wrong epilogue": "a bias is given, and the epilogue adds none",
    "misaligned workspace": "a workspace that is not aligned to 256",
    "any reduction": "parts of a sum may be added to the result, or rounded",
}


def train(tools, text, mesh, bug):
    flags = [*EMULATED, *FLAGS.get(bug, [])]
    library = tools.library(GPT2, mesh, "megatron" if mesh else "serial", *flags)
    seeded = str(tools.binaries.resolve().parent / "lib/libseeded_bugs.so")
    environment = tools.fake_gpu()
    environment.update(
        OPTIMUS_CUDA_DRIVER_LIBRARY=seeded,
        OPTIMUS_CUBLASLT_LIBRARY=seeded,
        OPTIMUS_SEEDED_BUG=bug,
        CUBLASLT_LOG_LEVEL="1",
    )
    return call(tools.train_command(library, text, 2), env=environment)


@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_is_found(tools, text, bug):
    message, mesh = BUGS[bug]
    result = train(tools, text, mesh, bug)
    assert result.returncode != 0
    assert re.search(message, result.stderr), result.stderr
    assert LOGGED.get(bug, "") in result.stderr


@pytest.mark.parametrize("mesh", [None, "row:1,col:2"])
def test_without_a_bug_nothing_is_found(tools, text, mesh):
    succeed(train(tools, text, mesh, "none"))
