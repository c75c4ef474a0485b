# ===- gated_encoder.py - An encoder with a gated feed-forward part --------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""An encoder for masked tokens with the layers of T5 1.1: RMS norms, a feed-forward
part gated by GELU, no biases, heads of any width, an output head of its own.

It is not T5, and its parameters have names of their own. T5 adds learned biases of
distances to the scores. This encoder adds embeddings of positions and of the segment
to that of the tokens, and divides the scores by the root of a head's width. Linear
weights are [out, in].
"""

from typing import NamedTuple, Optional

from optimus.ir import LossFunction, Value
from optimus.models.checks import (
    check_extents,
    check_heads,
    check_masking,
    check_positive,
    get_members,
)
from optimus.models.parts import FunctionMaker, Parts, begin

KIND = "gated-encoder"
EPSILON = 1e-6
"""Of the norms, as in the published models."""
SEGMENTS = 2


class Config(NamedTuple):
    layers: int
    hidden: int
    heads: int
    head_dim: Optional[int]
    """Channels of a head; heads * head_dim need not be hidden. hidden / heads if
    absent."""
    ffn: int
    """Width of the feed-forward part."""
    sequence: int
    vocabulary: int
    batch: int
    """Sequences in the global batch."""
    chunk: Optional[int] = None
    """Tokens whose logits exist at one time; 512, or more in a large batch, if absent."""
    init_std: float = 0.02
    mask_token: Optional[int] = None
    """The token in the place of a hidden one; the vocabulary's last one if absent."""
    pad_token: int = 0
    """The token at the end of a shorter sequence."""

    @property
    def mask(self) -> int:
        return self.vocabulary - 1 if self.mask_token is None else self.mask_token

    @property
    def head_width(self) -> int:
        return self.hidden // self.heads if self.head_dim is None else self.head_dim

    def check(self) -> None:
        """Raises ConfigError unless a model can be built."""
        extents = get_members(self)
        for name in ("init_std", "mask_token", "pad_token"):
            extents.pop(name, None)
        if self.head_dim is None:
            del extents["head_dim"]
        check_extents(extents)
        if self.head_dim is None:
            check_heads(self.hidden, self.heads)
        check_positive({"init_std": self.init_std})
        check_masking(self.mask, self.pad_token, self.vocabulary)


def build(config: Config, make: FunctionMaker = LossFunction) -> LossFunction:
    """The loss of the encoder on a batch, or what `make` makes of the same body. Raises
    ConfigError."""
    config.check()
    c = config
    model, tokens, targets = begin(
        make,
        KIND,
        c,
        head_dim=c.head_width,
        ffn=c.ffn,
        objective="masked_token",
        mask_token=c.mask,
        pad_token=c.pad_token,
    )
    lengths = model.lengths("lengths", tokens, targets, c.pad_token)

    parts = Parts(model, c, EPSILON)

    def table(name: str, rows: int, dim: str) -> Value:
        return parts.weight(name, [(dim, rows)], [("hidden", c.hidden)])

    words = table("tokens", c.vocabulary, "vocabulary")
    positions = table("positions", c.sequence, "sequence")
    segments = table("segments", SEGMENTS, "segments")
    x = model.embedding("embedded", words, tokens, pad=c.pad_token)
    x = model.add("positioned", x, positions)
    x = model.add("in_segment", x, model.row("segment", segments, 0))
    for layer in range(c.layers):
        with model.scope("layers.%d" % layer):
            x = _self_attention(model, parts, c, x, lengths)
            x = _feed_forward(model, parts, c, x)
    x = parts.rms_norm("norm", x)
    model.head_loss(x, table("head", c.vocabulary, "vocabulary"), targets, c.chunk)
    return model


def _self_attention(
    model: LossFunction, parts: Parts, c: Config, x: Value, lengths: Value
) -> Value:
    y = parts.rms_norm("attention_norm", x)
    heads = [("heads", c.heads), ("head_dim", c.head_width)]
    hidden = [("hidden", c.hidden)]
    with model.scope("attention"):
        qkv = [parts.linear(part, y, heads, hidden) for part in "qkv"]
        y = model.attention("heads", qkv, False, lengths)
        y = parts.linear("o", y, hidden, heads)
    return model.add("attention_sum", y, x)


def _feed_forward(model: LossFunction, parts: Parts, c: Config, x: Value) -> Value:
    y = parts.rms_norm("feed_forward_norm", x)
    ffn, hidden = [("ffn", c.ffn)], [("hidden", c.hidden)]
    with model.scope("feed_forward"):
        gate = model.gelu("gelu", parts.linear("gate", y, ffn, hidden))
        y = model.mul("gated", gate, parts.linear("up", y, ffn, hidden))
        y = parts.linear("down", y, hidden, ffn)
    return model.add("feed_forward_sum", y, x)
