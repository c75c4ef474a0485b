# ===- test_cuda.py - Libraries for GPUs, on a driver that has none -------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Models compiled for GPUs, run by the device for GPUs.

Its driver and its cuBLASLt are the fake ones of runtime/device/cuda: kernels are
emulated, products are the processor's. A kernel adds in another order than the
processor's does, so results agree as those of two meshes do: gradients within the
bounds that `optimus-run verify` derives from the program, and losses of f32 as in
test_meshes.py.
"""

import numpy as np
import pytest

from tools import (
    EMULATED,
    BertModel,
    Checkpoint,
    LlamaModel,
    Model,
    call,
    losses,
    read_log,
    succeed,
)

SHAPE = dict(layers=2, hidden=16, heads=2, sequence=8, vocabulary=256, batch=4)
MODELS = {
    "gpt2": Model(**SHAPE, dropout=0.1),
    "bert": BertModel(**SHAPE),
    "llama": LlamaModel(**{**SHAPE, "heads": 4}, kv_heads=2, ffn=24),
}
STEPS = 5


def both(tools, name, *flags):
    """A model for the processor and for GPUs."""
    model = MODELS[name]
    return [tools.library(model, None, "serial", *flags, *more) for more in ((), EMULATED)]


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_agree_within_derived_bounds(tools, text, name, precision):
    libraries = both(tools, name, "--precision", precision)
    command = tools.command("optimus-run", "verify", *libraries, "--data", text)
    succeed(call(command, env=tools.fake_gpu()))


@pytest.mark.parametrize("name", MODELS)
def test_trains_as_on_the_processor(tools, text, tmp_path, name):
    logs, saved = [], []
    for library in both(tools, name):
        log, folder = tmp_path / library.name, tmp_path / library.stem
        flags = ["--lr", 3e-3, "--seed", 1, "--save", folder]
        command = tools.train_command(library, text, STEPS, *flags, log=log)
        succeed(call(command, env=tools.fake_gpu()))
        logs.append(read_log(log))
        saved.append(Checkpoint(folder))
    assert losses(logs[0])[-1] < losses(logs[0])[0]
    np.testing.assert_allclose(losses(logs[1]), losses(logs[0]), rtol=1e-4)
    norms = [[line["grad_norm"] for line in log] for log in logs]
    np.testing.assert_allclose(*norms, rtol=1e-2)
    assert saved[0].parameters.keys() == saved[1].parameters.keys()
