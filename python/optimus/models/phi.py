# ===- phi.py - Phi -------------------------------------------------------===#
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

from dataclasses import dataclass

from optimus.models import transformer
from optimus.models.transformer import Names, build as build

KIND = "phi"


@dataclass(frozen=True)
class Config(transformer.Config):
    norms: int = 1
    parallel: bool = True
    kind, options = KIND, ("rotary_dim", "rope_theta", "norms", "within_documents")
    described = ("ffn", "rotary_dim", "rope_theta")
    order, rotary, head_bias = "norms first", 2, True
    names = Names(
        table="model.embed_tokens",
        layer="model.layers.%d",
        norms=("input_layernorm", "post_attention_layernorm"),
        attention="self_attn",
        qkv=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        output="self_attn.dense",
        feed_forward="mlp",
        up=("mlp.fc1",),
        down="mlp.fc2",
        sums=("attention_", ""),
        norm="model.final_layernorm",
        head="lm_head",
    )
