# ===- mesh_tokens - Tokens of a trained model on other meshes -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""How many of 10,000 tokens of a trained GPT-2 differ between meshes, which add in other
orders.

    bench/run mesh-tokens --write docs/inference.md

Trains the model of `scripts/quickstart` on verses of the Bible, and continues 100 beginnings
of others with 100 tokens each, on one rank and on each mesh: half of them greedy, half drawn.
Where a text differs, everything after its first other token has another prompt; so both are
counted, and of the first ones how far apart the two tokens' logits were on one rank. A token
that is drawn may differ at any margin: where u lies between two sums of probabilities.
Threads and chunks of a rank change no bit and are not among the meshes. Fails where a greedy
token differs at a margin of more than twice the largest difference of logits. In Markdown.
"""

import itertools
import json
import random

import numpy as np
from harness import run, table
from verses import verses

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(steps=500, texts=100, new=100, seed=1)
PROMPT, CONTEXT = 28, 128
LAYOUTS = [("row:2,col:2", "summa"), ("row:2,col:3", "summa"), ("row:1,col:2", "megatron"),
           ("row:2,col:2", "summa,decode=stationary")]
PRECISIONS = ["f32", "bf16"]


class Answers:
    """The texts of one library, and the logits of each choice."""

    def __init__(self, tools, library, folder, *flags):
        logits = folder / "logits.npy"
        said = run([tools.path("run"), "generate", library, "--load", folder / "state",
                    "--tokens", folder / "prompts.jsonl", "--logits", logits, *flags])
        self.tokens = [json.loads(line)["tokens"] for line in said.splitlines()]
        ends = [*itertools.accumulate(map(len, self.tokens))]
        self.logits = np.split(np.load(logits), ends[:-1])


def compare(one, other, is_greedy):
    """Texts and tokens that differ, the largest difference of logits before, and the
    margins at greedy texts' first other tokens."""
    texts = tokens = 0
    apart, margins = 0.0, []
    for number, (a, b) in enumerate(zip(one.tokens, other.tokens)):
        differ = [x != y for x, y in zip(a, b)]
        first = differ.index(True) if any(differ) else len(differ) - 1
        # Behind the same tokens.
        logits = one.logits[number][: first + 1]
        apart = max(apart, np.abs(logits - other.logits[number][: first + 1]).max())
        tokens += sum(differ)
        texts += any(differ)
        if any(differ) and is_greedy(number):
            margins.append(float(logits[first][a[first]] - logits[first][b[first]]))
    return texts, tokens, float(apart), margins


def main(options, tools, folder):
    draw = random.Random(options.seed)
    lines = verses()
    held_out = len(lines) // 20
    data = folder / "text.txt"
    data.write_bytes(b"\n".join(lines[:-held_out]))
    sizes = dict(layers=4, hidden=192, heads=6, seq=CONTEXT, vocab=256, batch=16)
    train, program = (folder / name for name in ("train.so", "gpt.mlir"))
    tools.compile(tools.build_model(folder / "train.mlir", functions="loss", **sizes), train)
    tools.train(train, data, folder / "log.json", "--steps", options.steps, "--lr", 3e-3,
                "--warmup", 50, "--schedule", "cosine", "--save", folder / "state")
    tools.build_model(program, generate=f"slots=6,context={CONTEXT},chunk=32", **sizes)
    is_greedy = lambda number: number % 2 == 0
    long = [line for line in lines[-held_out:] if len(line) >= PROMPT]
    (folder / "prompts.jsonl").write_text("".join(
        json.dumps({"tokens": list(line[:PROMPT]), "seed": number, "max_tokens": options.new,
                    "temperature": 0 if is_greedy(number) else 0.8}) + "\n"
        for number, line in enumerate(draw.sample(long, options.texts))))
    rows, bad = [], []
    for precision in PRECISIONS:

        def answers(*flags):
            library = folder / "gpt.so"
            tools.compile(program, library, "--precision", precision, *flags)
            return Answers(tools, library, folder)

        serial = answers()
        for mesh, strategy in LAYOUTS:
            other = answers("--mesh", mesh, "--strategy", strategy)
            texts, tokens, apart, margins = compare(serial, other, is_greedy)
            most = f"{max(margins):.1e}" if margins else ""
            rows.append([precision, f"`{mesh}`", f"`{strategy}`", texts, tokens, f"{apart:.1e}",
                         len(margins), most])
            if margins and max(margins) > 2 * apart:
                bad.append(f"{precision}, {mesh}: a token differs at a margin of {most}")
    header = ["precision", "mesh", "strategy", "texts that part", "tokens that differ",
              "logits differ by", "greedy texts that part", "at margins up to"]
    said = (f"{options.texts} texts of {options.new} tokens; {options.steps} steps of "
            "training.\n\n")
    return {"mesh-tokens": said + table(header, rows)}, bad
