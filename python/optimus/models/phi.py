# ===- phi.py - Phi ---------------------------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Phi, a decoder whose attention and feed-forward part read the same input.

Parameters have the names, shapes and element order of Transformers'
PhiForCausalLM. Of each head only the first channels are rotated. As in GPT-NeoX,
the two parts may have a norm each; that class then lacks the second.
"""

from typing import NamedTuple, Optional

from optimus.ir import ZEROS, LossFunction, Value
from optimus.models import ConfigError
from optimus.models.checks import (
    check_extents,
    check_heads,
    check_positive,
    check_rotated,
    get_members,
)
from optimus.models.parts import (
    FunctionMaker,
    Parts,
    add_parts,
    begin,
    positions_of,
    rotary_attention,
)

KIND = "phi"


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
    rotary_dim: Optional[int] = None
    """Channels of a head that are rotated; the even part of a half if absent."""
    rope_theta: float = 10000.0
    """The base of the angles of the position embedding."""
    norms: int = 1
    """Norms of a layer: one for both parts, or one each."""
    chunk: Optional[int] = None
    """Tokens whose logits exist at one time; 512, or more in a large batch, if absent."""
    init_std: float = 0.02
    within_documents: bool = False
    """Positions begin anew with each document, and nothing is seen of others."""
    epsilon: float = 1e-5
    """Of the layer norms, as in the published models."""

    def check(self) -> None:
        """Raises ConfigError unless a model can be built."""
        extents = dict(get_members(self), ffn=self.ffn_width)
        for name in ("rotary_dim", "norms", "within_documents"):
            extents.pop(name, None)
        reals = ("rope_theta", "init_std", "epsilon")
        check_positive({name: extents.pop(name) for name in reals})
        check_extents(extents)
        check_heads(self.hidden, self.heads)
        check_rotated(self.rotated, self.head_dim)
        if self.norms not in (1, 2):
            raise ConfigError("{norms} is %r; expected 1 or 2" % self.norms)

    @property
    def ffn_width(self) -> int:
        return 4 * self.hidden if self.ffn is None else self.ffn

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    @property
    def rotated(self) -> int:
        if self.rotary_dim is not None:
            return self.rotary_dim
        return max(self.head_dim // 4 * 2, 2)


def build(config: Config, make: FunctionMaker = LossFunction) -> LossFunction:
    """The loss of Phi on a batch, or what `make` makes of the same body. Raises
    ConfigError."""
    config.check()
    c = config
    model, tokens, targets = begin(
        make,
        KIND,
        c,
        ffn=c.ffn_width,
        rotary_dim=c.rotated,
        rope_theta=float(c.rope_theta),
    )
    parts = Parts(model, c, c.epsilon)
    hidden, words = [("hidden", c.hidden)], [("vocabulary", c.vocabulary)]
    table = parts.weight("model.embed_tokens", words, hidden)
    positions = positions_of(model, c)
    x = model.embedding("embedded", table, tokens)
    for layer in range(c.layers):
        with model.scope("model.layers.%d" % layer):
            x = _block(model, parts, c, x, positions)
    x = parts.layer_norm("model.final_layernorm", x)
    head = parts.weight("lm_head", words, hidden)
    bias = model.parameter("lm_head.bias", (c.vocabulary,), ("vocabulary",), ZEROS)
    model.head_loss(x, head, targets, c.chunk, bias)
    return model


def _block(
    model: LossFunction, parts: Parts, c: Config, x: Value, positions: Optional[Value]
) -> Value:
    """One transformer layer."""
    to_attention = to_ffn = parts.layer_norm("input_layernorm", x)
    if c.norms == 2:
        to_ffn = parts.layer_norm("post_attention_layernorm", x)
    hidden = ("hidden", c.hidden)
    heads = [("heads", c.heads), ("head_dim", c.head_dim)]
    with model.scope("self_attn"):
        qkv = (
            parts.biased_linear(part, to_attention, heads, [hidden])
            for part in ("q_proj", "k_proj", "v_proj")
        )
        y = rotary_attention(model, c, qkv, positions)
        attended = parts.product_and_bias("dense", y, [hidden], heads)
    ffn = [("ffn", c.ffn_width)]
    with model.scope("mlp"):
        y = parts.biased_linear("fc1", to_ffn, ffn, [hidden])
        y = model.gelu("gelu", y)
        fed = parts.product_and_bias("fc2", y, [hidden], ffn)
    return add_parts(model, x, attended, fed)
