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

import json
import re

import numpy as np
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


def seeded(tools, bug):
    """The environment of a GPU with a bug."""
    library = str(tools.binaries.resolve().parent / "lib/libseeded_bugs.so")
    environment = tools.fake_gpu(count=2)
    environment.update(
        OPTIMUS_CUDA_DRIVER_LIBRARY=library,
        OPTIMUS_CUBLASLT_LIBRARY=library,
        OPTIMUS_SEEDED_BUG=bug,
        CUBLASLT_LOG_LEVEL="1",
    )
    return environment


def train(tools, text, mesh, bug, *options):
    flags = [*EMULATED, *FLAGS.get(bug, [])]
    strategy = "data" if mesh == "data:2" else "megatron" if mesh else "serial"
    library = tools.library(GPT2, mesh, strategy, *flags)
    command = tools.train_command(library, text, 2, *options)
    return call(command, env=seeded(tools, bug))


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


#: In generation: what the fake GPU says, or None where it sees no mistake and the
#: logits alone differ from a processor's.
BUGS_OF_GENERATION = {
    "none": None,
    "stale position": None,
    "page freed in flight": None,
    "replay before its input": RACE,
    "append after its reader": RACE,
}
#: Two texts in two pages: the shorter prompt has the first. The other text ends first,
#: and leaves a slot without a token.
PAGED = "slots=2,context=128,chunk=64,pages=2"
TEXTS = [
    {"tokens": [1, 4, 9, 16, 6, 17], "max_tokens": 9},
    {"tokens": [3, 2, 3, 5, 7, 11, 13], "max_tokens": 2},
]


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    file = tmp_path_factory.mktemp("bugs") / "prompts.jsonl"
    file.write_text("".join(json.dumps(text) + "\n" for text in TEXTS))
    return file


def generate(tools, prompts, *flags, env=None):
    """What ended, and the logits of each choice where it came to its end."""
    model = Model(1, 16, 2, sequence=128, vocabulary=19, batch=2, init_std=0.5)
    library = tools.library(model, None, "serial", *flags, functions=None, generate=PAGED)
    logits = prompts.with_name("logits.npy")
    logits.unlink(missing_ok=True)
    flags = ["--tokens", prompts, "--logits", logits]
    ended = call(tools.command("optimus-run", "generate", library, *flags), env=env)
    return ended, np.load(logits) if ended.returncode == 0 else None


@pytest.mark.parametrize("bug", BUGS_OF_GENERATION)
def test_a_seeded_bug_of_generation_is_found(tools, prompts, bug):
    _, expected = generate(tools, prompts)
    ended, logits = generate(tools, prompts, *EMULATED, env=seeded(tools, bug))
    if message := BUGS_OF_GENERATION[bug]:
        assert ended.returncode != 0
        assert re.search(message, ended.stderr), ended.stderr
        return
    succeed(ended)
    # Sums of 128 products differ by far less, what else is seen by far more.
    error = np.abs(logits - expected).max() / np.abs(expected).max()
    assert error < 1e-5 if bug == "none" else error > 1e-3
