# ===- t5_encoder.py - An encoder with a gated feed-forward part -----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The encoder of T5 1.1 for masked tokens: RMS norms, a feed-forward part gated by
GELU, no biases, heads of any width, an output head of its own.

Parameters have the names, shapes and element order of Hugging Face's
T5EncoderModel. Where T5 adds what it learned of distances to the scores, this
encoder adds an embedding of positions and of the segment to that of the tokens,
and scores are divided by the root of a head's width.
"""

from typing import NamedTuple, Optional

from optimus.ir import LossFunction, Value
from optimus.models.checks import (
    check_extents,
    check_heads,
    check_masking,
    check_positive,
)
from optimus.models.parts import Dims, begin, linear, rms_norm, weight

KIND = "t5-encoder"
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
    chunk: int = 512
    """Tokens whose logits exist at one time."""
    init_std: float = 0.02
    mask_token: Optional[int] = None
    """What stands for a hidden token; the vocabulary's last one if absent."""
    pad_token: int = 0
    """What fills the end of a sequence that is shorter."""

    @property
    def mask(self) -> int:
        return self.vocabulary - 1 if self.mask_token is None else self.mask_token

    @property
    def head_width(self) -> int:
        return self.hidden // self.heads if self.head_dim is None else self.head_dim

    def check(self) -> None:
        """Raises ConfigError unless a model can be built."""
        extents = self._asdict()
        for name in ("init_std", "mask_token", "pad_token"):
            del extents[name]
        if self.head_dim is None:
            del extents["head_dim"]
        check_extents(extents)
        if self.head_dim is None:
            check_heads(self.hidden, self.heads)
        check_positive({"init_std": self.init_std})
        check_masking(self.mask, self.pad_token, self.vocabulary)


def build(config: Config) -> LossFunction:
    """The loss of the encoder on a batch. Raises ConfigError."""
    config.check()
    c = config
    model, tokens, targets = begin(
        KIND,
        c,
        head_dim=c.head_width,
        ffn=c.ffn,
        objective="masked_token",
        mask_token=c.mask,
        pad_token=c.pad_token,
    )
    lengths = model.lengths("lengths", tokens, targets, c.pad_token)

    def table(name: str, rows: int, dim: str) -> Value:
        return weight(model, name, [(dim, rows)], [("hidden", c.hidden)], c.init_std)

    words = table("shared", c.vocabulary, "vocabulary")
    positions = table("encoder.embed_positions", c.sequence, "sequence")
    segments = table("encoder.embed_segments", SEGMENTS, "segments")
    x = model.embedding("embedded", words, tokens, pad=c.pad_token)
    x = model.add("positioned", x, positions)
    x = model.add("in_segment", x, model.row("segment", segments, 0))
    for layer in range(c.layers):
        with model.scope("encoder.block.%d" % layer):
            with model.scope("layer.0"):
                x = _self_attention(model, c, x, lengths)
            with model.scope("layer.1"):
                x = _feed_forward(model, c, x)
    x = _norm(model, c, "encoder.final_layer_norm", x)
    model.head_loss(x, table("lm_head", c.vocabulary, "vocabulary"), targets, c.chunk)
    return model


def _self_attention(model: LossFunction, c: Config, x: Value, lengths: Value) -> Value:
    y = _norm(model, c, "layer_norm", x)
    heads = [("heads", c.heads), ("head_dim", c.head_width)]
    hidden = [("hidden", c.hidden)]
    with model.scope("SelfAttention"):
        parts = [_linear(model, c, part, y, heads, hidden) for part in "qkv"]
        y = model.attention("heads", parts, False, lengths)
        y = _linear(model, c, "o", y, hidden, heads)
    return model.add("sum", y, x)


def _feed_forward(model: LossFunction, c: Config, x: Value) -> Value:
    y = _norm(model, c, "layer_norm", x)
    ffn, hidden = [("ffn", c.ffn)], [("hidden", c.hidden)]
    with model.scope("DenseReluDense"):
        gate = model.gelu("gelu", _linear(model, c, "wi_0", y, ffn, hidden))
        y = model.mul("gated", gate, _linear(model, c, "wi_1", y, ffn, hidden))
        y = _linear(model, c, "wo", y, hidden, ffn)
    return model.add("sum", y, x)


def _norm(model: LossFunction, c: Config, name: str, x: Value) -> Value:
    return rms_norm(model, name, x, c.hidden, EPSILON)


def _linear(
    model: LossFunction, c: Config, name: str, x: Value, outs: Dims, ins: Dims
) -> Value:
    return linear(model, name, x, outs, ins, c.init_std)
