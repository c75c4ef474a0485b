# ===- phi_msft.py - Phi of the first checkpoints --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Phi with the names of its first checkpoints, of the type `phi-msft`: one tensor has all
queries, then all keys, then all values."""

from dataclasses import dataclass

from optimus.models import phi
from optimus.models.phi import KIND as KIND
from optimus.models.transformer import Names, build as build


@dataclass(frozen=True)
class Config(phi.Config):
    packs_heads = False
    names = Names(
        table="transformer.embd.wte",
        layer="transformer.h.%d",
        norms=("ln", "ln_2"),
        attention="mixer",
        qkv=("mixer.Wqkv.query", "mixer.Wqkv.key", "mixer.Wqkv.value"),
        packed="mixer.Wqkv",
        output="mixer.out_proj",
        feed_forward="mlp",
        up=("mlp.fc1",),
        down="mlp.fc2",
        sums=("attention_", ""),
        norm="lm_head.ln",
        head="lm_head.linear",
    )
