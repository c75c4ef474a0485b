# ===- parts.py - What several models are made of --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What several models are made of. Locations are those of the models' lines."""

import math
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

from optimus.attributes import Attribute
from optimus.ir import ONES, ZEROS, Init, LossFunction, Packed, Value
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


class Product(NamedTuple):
    value: Value
    bias: Optional[Value]
    """What is still to be added, if there is any."""


class Third(NamedTuple):
    """Where a checkpoint has queries (part 0), keys (1) or values (2): in a tensor of all
    three, [heads, 3, head_dim, …] if `of_heads` and else [3, heads, head_dim, …]."""

    name: str
    part: int
    of_heads: bool

    def place(self, suffix: str, outs: Dims, ins: Dims = ()) -> Packed:
        shape = (3 * _extent(outs), *([_extent(ins)] if ins else []))
        width = _extent(outs[-1:] if self.of_heads else outs) * _extent(ins)
        return Packed(self.name + suffix, shape, row=3 * width, begin=self.part * width)


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

    def weight(
        self, name: str, outs: Dims, ins: Dims, packed: Optional[Third] = None
    ) -> Value:
        """`name`.weight [outs…, ins…], published as [out, in], or packed."""
        names, shape = zip(*outs, *ins)
        published = (_extent(outs), _extent(ins))
        return self._model.parameter(
            name + ".weight",
            shape,
            names,
            self._init,
            hf_shape=published,
            packed=packed and packed.place(".weight", outs, ins),
        )

    def linear(self, name: str, x: Value, outs: Dims, ins: Dims) -> Value:
        """x times the transpose of a weight [outs…, ins…]."""
        return self.product(name, x, outs, ins, bias=False).value

    def biased_linear(self, name: str, x: Value, outs: Dims, ins: Dims) -> Value:
        """x times the transpose of a weight [outs…, ins…], plus a bias [outs…]."""
        return self._model.add(name, *self.product(name, x, outs, ins, bias=True))

    def product(
        self,
        name: str,
        x: Value,
        outs: Dims,
        ins: Dims,
        bias: bool,
        packed: Optional[Third] = None,
    ) -> Product:
        """x times the transpose of a weight [outs…, ins…]; and a bias [outs…], if asked
        for."""
        model = self._model
        factor = self.weight(name, outs, ins, packed)
        added, result = None, name
        if bias:
            names, shape = zip(*outs)
            added = model.parameter(
                name + ".bias",
                shape,
                names,
                ZEROS,
                hf_shape=(_extent(outs),),
                packed=packed and packed.place(".bias", outs),
            )
        if bias or packed:
            result += "_product"
        y = model.matmul(result, x, factor, len(ins), transpose_b=True)
        return Product(y, added)


def _extent(dims: Dims) -> int:
    return math.prod(extent for _, extent in dims)
