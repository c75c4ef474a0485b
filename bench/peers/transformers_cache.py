#!/usr/bin/env python3
# ===- transformers_cache.py - Generation beside Transformers' cache ----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Prompts in chunks and tokens one by one, in Transformers with its cache of keys and
values, in f64, and here, in f32: the logits of each new token, for each causal family,
serially and on 2×2 ranks.

    "$(bench/peers/setup)" bench/peers/transformers_cache.py --build build

Prints a row of a table for each family; fails beyond 1e-6 of the largest logit.
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers
from transformers_checkpoints import run
from transformers_folders import FAMILIES, TOLERANCE, Peer, off, read_build

PROMPT, NEW, CHUNK = 9, 7, 4
SLOTS = f"slots=4,context=16,chunk={CHUNK}"
LAYOUTS = {
    "serial": [],
    "2×2": ["--mesh", "row:2,col:2", "--strategy", "summa,decode=stationary"],
}


def theirs(model, tokens):
    """The logits of each new token."""
    cache, found = transformers.DynamicCache(config=model.config), []
    chunks = [*range(0, PROMPT, CHUNK), *range(PROMPT, PROMPT + NEW)]
    with torch.no_grad():
        for begin, end in zip(chunks, chunks[1:]):
            part = torch.tensor([tokens[begin:end]])
            said = model(input_ids=part, past_key_values=cache, use_cache=True)
            if end >= PROMPT:
                found.append(said.logits[0, -1].numpy())
    return np.array(found)


def ours(peer, library, weights, prompt):
    """The new tokens, and the logits of each."""
    prompts, logits = peer.folder / "prompts.jsonl", peer.folder / "logits.npy"
    prompts.write_text(json.dumps(prompt))
    flags = ["--tokens", prompts, "--max-tokens", NEW, "--logits", logits, "--load", weights]
    said = json.loads(peer.optimus("generate", library, *flags))
    return said["tokens"], np.load(logits)


def check(flags, automatic, build, folder):
    peer = Peer(build, folder)
    out = folder / "out"
    library = peer.compile("own", *flags.split(), "--generate", SLOTS)
    train = ["--data", peer.data, "--steps", 10, "--lr", 0.01, "--save", out]
    peer.optimus("train", library, *train)
    model = getattr(transformers, automatic).from_pretrained(out).eval().double()
    prompt = list(peer.data.read_bytes()[:PROMPT])
    for name, more in LAYOUTS.items():
        generation = folder / "generation.so"
        run(build / "bin/optimus-compile", folder / "own.mlir", *more, "-o", generation)
        tokens, logits = ours(peer, generation, out, prompt)
        yield name, off(logits, theirs(model, [*prompt, *tokens]))


def main():
    build = read_build(__doc__)
    wrong = 0
    for family, (flags, automatic) in FAMILIES.items():
        if automatic != "AutoModelForCausalLM":
            continue
        with tempfile.TemporaryDirectory() as name:
            found = dict(check(flags, automatic, build, pathlib.Path(name)))
        cells = (family, transformers.__version__, *("%.1e" % one for one in found.values()))
        print("| %s |" % " | ".join(cells), flush=True)
        wrong += max(found.values()) > TOLERANCE
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
