# ===- generation_models.py - Small models that generate ------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Small models with slots, trained a little, and their answers to prompts."""

import json

import numpy as np

from tools import Checkpoint, LlamaModel, Model, NeoxModel, PhiModel, call, succeed

# The 6 tokens of a prompt are prefilled, in two chunks; 7 new ones follow.
PROMPT, NEW, WHOLE = 6, 7, 12
EXTENTS = "slots=3,context=12,chunk=3"
SLOTS, CHUNK = 3, 3
MODELS = {
    "gpt2": Model(2, 16, 4, sequence=WHOLE, vocabulary=19, batch=2, dropout=0.25),
    "llama": LlamaModel(2, 16, 4, 2, ffn=20, sequence=WHOLE, vocabulary=13, batch=2),
    "mistral": LlamaModel(2, 24, 6, 3, 20, WHOLE, 13, batch=2, window=4),
    "qwen2": LlamaModel(2, 16, 4, 2, 20, WHOLE, 13, batch=2, tied=True, qkv_bias=True),
    # As Qwen3, with heads wider than their part of hidden and stretched positions.
    "qwen3": LlamaModel(
        *(2, 16, 4, 2, 20, WHOLE, 13),
        **dict(batch=2, head_dim=6, qk_norm=True, rope_scaling="linear:2.5")
    ),
    "phi": PhiModel(1, 12, 3, sequence=WHOLE, vocabulary=11, batch=2, rotary_dim=2, ffn=7),
    "gpt_neox": NeoxModel(1, 12, 3, WHOLE, 11, batch=2, rotary_dim=2, ffn=7),
}
LAYOUTS = [
    (None, "serial"),
    ("row:2,col:2", "summa"),
    ("row:1,col:4", "megatron"),
    ("row:2,col:2", "summa,decode=stationary"),
]


def trained_in(tools, parent):
    """By model: a checkpoint of some steps, in a folder, and the rounding of logits in
    f32."""
    known = {}

    def get(name):
        if name not in known:
            model, folder = MODELS[name], parent / name
            library = tools.library(model, functions="loss,forward")
            tokens = folder.with_suffix(".bin")
            values = np.random.default_rng(8).integers(0, model.vocabulary, 600)
            values.astype(np.uint16).tofile(tokens)
            tools.train(library, tokens, 20, "--lr", 0.03, "--save", folder,
                        log=folder.with_suffix(".log"))
            rounding = tools.rounding(library)
            known[name] = Checkpoint(folder), rounding
        return known[name]

    return get


def run_generate(tools, library, state, tmp_path, prompts, *flags, prefix=(), env=None):
    """The answers to prompts."""
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    command = tools.command(
        "optimus-run", "generate", library, "--load", state.folder, "--tokens", file, *flags
    )
    said = succeed(call([*prefix, *command], env=env))
    return [json.loads(line) for line in said.splitlines()]


def generate(tools, library, state, tmp_path, prompts, *flags, **how):
    """The answers to prompts, and the logits of each choice."""
    logits = tmp_path / "logits.npy"
    flags = ["--logits", logits, *flags]
    answers = run_generate(tools, library, state, tmp_path, prompts, *flags, **how)
    ends = np.cumsum([len(answer["tokens"]) for answer in answers])
    return answers, np.split(np.load(logits), ends[:-1])


def draw_prompts(model, count, seed=2, size=PROMPT):
    random = np.random.default_rng(seed)
    return [random.integers(0, model.vocabulary, size).tolist() for _ in range(count)]
