#!/usr/bin/env python3
# ===- transformers_checkpoints.py - Our checkpoints in Transformers' classes ===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Loads a checkpoint of each family into the class of Transformers that has its
names, strictly: no tensor is missing, unexpected or of another shape. The class, in
f64, must then have the logits of our library, in f32, and of the interpreter, in f64,
and the models for the next token our loss.

    "$(bench/peers/setup)" bench/peers/transformers_checkpoints.py --build build

With --write FILE it writes the classes' names and shapes instead, which
python/tests/transformers_classes.json has for the tests.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import load_file

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "python/tests"))
from families_reference import unpacked  # noqa: E402

PARALLEL = dict(
    num_hidden_layers=2,
    hidden_size=48,
    num_attention_heads=3,
    intermediate_size=40,
    max_position_embeddings=16,
    vocab_size=256,
)
"""Of the classes whose feed-forward part stands beside attention."""
# Epsilon and base are those of the builders, which the classes' defaults are not
# all.
FAMILIES = {
    "gpt2": dict(
        name="GPT2Model",
        flags="--layers 2 --hidden 24 --heads 3 --seq 16 --vocab 256 --batch 4",
        config=transformers.GPT2Config(
            n_layer=2, n_embd=24, n_head=3, n_positions=16, vocab_size=256
        ),
    ),
    "bert": dict(
        name="BertForMaskedLM",
        flags="--layers 2 --hidden 24 --heads 3 --seq 16 --vocab 257 --batch 4",
        config=transformers.BertConfig(
            num_hidden_layers=2,
            hidden_size=24,
            num_attention_heads=3,
            intermediate_size=96,
            max_position_embeddings=16,
            vocab_size=257,
        ),
    ),
    "llama": dict(
        name="LlamaForCausalLM",
        flags="--layers 2 --hidden 24 --heads 4 --kv-heads 2 --ffn 40 --seq 16"
        " --vocab 256 --batch 4 --rope-theta 10000 --norm-eps 1e-6",
        config=transformers.LlamaConfig(
            num_hidden_layers=2,
            hidden_size=24,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=40,
            max_position_embeddings=16,
            vocab_size=256,
            rms_norm_eps=1e-6,
        ),
    ),
    "phi": dict(
        name="PhiForCausalLM",
        flags="--layers 2 --hidden 48 --heads 3 --ffn 40 --seq 16 --vocab 256"
        " --batch 4 --rope-theta 10000 --rotary-dim 8",
        config=transformers.PhiConfig(**PARALLEL),
    ),
    "gpt_neox": dict(
        name="GPTNeoXForCausalLM",
        # Transformers 5 renames it when it reads and writes files.
        in_files={"lm_head.weight": "embed_out.weight"},
        flags="--layers 2 --hidden 48 --heads 3 --ffn 40 --seq 16 --vocab 256"
        " --batch 4 --rope-theta 10000 --rotary-dim 4",
        config=transformers.GPTNeoXConfig(**PARALLEL),
    ),
}
TOLERANCE = 2e-5
"""Of a mean of some hundred f32 losses near 5, each with a few roundings."""
LOGITS_TOLERANCE = 1e-6
"""Of the largest logit: some sixteen roundings of f32. In f64 no digit of it shows."""
BATCH = 4
"""Of all families."""


def written():
    """The classes' tensors; those that are tied to another are no own ones."""
    classes = {}
    for family, known in FAMILIES.items():
        model = getattr(transformers, known["name"])(known["config"])
        classes[family] = {
            "class": known["name"],
            "flags": known["flags"].split(),
            "tensors": {
                name: list(one.shape) for name, one in parameters_of(model, known).items()
            },
        }
    source = "Transformers %s, bench/peers/transformers_checkpoints.py --write"
    return {"source": source % transformers.__version__, "classes": classes}


def parameters_of(model, known):
    """Under the names that files have."""
    names = known.get("in_files", {})
    return {names.get(name, name): one for name, one in model.named_parameters()}


def run(*command, **options):
    result = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        **options,
    )
    return result.stdout


