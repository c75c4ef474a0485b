# ===- bert.py - BERT -----------------------------------------------------===#
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

from dataclasses import dataclass

from optimus.models import transformer
from optimus.models.transformer import Names, build as build

KIND = "bert"


@dataclass(frozen=True)
class Config(transformer.Config):
    epsilon: float = 1e-12
    tied: bool = True
    kind, options = KIND, ("dropout", "mask_token", "pad_token", "head")
    described = ("ffn", "objective", "mask_token", "pad_token")
    order, causal, activation, head_bias = "norms after", False, "exact gelu", True

    @property
    def names(self) -> Names:
        # The class with a head holds the other one under this name.
        bert = "bert." if self.head else ""
        at = bert + "embeddings."
        table = at + "%s_embeddings"
        return Names(
            table=table % "word",
            embedded=at + "words",
            positions=(table % "position", at + "positioned"),
            segments=(table % "token_type", "token_types", at + "type", at + "typed"),
            embedding_norm=at + "LayerNorm",
            layer=bert + "encoder.layer.%d",
            norms=("attention.output.LayerNorm", "output.LayerNorm"),
            attention="attention.self",
            qkv=("attention.self.query", "attention.self.key", "attention.self.value"),
            output="attention.output.dense",
            feed_forward="intermediate",
            up=("intermediate.dense",),
            down="output.dense",
            sums=("attention.output.", "output."),
            biased=("attention.output.dense", "output.dense"),
            head="cls.predictions",
            transform="transform",
        )
