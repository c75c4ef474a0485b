#!/usr/bin/env python3
# ===- gguf_files.py - What to-gguf writes, in llama.cpp --------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains ten steps of each family, writes the folder as a GGUF file in f32, and opens
it in llama.cpp: its logits, with keys and values in f32, must be those of our library,
and its greedy text ours.

    scripts/setup --python=full
    "$(bench/peers/setup-llama)" bench/peers/gguf_files.py --build build

Prints a row of a table for each family.
"""

import argparse
import json
import os
import pathlib
import random
import sys
import tempfile

import numpy as np
import llama_cpp

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import ROOT, fail, run  # noqa: E402

CONTEXT, NEW = 16, 8
SHAPE = f"--layers 2 --hidden 192 --heads 6 --seq {CONTEXT} --vocab 256 --batch 4"
LLAMA = SHAPE + " --kv-heads 2 --ffn 160 --rope-theta 5000"
FAMILIES = {
    "gpt2": "gpt2 " + SHAPE,
    "llama": "llama " + LLAMA,
    "llama, tied": "llama " + LLAMA + " --tied",
    "llama, rope_scaling llama3": "llama " + LLAMA + " --rope-scaling llama3:8,1,4,64",
    "qwen2": "llama " + LLAMA + " --qkv-bias",
    "qwen3": "llama " + LLAMA + " --qk-norm --head-dim 16",
}
TOLERANCE = {"gpt2": 5e-5, "llama": 2e-6, "qwen2": 2e-6, "qwen3": 2e-6}
"""Of the largest logit: both sides compute in f32, in orders of their own; but
llama.cpp looks GPT-2's GELU up in a table by arguments in f16."""


class Model:
    """A family after ten steps of training, as a library and as a GGUF file."""

    def __init__(self, build, folder, flags):
        self.run = build / "bin/optimus-run"
        self.folder, self.data = folder, folder / "data.txt"
        letters = random.Random(5)
        # 16 windows and the last target.
        text = bytes(letters.randrange(97, 123) for _ in range(16 * CONTEXT + 1))
        self.data.write_bytes(text)
        self.weights, program = folder / "weights", folder / "m.mlir"
        self.library, self.file = folder / "m.so", folder / "m.gguf"
        environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
        models = ["/usr/bin/python3", "-m", "optimus.models"]
        functions = ["--functions", "loss,forward", "-o", program]
        functions += ["--generate", f"slots=1,context={CONTEXT},chunk=8"]
        run([*models, *flags.split(), *functions], env=environment)
        run([build / "bin/optimus-compile", program, "-o", self.library])
        training = ["--data", self.data, "--steps", 10, "--lr", 0.01]
        run([self.run, "train", self.library, *training, "--save", self.weights])
        gguf = ["to-gguf", self.weights, "--type", "f32", "-o", self.file]
        run([*models, *gguf], env=environment)

    def windows(self):
        tokens = np.frombuffer(self.data.read_bytes(), np.uint8)[:-1]
        return tokens.reshape(-1, CONTEXT).tolist()

    def logits(self):
        found = self.folder / "logits.npy"
        flags = ["--data", self.data, "--load", self.weights, "-o", found]
        run([self.run, "forward", self.library, *flags])
        return np.load(found)

    def texts(self):
        """Greedy, behind the first half of each window."""
        prompts = self.folder / "prompts.jsonl"
        lines = (json.dumps(window[:-NEW]) for window in self.windows())
        prompts.write_text("\n".join(lines))
        flags = ["--tokens", prompts, "--max-tokens", NEW]
        said = run([self.run, "generate", self.library, "--load", self.weights, *flags])
        return [json.loads(line)["tokens"] for line in said.splitlines()]


class Peer:
    """The file in llama.cpp."""

    def __init__(self, file):
        self.model = llama_cpp.Llama(
            str(file),
            n_ctx=CONTEXT,
            n_batch=CONTEXT,
            logits_all=True,
            type_k=llama_cpp.GGML_TYPE_F32,
            type_v=llama_cpp.GGML_TYPE_F32,
            flash_attn=False,
            verbose=False,
        )

    def logits(self, tokens):
        self.model.reset()
        self.model.eval(tokens)
        return np.array(self.model.scores[: len(tokens)])

    def text(self, prompt):
        tokens = list(prompt)
        for _ in range(NEW):
            tokens.append(int(self.logits(tokens)[-1].argmax()))
        return tokens[len(prompt) :]


def check(build, folder, flags):
    """What llama.cpp calls the family, how far logits differ, and equal texts."""
    model = Model(build, folder, flags)
    peer = Peer(model.file)
    windows = model.windows()
    theirs = np.stack([peer.logits(window) for window in windows])
    off = np.abs(model.logits().reshape(theirs.shape) - theirs).max()
    texts = [peer.text(window[:-NEW]) for window in windows]
    equal = sum(a == b for a, b in zip(model.texts(), texts))
    kind = peer.model.metadata["general.architecture"]
    return kind, float(off / np.abs(theirs).max()), equal, len(texts)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options = parser.parse_args()
    wrong = []
    for family, flags in FAMILIES.items():
        with tempfile.TemporaryDirectory() as name:
            kind, off, equal, count = check(options.build, pathlib.Path(name), flags)
        print(f"| {family} | {kind} | {off:.1e} | {equal} of {count} |", flush=True)
        if kind != family.partition(",")[0] or off > TOLERANCE[kind] or equal < count:
            wrong.append(family)
    if wrong:
        fail("llama.cpp differs: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
