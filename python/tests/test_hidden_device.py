# ===- test_hidden_device.py - Memory of another kind, queues that run late ===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Models on a device with memory hidden from host code and with queues that take turns
at random: as on the processor, to the last bit.

A result left to luck by a library or the runtime, by a missing edge or by the host's
following of a pointer, shows here (runtime/device/hidden)."""

import json
import os

import pytest

from tools import BertModel, Checkpoint, LlamaModel, Model, call, read_log, succeed

SHAPE = dict(layers=2, hidden=16, heads=2, sequence=8, vocabulary=256, batch=4)
GPT2 = Model(**SHAPE, dropout=0.1)
BERT = BertModel(**SHAPE)
LLAMA = LlamaModel(**SHAPE, kv_heads=2, ffn=24)
CASES = {
    "gpt2-2x2": (GPT2, "row:2,col:2", "summa"),
    "bert-2x2": (BERT, "row:2,col:2", "megatron-sp"),
    "llama-2x2": (LLAMA, "row:2,col:2", "summa-paper"),
    "gpt2-serial": (GPT2, None, "serial"),
    "llama-data": (LLAMA, "data:2,row:1,col:2", "summa"),
}
SEEDS = [1, 2, 3]


@pytest.fixture(scope="module")
def few(text, tmp_path_factory):
    """A few batches of text."""
    path = tmp_path_factory.mktemp("few") / "text.txt"
    path.write_bytes(text.read_bytes()[:130])
    return path


def hide(tools, seed) -> dict:
    """An environment in which the processor's device is the hidden one."""
    device = tools.binaries.parent / "lib" / "liboptimus_device_hidden.so"
    return dict(
        os.environ, OPTIMUS_DEVICE_CPU_LIBRARY=str(device), OPTIMUS_HIDDEN_SEED=str(seed)
    )


def use(tools, library, text, folder, environment):
    """What a run prints, saves and is evaluated to."""
    folder.mkdir()
    log, saved = folder / "log", folder / "checkpoint"
    flags = ["--seed", 1, "--lr", 1e-3, "--save", saved]
    command = tools.train_command(library, text, 3, *flags, log=log)
    succeed(call(command, env=environment))
    flags = ["--data", text, "--load", saved, "--json"]
    command = tools.command("optimus-run", "eval", library, *flags)
    evaluated = json.loads(succeed(call(command, env=environment)))
    numbers = [(line["loss"], line["grad_norm"]) for line in read_log(log)]
    return numbers, evaluated["loss"], Checkpoint(saved)


@pytest.mark.rotates
@pytest.mark.parametrize("case", CASES)
def test_bits_are_those_of_the_processor(tools, few, tmp_path, case):
    library = tools.library(*CASES[case])
    plain = use(tools, library, few, tmp_path / "plain", dict(os.environ))
    assert len(plain[0]) == 3 and plain[0][0] != plain[0][2]
    for seed in SEEDS:
        hidden = use(tools, library, few, tmp_path / str(seed), hide(tools, seed))
        assert hidden[:2] == plain[:2], seed
        for kind in ("parameters", "moments"):
            expected = getattr(plain[2], kind)
            found = getattr(hidden[2], kind)
            assert expected.keys() == found.keys()
            for name, values in expected.items():
                assert (values == found[name]).all(), (seed, name)


def test_the_device_is_the_hidden_one(tools, few):
    library = tools.library(*CASES["gpt2-serial"])
    command = tools.train_command(library, few, 1)
    result = call(command, env=hide(tools, "some"))
    assert result.returncode == 1
    assert "OPTIMUS_HIDDEN_SEED: expected a number, found 'some'" in result.stderr
