#!/usr/bin/env python3
# ===- llama_cpp.py - What is trained here, in llama.cpp ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A short training of each family of `optimus.models to-gguf`, its file in llama.cpp, by
PyPI's cyllama: the logits of a window beside Transformers, and the greedy text after a
prompt beside `optimus-run`.

    "$(bench/peers/setup)" bench/peers/llama_cpp.py --build build

Prints a row of a table for each family and type of file.
"""

import os
import pathlib
import sys
import tempfile

import numpy as np
import torch
from cyllama.llama import llama_cpp
from peft_adapters import FAMILIES, NEW, PROMPT, AdapterPeer, open_base
from transformers_checkpoints import REPOSITORY, run
from transformers_folders import read_build

KINDS = ["gpt2", "llama", "qwen2", "qwen3"]
TYPES = ["f32", "f16"]
TOLERANCE = {"f32": 1e-4, "f16": 1e-3}
"""Of the largest logit. llama.cpp computes in f32 here, but for GELU, which it looks up in a
table of f16; files of f16 round the weights once, to 2^-11."""


class Model(llama_cpp.LlamaModel):
    """With what cyllama 0.2.18 asks of one, and has not."""

    @property
    def n_vocab(self):
        return self.get_vocab().n_vocab


class Gguf:
    """A file in llama.cpp, on one thread, with keys and values kept in f32."""

    def __init__(self, path, context=64):
        chosen = llama_cpp.LlamaModelParams()
        chosen.n_gpu_layers = 0
        self._model = Model(str(path), chosen, verbose=False)
        chosen = llama_cpp.LlamaContextParams()
        chosen.n_ctx = chosen.n_batch = context
        chosen.n_threads = chosen.n_threads_batch = 1
        chosen.type_k = chosen.type_v = chosen.flash_attn_type = 0
        self._context = llama_cpp.LlamaContext(self._model, chosen, verbose=False)

    def logits(self, tokens):
        """Of all tokens of one text."""
        self._context.kv_cache_clear()
        batch = llama_cpp.LlamaBatch(n_tokens=len(tokens), embd=0, n_seq_max=1)
        batch.set_batch(list(map(int, tokens)), 0, True)
        assert self._context.decode(batch) == 0
        return np.array([self._context.get_logits_ith(i) for i in range(len(tokens))])

    def text(self, prompt):
        found = list(prompt)
        while len(found) < len(prompt) + NEW:
            found.append(int(self.logits(found)[-1].argmax()))
        return found[len(prompt) :]


def check(family, build, folder):
    flags, _ = FAMILIES[family]
    peer = AdapterPeer(build, folder)
    library = peer.compile("own", *flags.split(), "--generate", "slots=1,context=64,chunk=16")
    saved, plain = folder / "saved", folder / "plain"
    train = ["--data", peer.data, "--steps", 60, "--lr", 0.003, "--save", saved]
    peer.optimus("train", library, *train)
    peer.optimus("convert", "--load", saved, "--save", plain)
    environment = dict(os.environ, PYTHONPATH=str(REPOSITORY / "python"))
    window, prompt = peer.tokens[:64], peer.tokens[:PROMPT].tolist()
    ours = peer.text(library, plain)
    model = open_base(plain)
    with torch.no_grad():
        exact = model.eval()(input_ids=torch.from_numpy(window[None])).logits[0].numpy()
    for kind in TYPES:
        file = folder / (kind + ".gguf")
        command = [sys.executable, "-m", "optimus.models", "to-gguf", plain]
        run(*command, "--type", kind, "-o", file, env=environment)
        gguf = Gguf(file)
        found = gguf.logits(window)
        off = float(np.abs(found - exact).max() / np.abs(exact).max())
        yield kind, off, gguf.text(prompt) == ours


def main():
    build = read_build(__doc__)
    llama_cpp.disable_logging()
    wrong = 0
    for family in KINDS:
        with tempfile.TemporaryDirectory() as name:
            for kind, off, is_same in check(family, build, pathlib.Path(name)):
                print("| %s | %s | %.1e | %s |" % (family, kind, off, "yes" if is_same else "no"))
                wrong += off > TOLERANCE[kind] or not is_same
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
