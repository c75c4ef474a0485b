# ===- published_configs.py - Configurations as Transformers writes them -----===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A config.json of each family, and the flags of the builder for the same model."""

EXTENTS = dict(
    hidden_size=60,
    initializer_range=0.02,
    intermediate_size=70,
    max_position_embeddings=16,
    num_attention_heads=6,
    num_hidden_layers=2,
    use_cache=True,
    vocab_size=97,
)
"""Of all families but GPT-2, which has other names: odd shapes."""

# As Transformers writes them.
GPT2 = dict(
    model_type="gpt2",
    architectures=["GPT2LMHeadModel"],
    activation_function="gelu_new",
    attn_pdrop=0.1,
    bos_token_id=96,
    embd_pdrop=0.1,
    eos_token_id=96,
    initializer_range=0.03,
    layer_norm_epsilon=1e-3,
    n_embd=60,
    n_head=6,
    n_inner=None,
    n_layer=2,
    n_positions=16,
    reorder_and_upcast_attn=False,
    resid_pdrop=0.1,
    scale_attn_by_inverse_layer_idx=False,
    scale_attn_weights=True,
    summary_activation=None,
    summary_first_dropout=0.1,
    summary_proj_to_labels=True,
    summary_type="cls_index",
    summary_use_proj=True,
    torch_dtype="float32",
    transformers_version="4.57.1",
    use_cache=True,
    vocab_size=97,
)
BERT = dict(
    **EXTENTS,
    model_type="bert",
    architectures=["BertForMaskedLM"],
    attention_probs_dropout_prob=0.1,
    classifier_dropout=None,
    gradient_checkpointing=False,
    hidden_act="gelu",
    hidden_dropout_prob=0.1,
    layer_norm_eps=1e-9,
    pad_token_id=3,
    position_embedding_type="absolute",
    transformers_version="4.57.1",
    type_vocab_size=2,
)
LLAMA = dict(
    **EXTENTS,
    model_type="llama",
    architectures=["LlamaForCausalLM"],
    attention_bias=False,
    attention_dropout=0.0,
    bos_token_id=1,
    dtype="bfloat16",
    eos_token_id=[2, 3],
    head_dim=10,
    hidden_act="silu",
    mlp_bias=False,
    num_key_value_heads=2,
    pretraining_tp=1,
    rms_norm_eps=1e-5,
    rope_parameters=dict(rope_theta=5000.0, rope_type="default"),
    tie_word_embeddings=True,
    transformers_version="5.0.0",
)
MISTRAL = dict(LLAMA, model_type="mistral", architectures=["MistralForCausalLM"])
del MISTRAL["attention_bias"], MISTRAL["mlp_bias"], MISTRAL["pretraining_tp"]
MISTRAL.update(sliding_window=None, tie_word_embeddings=False)
QWEN2 = dict(LLAMA, model_type="qwen2", architectures=["Qwen2ForCausalLM"])
for name in ("attention_bias", "mlp_bias", "pretraining_tp", "head_dim"):
    del QWEN2[name]
QWEN2.update(
    layer_types=["full_attention", "full_attention"],
    max_window_layers=1,
    sliding_window=None,
    use_sliding_window=False,
)
QWEN3 = dict(
    QWEN2,
    model_type="qwen3",
    architectures=["Qwen3ForCausalLM"],
    attention_bias=False,
    head_dim=14,
    tie_word_embeddings=False,
)
PHI = dict(
    **EXTENTS,
    model_type="phi",
    architectures=["PhiForCausalLM"],
    attention_dropout=0.0,
    embd_pdrop=0.0,
    hidden_act="gelu_new",
    layer_norm_eps=1e-4,
    num_key_value_heads=6,
    partial_rotary_factor=0.4,
    qk_layernorm=False,
    resid_pdrop=0.0,
    rope_scaling=None,
    rope_theta=10000.0,
    tie_word_embeddings=False,
)
PHI_MSFT = dict(
    model_type="phi-msft",
    architectures=["PhiForCausalLM"],
    activation_function="gelu_new",
    attn_pdrop=0.0,
    auto_map={"AutoConfig": "configuration_phi.PhiConfig"},
    embd_pdrop=0.0,
    flash_attn=False,
    flash_rotary=False,
    fused_dense=False,
    initializer_range=0.02,
    layer_norm_epsilon=1e-4,
    n_embd=60,
    n_head=6,
    n_head_kv=None,
    n_inner=70,
    n_layer=2,
    n_positions=16,
    resid_pdrop=0.0,
    rotary_dim=4,
    tie_word_embeddings=False,
    vocab_size=97,
)
"""As in the folders before Transformers had the class."""
NEOX = dict(
    **EXTENTS,
    model_type="gpt_neox",
    architectures=["GPTNeoXForCausalLM"],
    attention_bias=True,
    attention_dropout=0.0,
    bos_token_id=0,
    classifier_dropout=0.1,
    eos_token_id=0,
    hidden_act="gelu",
    hidden_dropout=0.0,
    layer_norm_eps=1e-4,
    rope_scaling=None,
    rotary_emb_base=10000,
    rotary_pct=0.4,
    tie_word_embeddings=False,
    torch_dtype="float16",
    use_parallel_residual=True,
)
SHAPE = "--layers 2 --hidden 60 --heads 6 --seq 16 --vocab 97 --batch 3 "
FAMILIES = {
    "gpt2": (GPT2, "gpt2 " + SHAPE + "--init-std 0.03 --norm-eps 1e-3"),
    "bert": (BERT, "bert " + SHAPE + "--ffn 70 --norm-eps 1e-9 --pad-token 3"),
    "llama": (
        LLAMA,
        "llama " + SHAPE + "--kv-heads 2 --ffn 70 --norm-eps 1e-5 --rope-theta 5000 --tied",
    ),
    "mistral": (
        MISTRAL,
        "llama " + SHAPE + "--kv-heads 2 --ffn 70 --norm-eps 1e-5 --rope-theta 5000",
    ),
    "qwen2": (
        QWEN2,
        "llama " + SHAPE + "--kv-heads 2 --ffn 70 --norm-eps 1e-5 --rope-theta 5000 --tied"
        " --qkv-bias",
    ),
    "qwen3": (
        QWEN3,
        "llama " + SHAPE + "--kv-heads 2 --ffn 70 --norm-eps 1e-5 --rope-theta 5000"
        " --head-dim 14 --qk-norm",
    ),
    "phi": (PHI, "phi " + SHAPE + "--ffn 70 --norm-eps 1e-4 --rotary-dim 4"),
    "gpt_neox": (NEOX, "gpt_neox " + SHAPE + "--ffn 70 --norm-eps 1e-4 --rotary-dim 4"),
}
