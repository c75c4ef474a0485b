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
    "lazy loading": (
        r"\w+ is loaded at its first use, behind \w+ on stream \d+, which waits for "
        "other ranks: load it before",
        "data:2",
    ),
}
#: What the program must have for it to show.
FLAGS = {"host access": ["--offload", "state", "--offload-to", "host"]}
#: How it is run.
NCCL = ["--backend", "nccl", "--timeout", 60]
OPTIONS = {"lazy loading": NCCL}
#: What cuBLASLt logs besides.
LOGGED = {
    "wrong epilogue": "a bias is given, and the epilogue adds none",
    "misaligned workspace": "a workspace that is not aligned to 256",
    "any reduction": "parts of a sum may be added to the result, or rounded",
}


def train(tools, text, mesh, bug, *options):
    flags = [*EMULATED, *FLAGS.get(bug, [])]
    strategy = "data" if mesh == "data:2" else "megatron" if mesh else "serial"
    library = tools.library(GPT2, mesh, strategy, *flags)
    seeded = str(tools.binaries.resolve().parent / "lib/libseeded_bugs.so")
    environment = tools.fake_gpu(count=2)
    environment.update(
        OPTIMUS_CUDA_DRIVER_LIBRARY=seeded,
        OPTIMUS_CUBLASLT_LIBRARY=seeded,
        OPTIMUS_SEEDED_BUG=bug,
        CUBLASLT_LOG_LEVEL="1",
    )
    return call(tools.train_command(library, text, 2, *options), env=environment)


@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_is_found(tools, text, bug):
    message, mesh = BUGS[bug]
    result = train(tools, text, mesh, bug, *OPTIONS.get(bug, []))
    assert result.returncode != 0
    assert re.search(message, result.stderr), result.stderr
    assert LOGGED.get(bug, "") in result.stderr


@pytest.mark.parametrize(
    "mesh, options", [(None, []), ("row:1,col:2", []), ("data:2", NCCL)], ids=str
)
def test_without_a_bug_nothing_is_found(tools, text, mesh, options):
    succeed(train(tools, text, mesh, "none", *options))
