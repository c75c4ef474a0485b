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

from optimus.ir import ONES, ZEROS, Init, LossFunction, Value
from optimus.models.checks import (
    check_dropout,
    check_extents,
    check_heads,
    check_positive,
)

KIND = "gpt2"
EPSILON = 1e-5
"""Of the layer norms, as in the published model."""


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
    chunk: int = 512
    """Tokens whose logits exist at one time."""
    init_std: float = 0.02
    dropout: float = 0.0
    """Of the embeddings and of what enters the residual stream."""

    @property
    def ffn_width(self) -> int:
        return 4 * self.hidden if self.ffn is None else self.ffn

    def check(self) -> None:
        """Raises ConfigError unless a model can be built."""
        extents = dict(self._asdict(), ffn=self.ffn_width)
        for name in ("init_std", "dropout"):
            del extents[name]
        check_extents(extents)
        check_heads(self.hidden, self.heads)
        check_positive({"init_std": self.init_std})
        check_dropout(self.dropout)


def build(config: Config) -> LossFunction:
    """The loss of GPT-2 on a batch. Raises ConfigError."""
    config.check()
    c = config
    model = LossFunction(
        {
            "kind": KIND,
            "batch": c.batch,
            "sequence": c.sequence,
            "vocabulary": c.vocabulary,
            "layers": c.layers,
            "hidden": c.hidden,
            "heads": c.heads,
            "ffn": c.ffn_width,
        }
    )
    normal = Init.normal(c.init_std)
    wte = model.parameter(
        "wte.weight",
        (c.vocabulary, c.hidden),
        ("vocabulary", "hidden"),
        "token_embedding",
        normal,
    )
    wpe = model.parameter(
        "wpe.weight",
        (c.sequence, c.hidden),
        ("sequence", "hidden"),
        "position_embedding",
        normal,
    )
    # Inputs are written after all parameters, whenever they are declared.
    tokens = model.input("tokens", (c.batch, c.sequence), ("batch", "sequence"))
    targets = model.input("targets", (c.batch, c.sequence), ("batch", "sequence"))

    x = model.embedding("embedded", "residual", wte, tokens)
    x = model.add("embedded_at", "residual", x, wpe)
    x = model.dropout("embedded_dropped", "residual", x, c.dropout)
    for layer in range(c.layers):
        block = _Block(model, c, layer)
        x = block.feed_forward(block.self_attention(x))
    x = _norm(model, c, "ln_f", x)
    model.head_loss(x, wte, targets, c.chunk)
    return model


def _norm(model: LossFunction, c: Config, name: str, x: Value) -> Value:
    def vector(part: str, role: str, init: Init) -> Value:
        return model.parameter(name + part, (c.hidden,), ("hidden",), role, init)

    gain = vector(".weight", "norm.gain", ONES)
    bias = vector(".bias", "norm.bias", ZEROS)
    return model.layer_norm(name, "residual", x, gain, bias, EPSILON)


class _Block:
    """One transformer layer."""

    def __init__(self, model: LossFunction, config: Config, layer: int):
        self._model = model
        self._config = config
        self._prefix = "h.%d." % layer
        self._normal = Init.normal(config.init_std)
        # GPT-2 starts what feeds the residual stream smaller, so that its
        # variance does not grow with the 2 * layers terms added to it.
        self._scaled = Init.normal(config.init_std / math.sqrt(2 * config.layers))

    def self_attention(self, x: Value) -> Value:
        c, model = self._config, self._model
        heads = (c.heads, c.hidden // c.heads)
        y = _norm(model, c, self._prefix + "ln_1", x)
        # [h, 3, n, d] is byte for byte the published [h, 3h].
        weight = model.parameter(
            self._prefix + "attn.c_attn.weight",
            (c.hidden, 3) + heads,
            ("hidden", "three", "heads", "head_dim"),
            "qkv.weight",
            self._normal,
            hf_shape=(c.hidden, 3 * c.hidden),
        )
        bias = model.parameter(
            self._prefix + "attn.c_attn.bias",
            (3,) + heads,
            ("three", "heads", "head_dim"),
            "qkv.bias",
            ZEROS,
            hf_shape=(3 * c.hidden,),
        )
        y = model.matmul(self._prefix + "qkv_product", "qkv", y, weight)
        y = model.add(self._prefix + "qkv", "qkv", y, bias)
        y = model.attention(self._prefix + "heads", "heads", [y], causal=True)
        weight = model.parameter(
            self._prefix + "attn.c_proj.weight",
            heads + (c.hidden,),
            ("heads", "head_dim", "hidden"),
            "attn_out.weight",
            self._scaled,
            hf_shape=(c.hidden, c.hidden),
        )
        bias = self._hidden_vector("attn.c_proj.bias", "attn_out.bias")
        return self._into_residual("attn", y, weight, bias, x, contracting=2)

    def feed_forward(self, x: Value) -> Value:
        c, model = self._config, self._model
        y = _norm(model, c, self._prefix + "ln_2", x)
        weight = model.parameter(
            self._prefix + "mlp.c_fc.weight",
            (c.hidden, c.ffn_width),
            ("hidden", "ffn"),
            "mlp_up.weight",
            self._normal,
        )
        bias = model.parameter(
            self._prefix + "mlp.c_fc.bias",
            (c.ffn_width,),
            ("ffn",),
            "mlp_up.bias",
            ZEROS,
        )
        y = model.matmul(self._prefix + "up_product", "mlp_hidden", y, weight)
        y = model.add(self._prefix + "up", "mlp_hidden", y, bias)
        y = model.gelu(self._prefix + "gelu", "mlp_hidden", y)
        weight = model.parameter(
            self._prefix + "mlp.c_proj.weight",
            (c.ffn_width, c.hidden),
            ("ffn", "hidden"),
            "mlp_down.weight",
            self._scaled,
        )
        bias = self._hidden_vector("mlp.c_proj.bias", "mlp_down.bias")
        return self._into_residual("mlp", y, weight, bias, x, contracting=1)

    def _hidden_vector(self, name: str, role: str) -> Value:
        shape = (self._config.hidden,)
        return self._model.parameter(
            self._prefix + name, shape, ("hidden",), role, ZEROS
        )

    def _into_residual(
        self,
        part: str,
        y: Value,
        weight: Value,
        bias: Value,
        residual: Value,
        contracting: int,
    ) -> Value:
        model, name = self._model, self._prefix + part
        y = model.matmul(name + "_product", "residual", y, weight, contracting)
        y = model.add(name + "_biased", "residual", y, bias)
        y = model.dropout(name + "_dropped", "residual", y, self._config.dropout)
        return model.add(name + "_out", "residual", y, residual)
