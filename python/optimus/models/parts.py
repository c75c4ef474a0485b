# ===- parts.py - What several models are made of --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What several models are made of. Locations are those of the models' lines."""

import math
from typing import Any, Callable, Dict, Iterable, Optional, Sequence, Tuple

from optimus.attributes import Attribute
from optimus.ir import ONES, ZEROS, Init, LossFunction, Value
from optimus.models import published

Dims = Sequence[Tuple[str, int]]
"""Names and extents of dimensions."""

COMMON = ("batch", "sequence", "vocabulary", "layers", "hidden", "heads")


FunctionMaker = Callable[[Dict[str, Attribute]], LossFunction]
"""Makes an empty function from the attributes of its model."""


def begin(
    make: FunctionMaker, kind: str, config: Any, **more: Any
) -> Tuple[LossFunction, Value, Value]:
    """An empty model, its tokens and its targets, which not every function has. Its
    attributes are the members of a Config that every model has, `more`, and its
    config.json."""
    attributes = {name: getattr(config, name) for name in COMMON}
    if fields := published.config_of(kind, config):
        more["config"] = published.text_of(fields)
    model = make({"kind": kind, **attributes, **more})
    shape, dims = (config.batch, config.sequence), ("batch", "sequence")
    tokens = model.input("tokens", shape, dims)
    return model, tokens, model.input("targets", shape, dims)


def positions_of(model: LossFunction, config: Any) -> Optional[Value]:
    """Where tokens stand, if not in the order of their sequence."""
    shape, dims = (config.batch, config.sequence), ("batch", "sequence")
    return model.positions(shape, dims, config.within_documents)


class Parts:
    """Norms and linears of one model: all norms have `epsilon`, and all weights the
    config's deviation."""

    def __init__(self, model: LossFunction, config: Any, epsilon: float):
        self._model, self._hidden, self._epsilon = model, config.hidden, epsilon
        self._init = Init.normal(config.init_std)

    def _vector(
        self, name: str, init: Init, of: Optional[Tuple[str, int]] = None
    ) -> Value:
        """Of the residual stream's dimension, or another one."""
        dim, extent = of or ("hidden", self._hidden)
        return self._model.parameter(name, (extent,), (dim,), init)

    def layer_norm(self, name: str, x: Value) -> Value:
        gain = self._vector(name + ".weight", ONES)
        bias = self._vector(name + ".bias", ZEROS)
        return self._model.layer_norm(name, x, gain, bias, self._epsilon)

    def rms_norm(
        self, name: str, x: Value, of: Optional[Tuple[str, int]] = None
    ) -> Value:
        gain = self._vector(name + ".weight", ONES, of)
        return self._model.rms_norm(name, x, gain, self._epsilon)

    def weight(self, name: str, outs: Dims, ins: Dims) -> Value:
        """`name`.weight [outs…, ins…], published as [out, in]."""
        names, shape = zip(*outs, *ins)
        published = (_extent(outs), _extent(ins))
        return self._model.parameter(
            name + ".weight", shape, names, self._init, hf_shape=published
        )

    def linear(self, name: str, x: Value, outs: Dims, ins: Dims) -> Value:
        """x times the transpose of a weight [outs…, ins…]."""
        factor = self.weight(name, outs, ins)
        return self._model.matmul(name, x, factor, len(ins), transpose_b=True)

    def product_and_bias(
        self, name: str, x: Value, outs: Dims, ins: Dims
    ) -> Tuple[Value, Value]:
        """x times the transpose of a weight [outs…, ins…]; and the bias [outs…]."""
        factor = self.weight(name, outs, ins)
        names, shape = zip(*outs)
        published = (_extent(outs),)
        bias = self._model.parameter(
            name + ".bias", shape, names, ZEROS, hf_shape=published
        )
        product = self._model.matmul(
            name + "_product", x, factor, len(ins), transpose_b=True
        )
        return product, bias

    def biased_linear(self, name: str, x: Value, outs: Dims, ins: Dims) -> Value:
        """x times the transpose of a weight [outs…, ins…], plus a bias [outs…]."""
        return self._model.add(name, *self.product_and_bias(name, x, outs, ins))


def rotary_attention(
    model: LossFunction, config: Any, qkv: Iterable[Value], positions: Optional[Value]
) -> Value:
    """Of queries, keys and values with a part of their channels rotated."""
    q, k, v = qkv
    q, k = (
        model.rotary(
            name, x, config.rope_theta, channels=config.rotated, positions=positions
        )
        for name, x in (("q_rotated", q), ("k_rotated", k))
    )
    return model.attention("heads", [q, k, v], causal=True, positions=positions)


def add_parts(
    model: LossFunction,
    x: Value,
    attended: Tuple[Value, Optional[Value]],
    fed: Tuple[Value, Value],
) -> Value:
    """A layer whose attention and feed-forward part read the same: the sum of their
    products and biases, and of what came in. The products are added first, so that one
    reduction serves both if they are partial sums."""
    y = model.add("parts", attended[0], fed[0])
    if attended[1] is not None:
        y = model.add("attention_biased", y, attended[1])
    return model.add("sum", model.add("biased", y, fed[1]), x)


def _extent(dims: Dims) -> int:
    return math.prod(extent for _, extent in dims)
