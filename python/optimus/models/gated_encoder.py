# ===- gated_encoder.py - An encoder with a gated feed-forward part -------===#
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
to that of the tokens, and divides the scores by the root of a head's width.
"""

from dataclasses import dataclass

from optimus.models import transformer
from optimus.models.transformer import Names, build as build

KIND = "gated-encoder"


@dataclass(frozen=True)
class Config(transformer.Config):
    epsilon: float = 1e-6
    kind, options = KIND, ("head_width", "mask_token", "pad_token")
    described = ("head_dim", "ffn", "objective", "mask_token", "pad_token")
    norm, causal, activation, biased = "rms", False, "gated gelu", False
    names = Names(
        table="tokens",
        positions=("positions", "positioned"),
        segments=("segments", "segments", "segment", "in_segment"),
        layer="layers.%d",
        norms=("attention_norm", "feed_forward_norm"),
        attention="attention",
        qkv=("attention.q", "attention.k", "attention.v"),
        output="attention.o",
        feed_forward="feed_forward",
        up=("feed_forward.gate", "feed_forward.up"),
        down="feed_forward.down",
        sums=("attention_", "feed_forward_"),
        norm="norm",
        head="head",
    )
