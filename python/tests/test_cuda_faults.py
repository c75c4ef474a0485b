# ===- test_cuda_faults.py - A GPU that fails, and the messages ------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Which command a failure of the GPU is put down to.

OPTIMUS_FAKE_GPU_FAULT lets the fake GPU end an operation with an error, by the
number of its turn, and say what it was. LateFailuresTest has the device alone."""

import json
import re

import pytest

from tools import EMULATED, Model, call

GPT2 = Model(layers=1, hidden=16, heads=2, sequence=8, vocabulary=256, batch=2)
RETRY = "run again with CUDA_LAUNCH_BLOCKING=1, which names the command"


def train(tools, text, fault, mesh=None, **more):
    library = tools.library(GPT2, mesh, "megatron" if mesh else "serial", *EMULATED)
    environment = tools.fake_gpu(fault=fault)
    environment.update(more)
    return call(tools.train_command(library, text, 4), env=environment)


@pytest.mark.parametrize(
    "code, name", [(700, "ILLEGAL_ADDRESS"), (719, "LAUNCH_FAILED")], ids=["address", "launch"]
)
@pytest.mark.parametrize("turn, where", [(80, ""), (260, " of a graph")], ids=["first", "recorded"])
def test_a_step_that_fails_tells_its_commands(tools, text, code, name, turn, where):
    result = train(tools, text, f"{code}:{turn}")
    assert result.returncode == 2
    found = re.search(
        rf"rank 0, train_step: cu\w+: CUDA_ERROR_{name} \([\w ]+ on stream \d+{where}, on "
        r"purpose\); the command that met it is one of (\d+), from embedded \(\w+, "
        rf"gpt2\.py:\d+\) to .* optimizer \(\w+, gpt2\.py:\d+\); {RETRY}",
        result.stderr,
    )
    assert found, result.stderr
    library = tools.library(GPT2, None, "serial", *EMULATED)
    inspected = json.loads(tools.run("optimus-run", "inspect", library, "--json"))
    (step,) = (f for f in inspected["functions"] if f["name"] == "train_step")
    assert int(found[1]) == step["commands"]


def test_where_each_command_is_waited_for_it_is_the_one(tools, text):
    kinds = set()
    for turn in range(66, 78, 2):
        result = train(tools, text, f"719:{turn}", CUDA_LAUNCH_BLOCKING="1")
        found = re.search(
            r"rank 0, [\w. ]+ \((\w+), gpt2\.py:\d+\): cuStreamSynchronize: "
            r"CUDA_ERROR_LAUNCH_FAILED \(([\w ]+) on stream \d+, on purpose\)",
            result.stderr,
        )
        assert found, result.stderr
        assert RETRY not in result.stderr
        told, failed = found.groups()
        expected = {"gemm": "a product", "copy": "a copy", "fill": "a memset"}.get(told, told)
        assert failed.startswith(expected), result.stderr
        kinds.add(told)
    assert "gemm" in kinds and len(kinds) > 2


def test_ranks_that_share_a_gpu_fail_together(tools, text):
    result = train(tools, text, "700:200", mesh="row:1,col:2")
    assert result.returncode == 2
    assert re.search(
        r"rank \d, train_step: .*; the command that met it is .*; "
        rf"or another rank's, which shares the GPU; {RETRY}",
        result.stderr,
    ), result.stderr


def test_a_broken_gpu_is_no_fault_of_optimus(tools, text):
    result = train(tools, text, "214:260")
    assert result.returncode == 1
    assert "CUDA_ERROR_ECC_UNCORRECTABLE" in result.stderr
    assert "the GPU is at fault, not the program" in result.stderr
    assert "please report it" not in result.stderr
