# ===- llama.py - Llama ---------------------------------------------------===#
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
"""

from dataclasses import dataclass

from optimus.models import transformer
from optimus.models.transformer import Names, build as build

KIND = "llama"


@dataclass(frozen=True)
class Config(transformer.Config):
    epsilon: float = 1e-6
    kind = KIND
    options = ("kv_heads", "head_width", "window", "rope_theta", "rope_scaling")
    options += ("qk_norm", "qkv_bias", "tied", "within_documents")
    described = ("kv_heads", "ffn", "rope_theta", "norm_eps", "tied")
    norm, rotary, grouped, activation, biased = "rms", 1, True, "swiglu", False
    names = Names(
        table="model.embed_tokens",
        layer="model.layers.%d",
        norms=("input_layernorm", "post_attention_layernorm"),
        attention="self_attn",
        qkv=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        output="self_attn.o_proj",
        feed_forward="mlp",
        up=("mlp.gate_proj", "mlp.up_proj"),
        down="mlp.down_proj",
        sums=("self_attn.", "mlp."),
        norm="model.norm",
        head="lm_head",
    )
