#!/usr/bin/env python3
# ===- torch_rates.py - Prompts and tokens of GPT-2 in PyTorch ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""GPT-2 124M in PyTorch on the CPU, compiled, with a static cache: tokens a second of a
prompt of 512, and of 128 new ones after each other. `llama_rates.py --torch` runs it.

A prompt has the logits of its last token. Keys and values of new tokens go into a cache of
128, the least for all of them. By default the compiler packs parameters as constants
(`freezing`). Weights are drawn. Standard output has {"ready": true, …}, and then, for each line of standard input,
{"pp512": …, "tg128": …}.
"""

import argparse
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, HIDDEN, HEADS, VOCABULARY, CONTEXT = 12, 768, 12, 50257, 1024
PROMPT, NEW = 512, 128
MODES = {
    "eager": None,
    "default": {},
    "freezing": {"options": {"freezing": True}},
    "max-autotune": {"options": {"freezing": True, "max_autotune": True}},
}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.c_attn, self.attn_proj = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.c_fc, self.mlp_proj = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x, positions, cache, mask):
        b, s, h = x.shape
        qkv = self.c_attn(self.ln_1(x)).view(b, s, 3, HEADS, h // HEADS)
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        if mask is None:
            # A prompt from position 0 on sees itself.
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            cache[0][:, :, :s] = k
            cache[1][:, :, :s] = v
        else:
            for part, new in zip(cache, (k, v)):
                part.index_copy_(2, positions, new)
            y = F.scaled_dot_product_attention(q, *cache, attn_mask=mask)
        x = x + self.attn_proj(y.transpose(1, 2).reshape(b, s, h))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, HIDDEN), nn.Embedding(CONTEXT, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(HIDDEN)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.02)
        for layer in range(LAYERS):
            for name in "kv":
                cache = torch.zeros(1, HEADS, tokens, HIDDEN // HEADS)
                self.register_buffer(f"{name}{layer}", cache)
        self.register_buffer("seen", torch.ones(tokens, tokens).tril().bool())

    def forward(self, tokens, positions):
        """Logits behind the last of [1, s] tokens at positions [s]."""
        mask = self.seen[positions] if tokens.shape[1] == 1 else None
        x = self.wte(tokens) + self.wpe(positions)
        for layer, block in enumerate(self.blocks):
            cache = getattr(self, f"k{layer}"), getattr(self, f"v{layer}")
            x = block(x, positions, cache, mask)
        return F.linear(self.ln_f(x[:, -1:]), self.wte.weight)


class Timed:
    """A function of so many tokens a call, called until it has had as many as asked for."""

    def __init__(self, options, tokens, size):
        torch.manual_seed(1)
        self._model = Gpt2(tokens).eval()
        if options.precision == "bf16":
            self._model.bfloat16()
        self._tokens = torch.randint(0, VOCABULARY, (1, tokens))
        self._positions = torch.arange(tokens)
        self._size = size
        flags = MODES[options.mode]
        self._call = self._model if flags is None else torch.compile(
            self._model, fullgraph=True, dynamic=False, **flags)

    def run(self):
        """Tokens a second."""
        begin = time.perf_counter()
        for parts in zip(self._tokens.split(self._size, 1), self._positions.split(self._size)):
            self._call(*parts)
        return self._tokens.shape[1] / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--mode", choices=list(MODES), default="freezing")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with torch.no_grad():
        timed = {"pp512": Timed(options, PROMPT, PROMPT), "tg128": Timed(options, NEW, 1)}
        for one in timed.values():
            one.run()
        print(json.dumps({"ready": True, "torch": torch.__version__}), flush=True)
        for _ in sys.stdin:
            print(json.dumps({name: one.run() for name, one in timed.items()}), flush=True)


if __name__ == "__main__":
    main()
