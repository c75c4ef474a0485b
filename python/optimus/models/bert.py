# ===- bert.py - BERT ------------------------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""BERT for masked tokens, with Hugging Face's parameter names, shapes and
element order (BertForMaskedLM): every token sees all of its sequence that is
not padding. Sequences are of one segment, whose token type is 0.

Without its head it is BertModel, an encoder: it has no loss, and its output are the
hidden states of all tokens."""

from typing import NamedTuple, Optional

from optimus.ir import ZEROS, Init, LossFunction, Value
from optimus.models.checks import (
    check_dropout,
    check_extents,
    check_heads,
    check_masking,
    check_positive,
    get_members,
)
from optimus.models.parts import Dims, FunctionMaker, Parts, begin

KIND = "bert"
TOKEN_TYPES = 2


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
    mask_token: Optional[int] = None
    """The token in the place of a hidden one; the vocabulary's last one if absent."""
    pad_token: int = 0
    """The token at the end of a shorter sequence."""
    epsilon: float = 1e-12
    """Of the layer norms, as in the published model."""
    head: bool = True
    """Whether there is one, and a loss."""

    @property
    def ffn_width(self) -> int:
        return 4 * self.hidden if self.ffn is None else self.ffn

    @property
    def mask(self) -> int:
        return self.vocabulary - 1 if self.mask_token is None else self.mask_token

    def check(self) -> None:
        """Raises ConfigError unless a model can be built."""
        extents = dict(get_members(self), ffn=self.ffn_width)
        others = ("init_std", "dropout", "mask_token", "pad_token", "epsilon", "head")
        for name in others:
            extents.pop(name, None)
        check_extents(extents)
        check_heads(self.hidden, self.heads)
        check_positive({"init_std": self.init_std, "epsilon": self.epsilon})
        check_dropout(self.dropout)
        check_masking(self.mask, self.pad_token, self.vocabulary)


def build(config: Config, make: FunctionMaker = LossFunction) -> LossFunction:
    """The loss of BERT on a batch, or what `make` makes of the same body. Raises
    ConfigError."""
    config.check()
    c = config
    objective = dict(objective="masked_token", mask_token=c.mask) if c.head else {}
    model, tokens, targets = begin(
        make, KIND, c, ffn=c.ffn_width, **objective, pad_token=c.pad_token
    )
    lengths = model.lengths("lengths", tokens, targets, c.pad_token)
    # The class with a head holds the other one under this name.
    prefix = "bert." if c.head else ""

    def table(name: str, rows: int, dim: str) -> Value:
        return model.parameter(
            "%sembeddings.%s_embeddings.weight" % (prefix, name),
            (rows, c.hidden),
            (dim, "hidden"),
            Init.normal(c.init_std),
        )

    parts = Parts(model, c, c.epsilon)
    words = table("word", c.vocabulary, "vocabulary")
    positions = table("position", c.sequence, "sequence")
    types = table("token_type", TOKEN_TYPES, "token_types")
    # Padding learns as an output only, as with Hugging Face's padding_idx.
    with model.scope(prefix + "embeddings"):
        x = model.embedding("words", words, tokens, pad=c.pad_token)
        x = model.add("positioned", x, positions)
        x = model.add("typed", x, model.row("type", types, 0))
        x = parts.layer_norm("LayerNorm", x)
        x = model.dropout("dropped", x, c.dropout)
    for layer in range(c.layers):
        with model.scope("%sencoder.layer.%d" % (prefix, layer)):
            block = _Block(model, parts, c)
            x = block.feed_forward(block.self_attention(x, lengths))
    if not c.head:
        model.hidden_states(x)
        return model
    with model.scope("cls.predictions"):
        _head(model, parts, c, x, words, targets)
    return model


def _head(
    model: LossFunction, parts: Parts, c: Config, x: Value, words: Value, targets: Value
) -> None:
    bias = model.parameter("bias", (c.vocabulary,), ("vocabulary",), ZEROS)
    hidden = [("hidden", c.hidden)]
    with model.scope("transform"):
        # Square, so that the activation moves as little as the residual stream's.
        x = parts.biased_linear("dense", x, hidden, hidden)
        x = model.gelu("gelu", x, exact=True)
        x = parts.layer_norm("LayerNorm", x)
    model.head_loss(x, words, targets, c.chunk, bias)


class _Block:
    """One transformer layer, its norms after the sums, in a scope of its own."""

    def __init__(self, model: LossFunction, parts: Parts, config: Config):
        self._model, self._parts, self._config = model, parts, config
        self._hidden = [("hidden", config.hidden)]

    def self_attention(self, x: Value, lengths: Value) -> Value:
        c, model = self._config, self._model
        heads = [("heads", c.heads), ("head_dim", c.hidden // c.heads)]
        with model.scope("attention"):
            with model.scope("self"):
                qkv = [
                    self._parts.biased_linear(part, x, heads, self._hidden)
                    for part in ("query", "key", "value")
                ]
                y = model.attention("heads", qkv, False, lengths)
            return self._output(y, x, heads)

    def feed_forward(self, x: Value) -> Value:
        c, model = self._config, self._model
        ffn = [("ffn", c.ffn_width)]
        with model.scope("intermediate"):
            y = self._parts.biased_linear("dense", x, ffn, self._hidden)
            y = model.gelu("gelu", y, exact=True)
        return self._output(y, x, ffn)

    def _output(self, y: Value, residual: Value, ins: Dims) -> Value:
        """Into the residual stream."""
        model, c = self._model, self._config
        with model.scope("output"):
            y = self._parts.biased_linear("dense", y, self._hidden, ins)
            y = model.dropout("dropped", y, c.dropout)
            y = model.add("sum", y, residual)
            return self._parts.layer_norm("LayerNorm", y)
