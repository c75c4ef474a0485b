# ===- gpt_neox.py - GPT-NeoX -----------------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""GPT-NeoX and Pythia: decoders with norms of their own for attention and for the
feed-forward part.

Both parts read the layer's input, or one reads what the other left. Parameters
have the names, shapes and element order of Transformers' GPTNeoXForCausalLM,
whose tensors of queries, keys and values have them head by head: three
parameters here, packed in checkpoints alone. Of each head only the first channels
are rotated.
"""

from typing import NamedTuple, Optional, Tuple

from optimus.ir import ZEROS, Init, LossFunction, Packed, Value
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

KIND = "gpt_neox"


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
    """Channels of a head that are rotated; the even part of a quarter if absent."""
    rope_theta: float = 10000.0
    """The base of the angles of the position embedding."""
    parallel: bool = True
    """The feed-forward part reads the layer's input, not what attention left."""
    attention_bias: bool = True
    """Queries, keys, values and attention's output have biases."""
    tied: bool = False
    """The output head is the token embedding's table."""
    chunk: Optional[int] = None
    """Tokens whose logits exist at one time; 512, or more in a large batch, if absent."""
    init_std: float = 0.02
    within_documents: bool = False
    """Positions begin anew with each document, and nothing is seen of others."""
    epsilon: float = 1e-5
    """Of the layer norms."""

    def check(self) -> None:
        """Raises ConfigError unless a model can be built."""
        extents = dict(get_members(self), ffn=self.ffn_width)
        extents.pop("rotary_dim", None)
        for name in ("parallel", "attention_bias", "tied", "within_documents"):
            del extents[name]
        reals = ("rope_theta", "init_std", "epsilon")
        check_positive({name: extents.pop(name) for name in reals})
        check_extents(extents)
        check_heads(self.hidden, self.heads)
        check_rotated(self.rotated, self.head_dim)

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
        return max(self.head_dim // 8 * 2, 2)


def build(config: Config, make: FunctionMaker = LossFunction) -> LossFunction:
    """The loss of GPT-NeoX on a batch, or what `make` makes of the same body. Raises
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
    table = parts.weight("gpt_neox.embed_in", words, hidden)
    positions = positions_of(model, c)
    x = model.embedding("embedded", table, tokens)
    for layer in range(c.layers):
        with model.scope("gpt_neox.layers.%d" % layer):
            x = _Block(model, parts, c, positions).apply(x)
    x = parts.layer_norm("gpt_neox.final_layer_norm", x)
    head = table if c.tied else parts.weight("embed_out", words, hidden)
    model.head_loss(x, head, targets, c.chunk)
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
        self._init = Init.normal(config.init_std)

    def apply(self, x: Value) -> Value:
        model, parts = self._model, self._parts
        y = parts.layer_norm("input_layernorm", x)
        attended = self._attention(y)
        if not self._config.parallel:
            y, bias = attended
            y = y if bias is None else model.add("attention_biased", y, bias)
            x = model.add("attention_sum", y, x)
        fed = self._feed_forward(parts.layer_norm("post_attention_layernorm", x))
        if self._config.parallel:
            return add_parts(model, x, attended, fed)
        return model.add("sum", model.add("biased", *fed), x)

    def _attention(self, y: Value) -> Tuple[Value, Optional[Value]]:
        """The output's product, and its bias if there is one."""
        c, model = self._config, self._model
        heads = [("heads", c.heads), ("head_dim", c.head_dim)]
        with model.scope("attention"):
            qkv = (self._projected(y, part) for part in range(3))
            y = rotary_attention(model, c, qkv, self._positions)
            hidden = [("hidden", c.hidden)]
            if c.attention_bias:
                return self._parts.product_and_bias("dense", y, hidden, heads)
            return self._parts.linear("dense", y, hidden, heads), None

    def _projected(self, x: Value, part: int) -> Value:
        """Queries, keys or values: part 0, 1 or 2 of each head in the packed tensor."""
        c, model = self._config, self._model
        name = ("query", "key", "value")[part]
        heads, dims = (c.heads, c.head_dim), ("heads", "head_dim")
        with model.scope("query_key_value"):
            weight = model.parameter(
                name + ".weight",
                heads + (c.hidden,),
                dims + ("hidden",),
                self._init,
                hf_shape=(c.hidden, c.hidden),
                packed=self._packed("weight", (3 * c.hidden, c.hidden), part),
            )
            y = model.matmul(name + "_product", x, weight, 1, transpose_b=True)
            if not c.attention_bias:
                return y
            bias = model.parameter(
                name + ".bias",
                heads,
                dims,
                ZEROS,
                hf_shape=(c.hidden,),
                packed=self._packed("bias", (3 * c.hidden,), part),
            )
            return model.add(name, y, bias)

    def _packed(self, name: str, shape: Tuple[int, ...], part: int) -> Packed:
        """In [heads, 3, head_dim, …]."""
        width = self._config.head_dim * (shape[1] if len(shape) > 1 else 1)
        return Packed(name, shape, row=3 * width, begin=part * width)

    def _feed_forward(self, y: Value) -> Tuple[Value, Value]:
        c, model, parts = self._config, self._model, self._parts
        ffn, hidden = [("ffn", c.ffn_width)], [("hidden", c.hidden)]
        with model.scope("mlp"):
            y = parts.biased_linear("dense_h_to_4h", y, ffn, hidden)
            y = model.gelu("gelu", y, exact=True)
            return parts.product_and_bias("dense_4h_to_h", y, hidden, ffn)
