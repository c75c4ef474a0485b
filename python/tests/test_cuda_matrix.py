# ===- test_cuda_matrix.py - Everything that meets on a GPU, by pairs ------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Models trained on the fake GPU and on the processor, where every two values of
these parameters meet at least once; with `--long`, all combinations.

The processor trains the serial program, the GPU the one of the case, and both end
with a checkpoint. AdamW's first moments are averages of gradients, so those of
both lie as far apart as gradients may, which `optimus-run verify` derives from
the program for every tensor. The second moments are averages of squares, twice
as far.
"""

import itertools
import json
from typing import NamedTuple

import numpy as np
import pytest
from allpairspy import AllPairs

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

pytestmark = pytest.mark.rotates

SHAPE = dict(layers=1, sequence=4, vocabulary=16, batch=2)
# Heads of 16 channels are attended to in tiles, others row by row.
FAMILIES = {
    "gpt2": Model(hidden=32, heads=2, ffn=32, **SHAPE),
    "bert": BertModel(hidden=12, heads=4, ffn=20, **SHAPE),
    "llama": LlamaModel(hidden=16, heads=4, kv_heads=2, ffn=24, **SHAPE),
}
MESHES = {
    "serial": (None, "serial"),
    "2x2": ("row:2,col:2", "summa"),
    "2x3": ("row:2,col:3", "summa"),
    "1x4": ("row:1,col:4", "megatron"),
    "data:2": ("data:2", "data"),
}
STEPS = 3


class Case(NamedTuple):
    # In this order the fewest cases have all pairs.
    mesh: str
    family: str
    dropout: float
    precision: str
    begins_on: str
    """What takes the first step and hands over its checkpoint; on "one device"
    the GPU takes all of them."""
    captured: bool
    microbatches: int


VALUES = Case(
    list(MESHES),
    list(FAMILIES),
    [0.0, 0.2],
    ["f32", "bf16"],
    ["one device", "cpu", "cuda"],
    [False, True],
    [1, 2],
)


def exists(values):
    """Of the first values of a case, too: there is no dropout in Llama."""
    case = dict(zip(Case._fields, values))
    return not (case.get("family") == "llama" and case.get("dropout"))


ALL = [Case(*values) for values in itertools.product(*VALUES) if exists(values)]
PAIRWISE = [Case(*values) for values in AllPairs(VALUES, filter_func=exists)]


def pairs(cases):
    return {
        pair for case in cases for pair in itertools.combinations(enumerate(case), 2)
    }


def test_every_pair_meets():
    assert pairs(PAIRWISE) == pairs(ALL)
    # As many as there are pairs of a mesh and a family.
    assert len(PAIRWISE) == len(MESHES) * len(FAMILIES)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    path = tmp_path_factory.mktemp("matrix") / "tokens.bin"
    # Some are more frequent: there is something to learn.
    drawn = np.random.default_rng(11).geometric(0.2, 2000) % SHAPE["vocabulary"]
    path.write_bytes(drawn.astype("<u2").tobytes())
    return path


def libraries(tools, case):
    """For the processor and for the GPU."""
    model = FAMILIES[case.family]
    if case.dropout:
        model = model._replace(dropout=case.dropout)
    flags = ["--precision", case.precision]
    flags += ["--accumulate"] if case.microbatches > 1 else []
    serial = tools.library(model, None, "serial", *flags)
    # Our kernels: cuDNN's attention has test_cudnn.py.
    flags += ["--attention", "builtin"]
    return serial, tools.library(model, *MESHES[case.mesh], *flags, *EMULATED)


def bounds(tools, session, tokens, cpu, cuda):
    """How far the loss and each gradient may lie apart, relative to their norms.
    Fails where those of the first batch are farther apart."""

    def verify(path):
        command = tools.command("optimus-run", "verify", cpu, cuda, "--data", tokens, "--json")
        path.write_text(succeed(call(command, env=tools.fake_gpu())))

    report = session.once("bounds-" + cuda.stem + ".json", verify)
    tensors = json.loads(report.read_text())["tensors"]
    return {tensor["name"]: tensor["bound"] for tensor in tensors}


class Run:
    """A training run whose parts take turns: a library, and the step it ends with."""

    def __init__(self, tools, tokens, case, folder, parts):
        self.log, self.graph_launches, self.end = [], 0, None
        for number, (library, last) in enumerate(parts):
            part = folder / str(number)
            part.mkdir(parents=True)
            flags = ["--lr", 3e-3, "--seed", 1, "--microbatches", case.microbatches]
            flags += ["--save", part / "end"]
            if self.end:
                flags += ["--load", self.end.folder]
            if not case.captured:
                # What a profile looks at is put on queues command by command.
                flags += ["--profile", part / "profile"]
            command = tools.train_command(library, tokens, last, *flags, log=part / "log")
            succeed(call(command, env=tools.fake_gpu(counts=part / "counts")))
            self.log += read_log(part / "log")
            self.end = Checkpoint(part / "end")
            if (part / "counts").exists():
                counts = json.loads((part / "counts").read_text())
                self.graph_launches += counts["graph_launches"]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id="-".join(map(str, case)),
            marks=[] if case in PAIRWISE else [pytest.mark.long],
        )
        for case in ALL
    ],
)
def test_trains_as_on_the_processor(tools, session, tokens, tmp_path, case):
    cpu, cuda = libraries(tools, case)
    bound = bounds(tools, session, tokens, cpu, cuda)
    # A function's second call is recorded: the GPU takes two steps at least.
    parts = {
        "one device": [(cuda, STEPS)],
        "cpu": [(cpu, 1), (cuda, STEPS)],
        "cuda": [(cuda, STEPS - 1), (cpu, STEPS)],
    }[case.begins_on]
    expected = Run(tools, tokens, case, tmp_path / "cpu", [(cpu, STEPS)])
    found = Run(tools, tokens, case, tmp_path / "cuda", parts)

    np.testing.assert_allclose(losses(found.log), losses(expected.log), rtol=bound["loss"])
    assert len(found.log) == STEPS
    moments = expected.end.moments
    assert found.end.moments.keys() == moments.keys()
    for key, values in moments.items():
        kind, name = key.split(".", 1)
        of_gradients = {"exp_avg": 1, "exp_avg_sq": 2}[kind]
        difference = np.linalg.norm(found.end.moments[key] - values)
        assert difference <= of_gradients * bound[name] * np.linalg.norm(values), key
    assert found.end.parameters.keys() == expected.end.parameters.keys()

    if not case.captured:
        assert found.graph_launches == 0
    elif case.mesh == "serial":
        assert found.graph_launches > 0


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_panels_of_slices_are_packed_and_unpacked(tools, session, tokens, tmp_path, precision):
    """On six GPUs a panel has a slice of two or three blocks of every part."""
    model, flags = FAMILIES["bert"], ["--precision", precision]
    serial = tools.library(model, None, "serial", *flags)
    flags += ["--attention", "builtin", "--panels", 2, *EMULATED]
    placed = tmp_path / "placed.mlir"
    program = tools.program(model)
    layout = ["--mesh", "row:2,col:3", "--compile-to", "place", "-o", placed]
    tools.run("optimus-compile", program, *flags, *layout)
    for name in "packed part", "packed source", "packed result":
        assert f'"{name}"' in placed.read_text()
    cuda = tools.library(model, "row:2,col:3", "summa", *flags)
    assert bounds(tools, session, tokens, serial, cuda)
