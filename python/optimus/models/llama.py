# ===- llama.py - Llama -----------------------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Llama with Hugging Face's parameter names, shapes and element order.

With a window it is Mistral, with norms of queries and keys Qwen3.
RMS norms, rotary position embedding, grouped-query attention and a gated
feed-forward part; no biases, or, as in Qwen2, those of queries, keys and values.
Published linear weights are [out, in]; ours are too, and
the products transpose them, so that no element ever moves.
"""

from typing import NamedTuple, Optional

from optimus.ir import Init, LossFunction, Value
from optimus.models import ConfigError, rope
from optimus.models.checks import check_extents, check_heads, check_positive, get_members
from optimus.models.parts import FunctionMaker, Parts, begin, positions_of

KIND = "llama"


class Config(NamedTuple):
    layers: int
    hidden: int
    heads: int
    """Heads of queries."""
    kv_heads: int
    """Heads of keys and values; each serves heads / kv_heads heads of queries."""
    ffn: int
    """Width of the feed-forward part."""
    sequence: int
    vocabulary: int
    batch: int
    """Sequences in the global batch."""
    rope_theta: float = 10000.0
    """The base of the angles of the position embedding."""
    epsilon: float = 1e-6
    """Of the norms, as in Hugging Face's configuration."""
    tied: bool = False
    """The output head is the token embedding's table."""
    chunk: Optional[int] = None
    """Tokens whose logits exist at one time; 512, or more in a large batch, if absent."""
    init_std: float = 0.02
    within_documents: bool = False
    """Positions begin anew with each document, and nothing is seen of others."""
    window: Optional[int] = None
    """How many tokens a token sees, itself and those before it; all of them if
    absent. Mistral's sliding_window."""
    qkv_bias: bool = False
    """Queries, keys and values have biases."""
    head_width: Optional[int] = None
    """Channels of a head; heads * head_width need not be hidden. hidden / heads if
    absent."""
    qk_norm: bool = False
    """Queries and keys have norms, each over a head's channels, as in Qwen3."""
    rope_scaling: Optional[rope.Scaling] = None
    """How positions were stretched after training; not at all if absent."""

    def check(self) -> None:
        """Raises ConfigError unless a model can be built."""
        extents = get_members(self)
        for name in ("tied", "within_documents", "qkv_bias", "qk_norm"):
            del extents[name]
        extents.pop("rope_scaling", None)
        if self.rope_scaling is not None:
            self.rope_scaling.check()
        reals = ("rope_theta", "epsilon", "init_std")
        check_positive({name: extents.pop(name) for name in reals})
        check_extents(extents)
        if self.head_width is None:
            check_heads(self.hidden, self.heads)
        if self.head_dim % 2:
            what = "{hidden} / {heads}" if self.head_width is None else "{head_width}"
            raise ConfigError(
                what + " is %d; expected an even number, since the "
                "position embedding rotates pairs of channels" % self.head_dim
            )
        if self.heads % self.kv_heads:
            raise ConfigError(
                "{heads} (%d) is not divisible by {kv_heads} (%d); each head of keys "
                "and values serves heads / kv_heads heads of queries"
                % (self.heads, self.kv_heads)
            )

    @property
    def head_dim(self) -> int:
        """Channels of a head."""
        return self.hidden // self.heads if self.head_width is None else self.head_width

    @property
    def group(self) -> int:
        """Heads of queries that one head of keys and values serves."""
        return self.heads // self.kv_heads


def build(config: Config, make: FunctionMaker = LossFunction) -> LossFunction:
    """The loss of Llama on a batch, or what `make` makes of the same body. Raises
    ConfigError."""
    config.check()
    c = config
    model, tokens, targets = begin(
        make,
        KIND,
        c,
        kv_heads=c.kv_heads,
        ffn=c.ffn,
        rope_theta=float(c.rope_theta),
        norm_eps=float(c.epsilon),
        tied=c.tied,
    )
    parts = Parts(model, c, c.epsilon)
    table = _table(model, c, "model.embed_tokens.weight")
    positions = positions_of(model, c)
    x = model.embedding("embedded", table, tokens)
    for layer in range(c.layers):
        with model.scope("model.layers.%d" % layer):
            x = _self_attention(model, parts, c, x, positions)
            x = _feed_forward(model, parts, c, x)
    x = parts.rms_norm("model.norm", x)
    if not c.tied:
        table = _table(model, c, "lm_head.weight")
    model.head_loss(x, table, targets, c.chunk)
    return model


def _table(model: LossFunction, c: Config, name: str) -> Value:
    shape = (c.vocabulary, c.hidden)
    dims = ("vocabulary", "hidden")
    return model.parameter(name, shape, dims, Init.normal(c.init_std))


def _self_attention(
    model: LossFunction, parts: Parts, c: Config, x: Value, positions: Optional[Value]
) -> Value:
    y = parts.rms_norm("input_layernorm", x)
    # Heads of keys and values come first, since they are sharded: heads of queries
    # lie in the published order, group by group.
    groups, queries = ("kv_heads", c.kv_heads), ("queries", c.group)
    channels, hidden = ("head_dim", c.head_dim), ("hidden", c.hidden)
    linear = parts.biased_linear if c.qkv_bias else parts.linear
    with model.scope("self_attn"):
        q = linear("q_proj", y, [groups, queries, channels], [hidden])
        k = linear("k_proj", y, [groups, channels], [hidden])
        v = linear("v_proj", y, [groups, channels], [hidden])
        if c.qk_norm:
            q = parts.rms_norm("q_norm", q, channels)
            k = parts.rms_norm("k_norm", k, channels)
        speeds = rope.frequencies(c.rope_theta, c.head_dim, c.rope_scaling)
        turn = dict(positions=positions, frequencies=speeds)
        q = model.rotary("q_rotated", q, c.rope_theta, **turn)
        k = model.rotary("k_rotated", k, c.rope_theta, **turn)
        y = model.attention(
            "heads", [q, k, v], causal=True, positions=positions, window=c.window
        )
        y = parts.linear("o_proj", y, [hidden], [groups, queries, channels])
        return model.add("sum", y, x)


def _feed_forward(model: LossFunction, parts: Parts, c: Config, x: Value) -> Value:
    y = parts.rms_norm("post_attention_layernorm", x)
    ffn, hidden = [("ffn", c.ffn)], [("hidden", c.hidden)]
    with model.scope("mlp"):
        gate = parts.linear("gate_proj", y, ffn, hidden)
        up = parts.linear("up_proj", y, ffn, hidden)
        y = model.swiglu("gated", gate, up)
        y = parts.linear("down_proj", y, hidden, ffn)
        return model.add("sum", y, x)
