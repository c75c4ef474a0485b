#!/usr/bin/env python3
# ===- few_bits.py - The loss of four bits here and in llama.cpp --------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The loss of one model on held-out verses of the Bible with weights of `--weights int8`
and `int4`, beside Q8_0 and Q4_0 of the same parameters in llama.cpp: llama-quantize's,
--pure, computed by PyPI's cyllama.

    "$(bench/peers/setup)" bench/peers/few_bits.py --llama "$(bench/peers/setup-llama)" --build build

The model is that of `scripts/quickstart`, trained serially; windows of 128 bytes are scored
by themselves. llama.cpp rounds activations to eight bits as it multiplies; here they stay
f32. Fails where int8 costs more than 0.002 nats a byte over f32, int4 more than 0.1, or
more than llama.cpp's Q4_0 by 0.005. Prints a table.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import ROOT, Tools, run, table  # noqa: E402
from llama_cpp import Gguf, llama_cpp  # noqa: E402
from verses import verses  # noqa: E402

WINDOW = 128
WIDTHS = {"f32": ([], "F32"), "int8": (["--weights", "int8"], "Q8_0"),
          "int4": (["--weights", "int4"], "Q4_0")}
MOST = {"int8": 0.002, "int4": 0.1}
MOST_OVER_PEER = 0.005


def loss_in_llama_cpp(file, tokens):
    """Nats a token, of windows by themselves."""
    gguf, total, count = Gguf(file, WINDOW), 0.0, 0
    for begin in range(0, len(tokens) - 1, WINDOW):
        part = tokens[begin : begin + WINDOW + 1]
        logits = gguf.logits(part[:-1]).astype(np.float64)
        most = logits.max(1, keepdims=True)
        norms = np.log(np.exp(logits - most).sum(1)) + most[:, 0]
        total += (norms - logits[np.arange(len(logits)), part[1:]]).sum()
        count += len(logits)
    return total / count


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--llama", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--bytes", type=int, default=1 << 16, help="that are scored")
    options = parser.parse_args()
    tools, lines = Tools(options.build), verses()
    llama_cpp.disable_logging()
    losses = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        held_out = len(lines) // 20
        data, scored = folder / "text.txt", folder / "heldout.jsonl"
        data.write_bytes(b"\n".join(lines[:-held_out]))
        tokens = list(b"\n".join(lines[-held_out:])[: options.bytes + 1])
        scored.write_text(json.dumps(tokens))
        sizes = dict(layers=4, hidden=192, heads=6, seq=WINDOW, vocab=256, batch=16)
        trained, saved, wide = folder / "train.so", folder / "saved", folder / "F32.gguf"
        tools.compile(tools.build_model(folder / "t.mlir", functions="loss", **sizes), trained)
        tools.train(trained, data, folder / "log.json", "--steps", options.steps, "--lr", 3e-3,
                    "--warmup", 50, "--schedule", "cosine", "--save", folder / "state")
        run([tools.path("run"), "convert", trained, "--load", folder / "state", "--save", saved])
        environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
        run([sys.executable, "-m", "optimus.models", "to-gguf", saved, "--type", "f32",
             "-o", wide], env=environment)
        source = tools.build_model(
            folder / "g.mlir", generate=f"slots=1,context={WINDOW},chunk={WINDOW}", **sizes)
        for width, (flags, kind) in WIDTHS.items():
            library, file = folder / "g.so", folder / (kind + ".gguf")
            tools.compile(source, library, *flags)
            said = run([tools.path("run"), "score", library, "--load", saved, "--tokens", scored,
                        "--stride", WINDOW])
            if kind != "F32":
                run([options.llama / "llama-quantize", "--pure", wide, file, kind])
            ours = -json.loads(said)["log_probability"] / options.bytes
            losses[width] = ours, loss_in_llama_cpp(file, tokens)
    rows, wrong = [], []
    for width, (ours, theirs) in losses.items():
        more = [one - wide for one, wide in zip((ours, theirs), losses["f32"])]
        rows.append([width, WIDTHS[width][1], f"{ours:.5f}", f"{more[0]:.5f}", f"{theirs:.5f}",
                     f"{more[1]:.5f}"])
        if more[0] > MOST.get(width, 0):
            wrong.append(f"{width} costs {more[0]:.5f} nats")
    if losses["int4"][0] > losses["int4"][1] + MOST_OVER_PEER:
        wrong.append("int4 costs more than llama.cpp's")
    print(table(["weights", "llama.cpp's", "loss", "more than f32", "llama.cpp's loss",
                 "more than f32"], rows))
    for each in wrong:
        print(each, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
