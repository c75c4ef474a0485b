#!/usr/bin/env python3
# ===- torch_programs.py - Modules of PyTorch, trained by both ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Holds `optimus.from_torch` against PyTorch: modules are exported, and both train them
from the same parameters on the same batches.

    export OPTIMUS_BIN_DIR=build/bin PYTHONPATH=build/python:python
    "$(bench/peers/setup)" bench/peers/torch_programs.py > bench/results/torch_programs.md

Exits with 1 if losses, logits or parameters are further apart than f32 explains, or if
what has no equivalent is not said by its line.
"""

import contextlib
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import optimus

BATCH, SEQUENCE, VOCABULARY, STEPS = 4, 16, 61, 5
RATE = 0.1
BOUND = 2e-5
"""Of losses, and of logits and parameters, against their greatest element: some hundred
roundings of f32."""


TEXT = """# Modules of PyTorch, trained by both

`bench/peers/torch_programs.py`, PyTorch %s.

Each module is taken by `optimus.from_torch`, with its parameters, and both train it on the same batches, with the first targets of a sequence not counted: %d steps of plain SGD.
Figures are the greatest differences: of losses, of the first batch's logits against the greatest of them, and of a parameter after the steps against its greatest element.
The script fails beyond %.0e.

| module | mesh | losses | logits | parameters |
| --- | --- | --- | --- | --- |"""


class Mlp(nn.Module):
    """Of each token alone."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, 32)
        self.body = nn.Sequential(
            nn.Linear(32, 96), nn.GELU(), nn.Linear(96, 32), nn.LayerNorm(32)
        )
        self.head = nn.Linear(32, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.body(self.table(tokens)))


class Layer(nn.Module):
    """nanoGPT's: one linear for queries, keys and values."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = (
            part.view(b, s, self.heads, h // self.heads).transpose(1, 2)
            for part in self.c_attn(self.ln_1(x)).split(h, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(b, s, h))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """With learned positions and a tied head."""

    def __init__(self, width=32, heads=4, layers=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, width), nn.Embedding(SEQUENCE, width)
        self.h = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, VOCABULARY, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for layer in self.h:
            x = layer(x)
        return self.lm_head(self.ln_f(x))


class Grouped(nn.Module):
    """RMS norms, groups of heads, a gated feed-forward part."""

    def __init__(self, width=32, heads=4, groups=2):
        super().__init__()
        self.heads, self.groups, channels = heads, groups, width // heads
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.norm, self.norm_2 = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, groups * channels, bias=False)
        self.v = nn.Linear(width, groups * channels, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 80, bias=False) for _ in range(2))
        self.down, self.head = nn.Linear(80, width, bias=False), nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        x = self.tokens(tokens)
        y, cut = self.norm(x), lambda part, heads: part.unflatten(-1, (heads, -1)).transpose(1, 2)
        y = F.scaled_dot_product_attention(
            cut(self.q(y), self.heads),
            cut(self.k(y), self.groups),
            cut(self.v(y), self.groups),
            is_causal=True,
            enable_gqa=True,
        )
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm_2(x)
        return self.head(x + self.down(F.silu(self.gate(y)) * self.up(y)))


class Odd(nn.Module):
    """What has no equivalent."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(VOCABULARY, 8), nn.Linear(8, VOCABULARY)

    def forward(self, tokens):
        x = self.table(tokens)
        x = x.cumsum(dim=1)
        x = x + self.table(tokens.flip(1))
        return self.head(torch.tanh(x))


def apart(found, expected):
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def compare(make, mesh):
    """The greatest distances of losses, of logits and of parameters."""
    torch.manual_seed(0)
    module = make()
    draw = np.random.default_rng(0)
    batches = draw.integers(0, VOCABULARY, (STEPS, 2, BATCH, SEQUENCE))
    batches[:, 1, 0, :3] = -1
    model = optimus.from_torch(module, torch.from_numpy(batches[0][0]))
    library = optimus.compile(model.functions, mesh=mesh, optimizer="sgd")
    # A prompt's targets do not count.
    plain = dict(schedule="constant", warmup=0, clip=None, weight_decay=0.0, momentum=0.0)
    with optimus.Session(library, lr=RATE, **plain) as session:
        model.assign(session)
        descent = torch.optim.SGD(module.parameters(), lr=RATE)
        losses = []
        with torch.no_grad():
            logits = module(torch.from_numpy(batches[0][0])).numpy()
        distance = apart(session.forward(batches[0][0].astype(np.int32)), logits)
        for tokens, targets in batches:
            descent.zero_grad()
            out = module(torch.from_numpy(tokens)).flatten(0, 1)
            loss = F.cross_entropy(out, torch.from_numpy(targets).flatten(), ignore_index=-1)
            loss.backward()
            descent.step()
            ours = session.train_step(tokens, targets).loss
            losses.append(abs(ours - loss.item()))
        for name in model.weights:
            shards = session.parameters.shards
            for shard, array in zip(shards.dlpack(name), shards[name]):
                assert (torch.from_dlpack(shard).numpy() == array).all()
        parameters = dict(module.named_parameters())
        weights = max(
            apart(session.parameters[name], parameters[name].detach().numpy())
            for name in model.weights
        )
    return max(losses), distance, weights


def run_the_page():
    """The block of docs/python.md."""
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
    # What it prints is no figure.
    (code,) = re.findall(r"^<!-- needs: torch -->\n```python\n(.*?)^```$", page, re.M | re.S)
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus.txt"
        corpus.write_bytes(b"the quick brown fox " * 50)
        with contextlib.redirect_stdout(sys.stderr):
            exec(code.replace('"corpus.txt"', repr(str(corpus))), {"__name__": "page"})


def main():
    fine = True
    print(TEXT % (torch.__version__.split("+")[0], STEPS, BOUND))
    for make, mesh in (Mlp, None), (Gpt, None), (Gpt, "row:2,col:2"), (Grouped, "row:1,col:2"):
        found = compare(make, mesh)
        fine &= max(found) <= BOUND
        print("| %s | %s | %.1e | %.1e | %.1e |" % (make.__name__, mesh or "serial", *found))
    try:
        optimus.from_torch(Odd(), torch.zeros(BATCH, SEQUENCE, dtype=torch.int64))
        fine = False
    except optimus.ProgramError as error:
        print("\nWhat has no equivalent is said by its line:\n\n```\n%s\n```" % error)
        fine &= all(each in str(error) for each in ("cumsum", "flip", "tanh", "torch_programs.py:"))
    run_the_page()
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
