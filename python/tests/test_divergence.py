# ===- test_divergence.py - Where numbers cease to be finite ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Where a loss is not finite, the step is taken again from a checkpoint: the message has
the path of the first command with such a result."""

import os
import re

import numpy as np
import pytest

import safetensors_file
from tools import EMULATED, Model, call, succeed

# With it no weight is infinite, and sums of 48 products are.
FACTOR = 3e39
MODEL = Model(layers=2, hidden=48, heads=6, sequence=32, vocabulary=256, batch=4)


@pytest.fixture(scope="module")
def weights(tools, text, tmp_path_factory):
    """Of a model, with one tensor times a factor."""
    folder = tmp_path_factory.mktemp("weights")
    initial = tools.initial(tools.library(MODEL), text, folder / "initial")

    def spoilt(name):
        tensors = dict(initial.parameters)
        tensors[name] = (tensors[name].astype(np.float64) * FACTOR).astype(np.float32)
        assert np.isfinite(tensors[name]).all()
        place = folder / name
        place.mkdir(exist_ok=True)
        listed = [(key, "F32", values) for key, values in tensors.items()]
        safetensors_file.write(place / "model.safetensors", listed)
        return place

    return spoilt


def message(tools, library, text, *flags, steps=3, **environment):
    result = call(tools.train_command(library, text, steps, *flags), **environment)
    assert result.returncode == 1, result.stderr
    assert "training diverged: at step" in result.stderr
    return result.stderr


PLACE = re.compile(
    r"taken again from step (\d+), the first result not finite is that of (.+?) "
    r"(\(.*\) in @\S+, on rank \d, in step \d+);"
)


def path_found(tools, text, library, weights, **environment):
    said = message(tools, library, text, "--load-weights", weights, **environment)
    found = PLACE.search(said)
    assert found and found[1] == "0" and found[3].endswith(", in step 1"), said
    return found[2]


@pytest.mark.parametrize(
    "name, path",
    [
        ("h.1.mlp.c_fc.weight", "h.1.mlp.up"),
        ("h.0.attn.c_attn.weight", "h.0.attn.qkv"),
    ],
)
@pytest.mark.parametrize("mesh, strategy", [(None, "serial"), ("row:2,col:2", "summa")])
def test_the_first_command_is_named(tools, text, weights, name, path, mesh, strategy):
    library = tools.library(MODEL, mesh, strategy)
    # On a mesh the bias is added apart.
    found = path_found(tools, text, library, weights(name))
    assert found in (path, path + "_product")


@pytest.mark.variants
@pytest.mark.parametrize("mesh, strategy", [(None, "serial"), ("row:2,col:2", "summa")])
def test_on_a_gpu(tools, text, weights, mesh, strategy):
    """The host does not reach its memory, and it does things late."""
    library = tools.library(MODEL, mesh, strategy, *EMULATED)
    gpu = tools.fake_gpu(count=4, seed=3)
    # Parts are gathered there: the product adds the bias on a mesh, too.
    assert path_found(tools, text, library, weights("h.1.mlp.c_fc.weight"), env=gpu) == "h.1.mlp.up"


def test_on_queues_that_run_late(tools, text, weights):
    device = tools.binaries.parent / "lib" / "liboptimus_device_hidden.so"
    late = dict(os.environ, OPTIMUS_DEVICE_CPU_LIBRARY=str(device), OPTIMUS_HIDDEN_SEED="3")
    begin = weights("h.0.attn.c_attn.weight")
    assert path_found(tools, text, tools.library(MODEL), begin, env=late) == "h.0.attn.qkv"


def test_from_the_last_checkpoint(tools, text, tmp_path):
    """A rate that no model survives, from the second step on: its update is found, or
    what follows from it in the third step."""
    library, save = tools.library(MODEL), ["--save", tmp_path / "saved"]
    succeed(call(tools.train_command(library, text, 9, *save, "--until", 1)))
    lethal = [*save, "--resume", "--lr", 1e38, "--clip", 1e30, "--beta1", 0.999999]
    said = message(tools, library, text, *lethal, steps=9)
    found = PLACE.search(said)
    assert found, said
    assert found[1] == "1" and re.search(", in step [23]$", found[3])
    assert "go on from step 1 with the same command" in said
    # It changes nothing, and is the same again.
    assert message(tools, library, text, *lethal, steps=9) == said
