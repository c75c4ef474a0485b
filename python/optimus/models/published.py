# ===- published.py - The config.json of our models --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A model's config.json in fields that Transformers 4 and 5 read. The program carries
it to the library's manifest, and checkpoints get it, with the element type of their
weights.
"""

import json
import math
from typing import Any, Dict, Iterable, Optional

TYPES = ("torch_dtype", "dtype")
"""Fields for the element type of weights, which whoever writes these knows."""


def text_of(fields: Dict[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"))


def config_of(kind: str, config: Any) -> Optional[Dict[str, Any]]:
    """The fields of the model of a builder's Config that passed its check(); nothing
    where Transformers has no class with its layers and names."""
    describe = _MODELS.get(kind)
    return describe(config) if describe else None


def kept(
    given: Dict[str, Any],
    name: str,
    known: Iterable[str],
    positions: Iterable[str],
    sequence: int,
    rates: Dict[str, float],
) -> Dict[str, Any]:
    """An imported config.json, less what is not as it was: the class is `name` unless it
    is a `known` one; fields called `positions` are those of the table that is left; and
    `rates` are the probabilities of dropout in training, for their fields."""
    fields = {field: value for field, value in given.items() if field not in TYPES}
    if not set(fields.get("architectures") or [""]) <= set(known):
        fields["architectures"] = [name]
    for field in positions:
        if field in fields:
            fields[field] = sequence
    for field, rate in rates.items():
        if fields.get(field) != rate:
            fields[field] = rate
    return fields


def _gpt2(c: Any) -> Dict[str, Any]:
    return dict(
        architectures=["GPT2LMHeadModel"],
        model_type="gpt2",
        vocab_size=c.vocabulary,
        n_positions=c.sequence,
        n_embd=c.hidden,
        n_layer=c.layers,
        n_head=c.heads,
        n_inner=c.ffn_width,
        activation_function="gelu_new",
        resid_pdrop=c.dropout,
        embd_pdrop=c.dropout,
        attn_pdrop=0.0,
        layer_norm_epsilon=c.epsilon,
        initializer_range=c.init_std,
        tie_word_embeddings=True,
        **_NO_TOKENS,
    )


def _bert(c: Any) -> Dict[str, Any]:
    return dict(
        architectures=["BertForMaskedLM" if c.head else "BertModel"],
        model_type="bert",
        **_shape(c),
        hidden_act="gelu",
        hidden_dropout_prob=c.dropout,
        attention_probs_dropout_prob=0.0,
        type_vocab_size=2,
        layer_norm_eps=c.epsilon,
        pad_token_id=c.pad_token,
        tie_word_embeddings=True,
    )


def _llama(c: Any) -> Optional[Dict[str, Any]]:
    name, kind = "LlamaForCausalLM", "llama"
    more = dict(attention_bias=False, mlp_bias=False)
    if [c.window is not None, c.qkv_bias, c.qk_norm].count(True) > 1:
        return None
    if c.window is not None:
        name, kind, more = "MistralForCausalLM", "mistral", dict(sliding_window=c.window)
    elif c.qkv_bias:
        name, kind, more = "Qwen2ForCausalLM", "qwen2", dict(use_sliding_window=False)
    elif c.qk_norm:
        name, kind = "Qwen3ForCausalLM", "qwen3"
        more = dict(use_sliding_window=False, attention_bias=False)
    if c.qk_norm or c.head_width is not None:
        # Qwen3's default is 128; Qwen2 has none.
        if c.qkv_bias:
            return None
        more["head_dim"] = c.head_dim
    if c.rope_scaling is not None:
        more["rope_scaling"] = c.rope_scaling.fields()
    return dict(
        architectures=[name],
        model_type=kind,
        **_shape(c),
        num_key_value_heads=c.groups,
        hidden_act="silu",
        rms_norm_eps=c.epsilon,
        rope_theta=float(c.rope_theta),
        attention_dropout=0.0,
        tie_word_embeddings=c.tied,
        **more,
        **_NO_TOKENS,
    )


def _phi(c: Any) -> Optional[Dict[str, Any]]:
    if c.norms != 1:
        return None
    return dict(
        architectures=["PhiForCausalLM"],
        model_type="phi",
        **_shape(c),
        hidden_act="gelu_new",
        layer_norm_eps=c.epsilon,
        rope_theta=float(c.rope_theta),
        partial_rotary_factor=_rotated_share(c),
        qk_layernorm=False,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attention_dropout=0.0,
        tie_word_embeddings=False,
        **_NO_TOKENS,
    )


def _gpt_neox(c: Any) -> Dict[str, Any]:
    return dict(
        architectures=["GPTNeoXForCausalLM"],
        model_type="gpt_neox",
        **_shape(c),
        hidden_act="gelu",
        layer_norm_eps=c.epsilon,
        rotary_emb_base=float(c.rope_theta),
        rotary_pct=_rotated_share(c),
        use_parallel_residual=c.parallel,
        attention_bias=c.attention_bias,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        tie_word_embeddings=c.tied,
        **_NO_TOKENS,
    )


def _rotated_share(c: Any) -> float:
    share = c.rotated / c.head_dim
    # Transformers rounds the product down.
    while int(c.head_dim * share) < c.rotated:
        share = math.nextafter(share, math.inf)
    return share


_NO_TOKENS = dict(bos_token_id=None, eos_token_id=None)
"""The families' own are beyond a small vocabulary; only a tokenizer knows better."""


def _shape(c: Any) -> Dict[str, Any]:
    return dict(
        vocab_size=c.vocabulary,
        max_position_embeddings=c.sequence,
        hidden_size=c.hidden,
        num_hidden_layers=c.layers,
        num_attention_heads=c.heads,
        intermediate_size=c.ffn_width,
        initializer_range=c.init_std,
    )


_MODELS = {
    "gpt2": _gpt2,
    "bert": _bert,
    "llama": _llama,
    "phi": _phi,
    "gpt_neox": _gpt_neox,
}
"""By the builder's KIND."""
