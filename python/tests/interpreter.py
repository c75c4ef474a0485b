# ===- interpreter.py - Driving optimus-interpret -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Runs programs in the reference interpreter, on arrays."""

import itertools
import shutil
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

import numpy as np
import pytest

from gpt2_reference import Hyper
from tools import Model, Tools
from transformer_reference import Tensors


class Batch(NamedTuple):
    tokens: np.ndarray
    targets: np.ndarray


def draw_batch(model: Model, seed: int = 5) -> Batch:
    """A batch some of whose targets are not real.

    Every other sequence of a model of masked tokens is shorter, its end filled with 0, its padding.
    The others end with a hidden token that padding stands for.
    """
    random = np.random.default_rng(seed)
    shape = (model.batch, model.sequence)
    tokens = random.integers(0, model.vocabulary, shape)
    targets = random.integers(-1, model.vocabulary, shape)
    if model.KIND in ("bert", "gated-encoder"):
        for row in range(0, model.batch, 2):
            end = random.integers(0, model.sequence + 1)
            tokens[row, end:], targets[row, end:] = 0, -1
        tokens[1::2, -1], targets[1::2, -1] = 0, 1
    return Batch(tokens, targets)


def draw_parameters(model: Model, seed: int = 6, spread: float = 0.5) -> Tensors:
    """Parameters large enough that every nonlinearity bends."""
    random = np.random.default_rng(seed)
    shapes = model.parameter_shapes()
    return {name: random.normal(0, spread, shape) for name, shape in shapes}


def scalars(step: int, lr: float, hyper: Hyper = Hyper()) -> Tensors:
    """The scalar arguments of step number `step`, from 1."""
    values = dict(
        hyper._asdict(),
        lr=lr,
        beta1_power=hyper.beta1**step,
        beta2_power=hyper.beta2**step,
    )
    return {name: np.float64(value) for name, value in values.items()}


class Interpreter:
    """The interpreter of one build, and a folder to work in."""

    def __init__(self, tools: Tools, folder: Path):
        if not (tools.binaries / "optimus-interpret").exists():
            pytest.fail("%s lacks optimus-interpret" % tools.binaries)
        self._tools = tools
        self._folder = folder

    def lower(self, model: Model, *passes: str) -> Path:
        """The model's program after some passes."""
        path = self._folder / "lowered.mlir"
        program = self._tools.program(model)
        self._tools.run("optimus-opt", program, *passes, "-o", path)
        return path

    def run(self, program: Path, function: str, arguments: Tensors, *flags) -> Tensors:
        """The results of a function by name, in f64."""
        inputs, outputs = self._folder / "in", self._folder / "out"
        for folder in (inputs, outputs):
            shutil.rmtree(folder, ignore_errors=True)
        inputs.mkdir()
        for name, value in arguments.items():
            array = np.asarray(value)
            if np.issubdtype(array.dtype, np.integer):
                array = array.astype(np.int32)
            np.save(inputs / (name + ".npy"), array)
        options = ["--function", function, "--inputs", inputs, "--outputs", outputs]
        self._tools.run("optimus-interpret", program, *options, *flags)
        return {path.name[: -len(".npy")]: np.load(path) for path in outputs.iterdir()}


class SerialResults:
    """What models mean, each function computed once: the first training step
    and its neighbours, with the optimizer's numbers of `hyper`."""

    PASSES = ("--optimus-differentiate", "--optimus-build-step")

    def __init__(self, tools: Tools, models: Dict[str, Model], hyper: Hyper, folders):
        """`folders.mktemp(name)` makes a folder to work in."""
        self._tools, self._folders = tools, folders
        self._models, self._hyper = models, hyper
        self._known: Dict[Tuple[str, str], Tensors] = {}

    def arguments(self, name: str) -> Tensors:
        model = self._models[name]
        batch = draw_batch(model)._asdict()
        return {**draw_parameters(model), **batch, **scalars(1, 0.01, self._hyper)}

    def __call__(self, name: str, function: str) -> Tensors:
        key = (name, function)
        if key not in self._known:
            interpreter = Interpreter(self._tools, self._folders.mktemp("serial"))
            program = interpreter.lower(self._models[name], *self.PASSES)
            self._known[key] = interpreter.run(program, function, self.arguments(name))
        return self._known[key]


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest element."""
    found = found.reshape(expected.shape)
    scale = np.abs(expected).max()
    return float(np.abs(found - expected).max() / (scale if scale > 0 else 1))


def expect_gradients(
    results: Tensors, loss: float, gradients: Tensors, tolerance: float
) -> None:
    """The results of a grad_step are NumPy's, each gradient within `tolerance` of its
    largest element."""
    assert abs(results["loss_sum"] - loss) <= tolerance * abs(loss), (results["loss_sum"], loss)
    found = strip(results, "grad:")
    assert found.keys() == gradients.keys(), found.keys() ^ gradients.keys()
    errors = {name: relative_error(found[name], gradients[name]) for name in gradients}
    assert all(error < tolerance for error in errors.values()), errors


def expect_step(
    results: Tensors,
    mean_loss: float,
    norm: float,
    state: Dict[str, Tensors],
    tolerance: float,
) -> Tensors:
    """The results of a train_step are NumPy's: the loss, the norm of all gradients, and
    the tensors of each kind, "parameter" and the optimizer's, as in `expect_gradients`.
    Returns the state as arguments of the next step."""
    found = results["loss_sum"] / results["real_count"]
    assert abs(found - mean_loss) <= tolerance * abs(mean_loss), (found, mean_loss)
    assert abs(results["grad_norm"] - norm) <= tolerance * norm, (results["grad_norm"], norm)
    following: Tensors = {}
    for kind, tensors in state.items():
        found = strip(results, kind + ":")
        assert found.keys() == tensors.keys(), found.keys() ^ tensors.keys()
        errors = {name: relative_error(found[name], value) for name, value in tensors.items()}
        assert all(error < tolerance for error in errors.values()), (kind, errors)
        prefix = "" if kind == "parameter" else kind + ":"
        following.update({prefix + name: value for name, value in found.items()})
    return following


def strip(results: Dict[str, np.ndarray], prefix: str) -> Tensors:
    """The results whose names begin with a prefix, without it."""
    return {
        name[len(prefix) :]: value
        for name, value in results.items()
        if name.startswith(prefix)
    }


MESHES: List[str] = [
    "row:%d,col:%d" % shape
    for shape in [(1, 1), (1, 2), (2, 1), (2, 2), (1, 4), (4, 1), (2, 3), (3, 2)]
]
# With replicas, over which the optimizer's state is sharded.
DATA_MESHES: List[str] = ["data:2,row:2,col:2", "data:3,row:1,col:2"]
LAYOUTS: List[Tuple[str, str]] = [
    *itertools.product(
        MESHES + DATA_MESHES, ["summa", "summa-paper", "megatron", "megatron-sp"]
    ),
    ("data:2", "data"),
    ("data:3", "data"),
    ("row:4,col:4", "summa"),
    ("row:4,col:4", "megatron-sp"),
]