def train(family, known, build, folder):
    """A checkpoint after three steps, and our loss on the data."""
    environment = dict(os.environ, PYTHONPATH=str(REPOSITORY / "python"))
    program, library, data = (folder / ("m" + end) for end in (".mlir", ".so", ".txt"))
    builder = ["/usr/bin/python3", "-m", "optimus.models", family, *known["flags"].split()]
    run(*builder, "--functions", "loss,forward", "-o", program, env=environment)
    run(build / "bin/optimus-compile", program, "-o", library)
    letters = random.Random(5)
    # 16 windows and the last target.
    data.write_bytes(bytes(letters.randrange(97, 123) for _ in range(16 * 16 + 1)))
    optimus = build / "bin/optimus-run"
    flags = ["--steps", 3, "--lr", 0.01, "--warmup", 0, "--save", folder / "ck"]
    run(optimus, "train", library, "--data", data, *flags)
    evaluated = run(
        *(optimus, "eval", library, "--data", data, "--load", folder / "ck", "--json")
    )
    state = load_file(folder / "ck/model.safetensors")
    output = folder / "logits.npy"
    run(optimus, "forward", library, "--data", data, "--load", folder / "ck", "-o", output)
    arrays = {name: tensor.numpy() for name, tensor in state.items()}
    heads = known["config"].num_attention_heads
    exact = interpret(program, unpacked(arrays, heads), tokens_of(data)[0], build, folder)
    return state, json.loads(evaluated)["loss"], data, [np.load(output), exact]


def interpret(program, state, inputs, build, folder):
    """The logits of the serial program in f64, a batch at a time."""
    given, made = folder / "in", folder / "out"
    given.mkdir()
    for name, value in state.items():
        np.save(given / (name + ".npy"), value)
    batches = []
    for batch in inputs.split(BATCH):
        np.save(given / "tokens.npy", batch.numpy().astype(np.int32))
        flags = ["--function", "forward", "--inputs", given, "--outputs", made]
        run(build / "bin/optimus-interpret", program, *flags)
        batches.append(np.load(made / "logits.npy"))
    return np.concatenate(batches)


def tokens_of(data):
    """Windows, and their targets."""
    tokens = torch.tensor(list(data.read_bytes()))
    return tokens[:-1].reshape(-1, 16), tokens[1:].reshape(-1, 16)


def loss_of(logits, targets):
    return float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()))


def check(family, known, build):
    """What differs, or None."""
    with tempfile.TemporaryDirectory() as name:
        tensors, ours, data, logits = train(family, known, build, pathlib.Path(name))
        base = getattr(transformers, known["name"])(known["config"]).eval()
        own = parameters_of(base, known)
        if set(own) != set(tensors):
            return "names: %s" % sorted(set(own) ^ set(tensors))
        # Tied ones follow.
        for name, parameter in own.items():
            if parameter.shape != tensors[name].shape:
                return "shape of %s: %s" % (name, list(tensors[name].shape))
            with torch.no_grad():
                parameter.copy_(tensors[name])
        model = base
        if family == "gpt2":
            model = transformers.GPT2LMHeadModel(known["config"]).eval()
            model.transformer = base
            model.lm_head.weight = base.wte.weight
        inputs, targets = tokens_of(data)
        with torch.no_grad():
            theirs = model.double()(inputs).logits
    off = [float(np.abs(one - theirs.numpy()).max() / theirs.abs().max()) for one in logits]
    print(
        "%-6s %-17s loads; logits off by %.1e of the largest in f32, %.1e in f64"
        % (family, known["name"], *off)
    )
    if max(off) > LOGITS_TOLERANCE:
        return "logits"
    if family == "bert":  # hides tokens at random
        return None
    loss = loss_of(theirs, targets)
    print("%-24s loss %.6f, ours %.6f" % ("", loss, ours))
    return None if abs(loss - ours) <= TOLERANCE else "loss"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    if options.write:
        text = json.dumps(written(), indent=1)
        # A list a line.
        text = re.sub(r"\[[^\[\]{}]*\]", lambda one: " ".join(one[0].split()), text)
        options.write.write_text(text + "\n")
        return 0
    wrong = 0
    for family, known in FAMILIES.items():
        difference = check(family, known, options.build)
        if difference:
            print("%s: %s differs: %s" % (family, known["name"], difference))
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
