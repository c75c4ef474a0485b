#!/usr/bin/env python3
# ===- transformers_folders.py - Folders that go to Transformers and back -----===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Ten steps of each family, and the folder of `train --save` in Transformers'
from_pretrained(), as it is: no tensor is missing, unexpected, of another shape or
drawn, and in f64 the logits are those of our library, in f32. So are they of the same
folder after `convert --save-dtype bf16 --save-shard 8KB`, for the rounded parameters.

Then the other way: save_pretrained() in bf16 and in several files, the program by
`from-hf`, and our logits against the class's. What is written from there opens again.

    "$(bench/peers/setup)" bench/peers/transformers_folders.py --build build

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
import torch
import transformers

from transformers_checkpoints import REPOSITORY, run, tokens_of

SHAPE = "--layers 2 --hidden 48 --heads 6 --seq 16 --vocab 256 --batch 4"
LLAMA = SHAPE + " --kv-heads 2 --ffn 40 --rope-theta 5000"
FAMILIES = {
    "gpt2": ("gpt2 " + SHAPE + " --dropout 0.1", "AutoModelForCausalLM"),
    "bert": ("bert " + SHAPE + " --ffn 40 --pad-token 1", "AutoModelForMaskedLM"),
    "llama": ("llama " + LLAMA + " --tied", "AutoModelForCausalLM"),
    "llama-stretched": (
        "llama " + LLAMA + " --rope-scaling llama3:8,1,4,64",
        "AutoModelForCausalLM",
    ),
    "mistral": ("llama " + LLAMA + " --window 5", "AutoModelForCausalLM"),
    "qwen2": ("llama " + LLAMA + " --qkv-bias", "AutoModelForCausalLM"),
    "qwen3": ("llama " + LLAMA + " --qk-norm --head-dim 14", "AutoModelForCausalLM"),
    "phi": ("phi " + SHAPE + " --rotary-dim 4", "AutoModelForCausalLM"),
    "gpt_neox": ("gpt_neox " + SHAPE + " --rotary-dim 4", "AutoModelForCausalLM"),
    "gpt_neox-sequential": (
        "gpt_neox " + SHAPE + " --rotary-dim 6 --sequential --no-attention-bias --tied",
        "AutoModelForCausalLM",
    ),
}
TOLERANCE = 1e-6
"""Of the largest logit: some sixteen roundings of f32."""


class Peer:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.data = folder / "data.txt"
        letters = random.Random(5)
        # 16 windows and the last target.
        self.data.write_bytes(bytes(letters.randrange(97, 123) for _ in range(257)))

    def compile(self, name, *builder, lora=None):
        environment = dict(os.environ, PYTHONPATH=str(REPOSITORY / "python"))
        program, library = (self.folder / (name + end) for end in (".mlir", ".so"))
        flags = ["--functions", "loss,forward", "-o", program]
        module = ["/usr/bin/python3", "-m", "optimus.models"]
        run(*module, *builder, *flags, env=environment)
        adapters = ["--lora", lora] if lora else []
        run(self.build / "bin/optimus-compile", program, *adapters, "-o", library)
        return library

    def optimus(self, command, *flags):
        return run(self.build / "bin/optimus-run", command, *flags)

    def logits(self, library, weights):
        output = self.folder / "logits.npy"
        flags = ["--data", self.data, "--load", weights, "-o", output]
        self.optimus("forward", library, *flags)
        return np.load(output)

    def theirs(self, weights, automatic):
        """The class's logits, in f64, and the class."""
        model, report = getattr(transformers, automatic).from_pretrained(
            weights, output_loading_info=True
        )
        wrong = {name: found for name, found in report.items() if found}
        if wrong:
            raise SystemExit("%s: %s" % (weights, wrong))
        with torch.no_grad():
            logits = model.eval().double()(tokens_of(self.data)[0]).logits.numpy()
        return logits, model


def off(ours, theirs):
    """Of the largest logit."""
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def check(flags, automatic, build, folder):
    peer = Peer(build, folder)
    library = peer.compile("own", *flags.split())
    out, half = folder / "out", folder / "half"
    train = ["--data", peer.data, "--steps", 10, "--lr", 0.01, "--save", out]
    peer.optimus("train", library, *train)
    found = []
    logits, model = peer.theirs(out, automatic)
    found.append(off(peer.logits(library, out), logits))
    shorter = ["--save-dtype", "bf16", "--save-shard", "8KB"]
    peer.optimus("convert", "--load", out, "--save", half, *shorter)
    assert len(list(half.glob("model-*"))) > 2
    found.append(off(peer.logits(library, half), peer.theirs(half, automatic)[0]))

    back, again = folder / "back", folder / "again"
    model.bfloat16().save_pretrained(back, max_shard_size="8KB")
    assert len(list(back.glob("model-*"))) > 2
    library = peer.compile("theirs", "from-hf", back, "--batch", 4)
    logits, _ = peer.theirs(back, automatic)
    found.append(off(peer.logits(library, back), logits))
    train = ["--data", peer.data, "--steps", 0, "--load-weights", back, "--save", again]
    peer.optimus("train", library, *train)
    assert (peer.theirs(again, automatic)[0] == logits).all()
    config = json.loads((again / "config.json").read_text())
    return type(model).__name__, config, found


def read_build(description):
    """The folder of --build. Transformers says mistakes alone from here on."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return parser.parse_args().build


def main():
    build = read_build(__doc__)
    wrong = 0
    for family, (flags, automatic) in FAMILIES.items():
        with tempfile.TemporaryDirectory() as name:
            known, config, found = check(flags, automatic, build, pathlib.Path(name))
        if config["model_type"] != family.partition("-")[0]:
            raise SystemExit("%s became %s" % (family, config["model_type"]))
        cells = (known, transformers.__version__, *("%.1e" % one for one in found))
        print("| %s |" % " | ".join(cells), flush=True)
        wrong += max(found) > TOLERANCE
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
