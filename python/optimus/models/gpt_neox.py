# ===- gpt_neox.py - GPT-NeoX ---------------------------------------------===#
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

from dataclasses import dataclass

from optimus.models import transformer
from optimus.models.transformer import Names, build as build

KIND = "gpt_neox"


@dataclass(frozen=True)
class Config(transformer.Config):
    parallel: bool = True
    kind, options = KIND, ("rotary_dim", "rope_theta", "parallel", "attention_bias")
    options += ("tied", "within_documents")
    described = ("ffn", "rotary_dim", "rope_theta")
    rotary, activation = 4, "exact gelu"
    names = Names(
        table="gpt_neox.embed_in",
        layer="gpt_neox.layers.%d",
        norms=("input_layernorm", "post_attention_layernorm"),
        attention="attention",
        qkv=tuple("attention.query_key_value." + part for part in ("query", "key", "value")),
        packed="attention.query_key_value",
        output="attention.dense",
        feed_forward="mlp",
        up=("mlp.dense_h_to_4h",),
        down="mlp.dense_4h_to_h",
        sums=("attention_", ""),
        norm="gpt_neox.final_layer_norm",
        head="embed_out",
    )
