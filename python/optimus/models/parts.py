# ===- parts.py - What several models are made of --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What several models are made of. Locations are those of the models' lines."""

import math
from typing import Any, Sequence, Tuple

from optimus.ir import ONES, ZEROS, Init, LossFunction, Value

Dims = Sequence[Tuple[str, int]]
"""Names and extents of dimensions."""

COMMON = ("batch", "sequence", "vocabulary", "layers", "hidden", "heads")


def begin(kind: str, config: Any, **more: Any) -> Tuple[LossFunction, Value, Value]:
    """An empty model, its tokens and its targets. Its attributes are the members
    of a Config that every model has, and `more`."""
    attributes = {name: getattr(config, name) for name in COMMON}
    model = LossFunction({"kind": kind, **attributes, **more})
    shape, dims = (config.batch, config.sequence), ("batch", "sequence")
    tokens = model.input("tokens", shape, dims)
    return model, tokens, model.input("targets", shape, dims)


def layer_norm(
    model: LossFunction, name: str, x: Value, hidden: int, epsilon: float
) -> Value:
    gain = model.parameter(name + ".weight", (hidden,), ("hidden",), ONES)
    bias = model.parameter(name + ".bias", (hidden,), ("hidden",), ZEROS)
    return model.layer_norm(name, x, gain, bias, epsilon)


def rms_norm(
    model: LossFunction, name: str, x: Value, hidden: int, epsilon: float
) -> Value:
    gain = model.parameter(name + ".weight", (hidden,), ("hidden",), ONES)
    return model.rms_norm(name, x, gain, epsilon)


def weight(
    model: LossFunction, name: str, outs: Dims, ins: Dims, init_std: float
) -> Value:
    """`name`.weight [outs…, ins…], published as [out, in]."""
    names, shape = zip(*outs, *ins)
    init = Init.normal(init_std)
    published = (_extent(outs), _extent(ins))
    return model.parameter(name + ".weight", shape, names, init, hf_shape=published)


def linear(
    model: LossFunction, name: str, x: Value, outs: Dims, ins: Dims, init_std: float
) -> Value:
    """x times the transpose of a weight [outs…, ins…]."""
    factor = weight(model, name, outs, ins, init_std)
    return model.matmul(name, x, factor, len(ins), transpose_b=True)


def product_and_bias(
    model: LossFunction, name: str, x: Value, outs: Dims, ins: Dims, init_std: float
) -> Tuple[Value, Value]:
    """x times the transpose of a weight [outs…, ins…]; and the bias [outs…]."""
    factor = weight(model, name, outs, ins, init_std)
    names, shape = zip(*outs)
    published = (_extent(outs),)
    bias = model.parameter(name + ".bias", shape, names, ZEROS, hf_shape=published)
    product = model.matmul(name + "_product", x, factor, len(ins), transpose_b=True)
    return product, bias


def biased_linear(
    model: LossFunction, name: str, x: Value, outs: Dims, ins: Dims, init_std: float
) -> Value:
    """x times the transpose of a weight [outs…, ins…], plus a bias [outs…]."""
    return model.add(name, *product_and_bias(model, name, x, outs, ins, init_std))


def _extent(dims: Dims) -> int:
    return math.prod(extent for _, extent in dims)
