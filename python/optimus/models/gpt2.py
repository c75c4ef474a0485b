# ===- gpt2.py - GPT-2 ------------------------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""GPT-2 with Hugging Face's parameter names, shapes and element order."""

import math
from typing import NamedTuple, Optional

from optimus.ir import ZEROS, Init, LossFunction, Value
from optimus.models.checks import (
    check_dropout,
    check_extents,
    check_heads,
    check_positive,
    get_members,
)
from optimus.models.parts import FunctionMaker, Parts, begin, positions_of

KIND = "gpt2"


class Config(NamedTuple):
    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int
    batch: int
    """Sequences in the global batch."""
    ffn: Optional[int] = None
    """Width of the feed-forward part; 4 * hidden if absent."""
    chunk: Optional[int] = None
    """Tokens whose logits exist at one time; 512, or more in a large batch, if absent."""
    init_std: float = 0.02
    dropout: float = 0.0
    """Of the embeddings and of what enters the residual stream."""
    within_documents: bool = False
    """Positions begin anew with each document, and nothing is seen of others."""
    epsilon: float = 1e-5
    """Of the layer norms, as in the published model."""

    @property
    def ffn_width(self) -> int:
        return 4 * self.hidden if self.ffn is None else self.ffn

    def check(self) -> None:
        """Raises ConfigError unless a model can be built."""
        extents = dict(get_members(self), ffn=self.ffn_width)
        for name in ("init_std", "dropout", "within_documents", "epsilon"):
            del extents[name]
        check_extents(extents)
        check_heads(self.hidden, self.heads)
        check_positive({"init_std": self.init_std, "epsilon": self.epsilon})
        check_dropout(self.dropout)


def build(config: Config, make: FunctionMaker = LossFunction) -> LossFunction:
    """The loss of GPT-2 on a batch, or what `make` makes of the same body. Raises
    ConfigError."""
    config.check()
    c = config
    model, tokens, targets = begin(make, KIND, c, ffn=c.ffn_width)
    parts = Parts(model, c, c.epsilon)
    normal = Init.normal(c.init_std)
    wte = model.parameter(
        "wte.weight",
        (c.vocabulary, c.hidden),
        ("vocabulary", "hidden"),
        normal,
    )
    wpe = model.parameter(
        "wpe.weight",
        (c.sequence, c.hidden),
        ("sequence", "hidden"),
        normal,
    )
    positions = positions_of(model, c)
    x = model.embedding("embedded", wte, tokens)
    at = wpe if positions is None else model.embedding("places", wpe, positions)
    x = model.add("embedded_at", x, at)
    x = model.dropout("embedded_dropped", x, c.dropout)
    for layer in range(c.layers):
        with model.scope("h.%d" % layer):
            block = _Block(model, parts, c, positions)
            x = block.feed_forward(block.self_attention(x))
    x = parts.layer_norm("ln_f", x)
    model.head_loss(x, wte, targets, c.chunk)
    return model


class _Block:
    """One transformer layer, in a scope of its own."""

    def __init__(
        self,
        model: LossFunction,
        parts: Parts,
        config: Config,
        positions: Optional[Value],
    ):
        self._model, self._parts, self._config = model, parts, config
        self._positions = positions
        self._normal = Init.normal(config.init_std)
        # GPT-2 initialises the weights into the residual stream smaller, so that its
        # variance does not grow with the 2 * layers terms added to it.
        self._scaled = Init.normal(config.init_std / math.sqrt(2 * config.layers))

    def self_attention(self, x: Value) -> Value:
        y = self._parts.layer_norm("ln_1", x)
        with self._model.scope("attn"):
            return self._attention(y, x)

    def _attention(self, y: Value, residual: Value) -> Value:
        c, model = self._config, self._model
        heads = (c.heads, c.hidden // c.heads)
        # [h, 3, n, d] is byte for byte the published [h, 3h].
        weight = model.parameter(
            "c_attn.weight",
            (c.hidden, 3) + heads,
            ("hidden", "three", "heads", "head_dim"),
            self._normal,
            hf_shape=(c.hidden, 3 * c.hidden),
        )
        bias = model.parameter(
            "c_attn.bias",
            (3,) + heads,
            ("three", "heads", "head_dim"),
            ZEROS,
            hf_shape=(3 * c.hidden,),
        )
        y = model.matmul("qkv_product", y, weight)
        y = model.add("qkv", y, bias)
        y = model.attention("heads", [y], causal=True, positions=self._positions)
        weight = model.parameter(
            "c_proj.weight",
            heads + (c.hidden,),
            ("heads", "head_dim", "hidden"),
            self._scaled,
            hf_shape=(c.hidden, c.hidden),
        )
        bias = self._hidden_vector("c_proj.bias")
        y = model.matmul("out_product", y, weight, contracting=2)
        return self._into_residual("out", y, bias, residual)

    def feed_forward(self, x: Value) -> Value:
        y = self._parts.layer_norm("ln_2", x)
        with self._model.scope("mlp"):
            return self._mlp(y, x)

    def _mlp(self, y: Value, residual: Value) -> Value:
        c, model = self._config, self._model
        weight = model.parameter(
            "c_fc.weight",
            (c.hidden, c.ffn_width),
            ("hidden", "ffn"),
            self._normal,
        )
        bias = model.parameter(
            "c_fc.bias",
            (c.ffn_width,),
            ("ffn",),
            ZEROS,
        )
        y = model.matmul("up_product", y, weight)
        y = model.add("up", y, bias)
        y = model.gelu("gelu", y)
        weight = model.parameter(
            "c_proj.weight",
            (c.ffn_width, c.hidden),
            ("ffn", "hidden"),
            self._scaled,
        )
        bias = self._hidden_vector("c_proj.bias")
        y = model.matmul("down_product", y, weight)
        return self._into_residual("down", y, bias, residual)

    def _hidden_vector(self, name: str) -> Value:
        shape = (self._config.hidden,)
        return self._model.parameter(name, shape, ("hidden",), ZEROS)

    def _into_residual(
        self, name: str, product: Value, bias: Value, residual: Value
    ) -> Value:
        model = self._model
        y = model.add(name, product, bias)
        y = model.dropout("dropped", y, self._config.dropout)
        return model.add("sum", y, residual)
