# ===- copying - What a penalty of copies does to translations -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains a small GPT-2 to translate sentences of names and words, and translates others
with `--copying-penalty` from 1 down to 0.5.

    bench/run copying
    bench/run copying --write docs/inference.md

A sentence has 8 tokens: names stay as they are, and each word has one translation. In
the model's training texts a part of the words was left as it is, as in parallel texts of
the web, and so it copies some. Translations are drawn, with one seed for each sentence at
every penalty. A copy is right where it is that of the name in its place. Fails where the share of copies or that of wrong ones does not fall from each
penalty to the next. In Markdown.
"""

import json
import random

from harness import run, table

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(steps=1500, sentences=1000, seed=1)
LENGTH, PAIRS = 8, 4
BEGIN, END = 0, 1
NAMES, WORDS, TRANSLATED = range(2, 58), range(64, 128), range(128, 192)
SHARE_OF_NAMES, LEFT = 0.4, 0.25
"""Of a sentence's tokens; and of the words of the training's translations."""
PENALTIES = [1, 0.9, 0.8, 0.7, 0.6, 0.5]


class Language:
    def __init__(self, draw):
        self._draw = draw
        self._meaning = dict(zip(WORDS, draw.sample(TRANSLATED, len(WORDS))))

    def sentence(self):
        draw = self._draw
        return [draw.choice(NAMES if draw.random() < SHARE_OF_NAMES else WORDS)
                for _ in range(LENGTH)]

    def translate(self, sentence, left=0.0):
        return [token if token in NAMES or self._draw.random() < left
                else self._meaning[token] for token in sentence]

    def pair(self):
        """What a model learns from."""
        sentence = self.sentence()
        return [*sentence, BEGIN, *self.translate(sentence, LEFT), END]


def summarize(sentences, expected, answers):
    """Shares of tokens: copies, wrong ones, names that are kept, words translated."""
    made = copies = wrong = kept = names = right = words = 0
    for sentence, good, answer in zip(sentences, expected, answers):
        made += len(answer)
        copies += sum(token in sentence for token in answer)
        wrong += sum(token in sentence and token not in good[at : at + 1]
                     for at, token in enumerate(answer))
        for at, token in enumerate(good):
            is_there = token in answer[at : at + 1]
            names, kept = names + (token in NAMES), kept + (token in NAMES and is_there)
            words, right = words + (token not in NAMES), right + (token not in NAMES and is_there)
    return copies / made, wrong / made, kept / names, right / words


def main(options, tools, folder):
    language = Language(random.Random(options.seed))
    size = 2 * LENGTH + 2
    source = tools.build_model(
        folder / "gpt.mlir", layers=2, hidden=96, heads=4, seq=PAIRS * size, vocab=256, batch=32,
        functions="loss", generate=f"slots=16,context={size},chunk={LENGTH + 1}")
    library, data = folder / "gpt.so", folder / "pairs.txt"
    tools.compile(source, library)
    tokens = [token for _ in range(20_000) for token in language.pair()]
    data.write_bytes(bytes([*tokens, END]))
    log = folder / "log.json"
    loss = tools.train(library, data, log, "--steps", options.steps, "--lr", 3e-3, "--warmup",
                       50, "--schedule", "cosine", "--save", folder / "state")[-1]["loss"]
    sentences = [language.sentence() for _ in range(options.sentences)]
    expected = [*map(language.translate, sentences)]
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(
        json.dumps({"tokens": [*sentence, BEGIN], "seed": number, "max_tokens": LENGTH,
                    "copying_exceptions": [BEGIN, END]}) + "\n"
        for number, sentence in enumerate(sentences)))
    rows, bad, before = [], [], None
    for penalty in PENALTIES:
        said = run([tools.path("run"), "generate", library, "--load", folder / "state",
                    "--tokens", prompts, "--copying-penalty", penalty, "--temperature", 1])
        lines = [*map(json.loads, said.splitlines())]
        found = summarize(sentences, expected, [line["tokens"] for line in lines])
        rows.append([penalty, *(f"{100 * share:.1f}" for share in found)])
        if before and not (found[0] < before[0] and found[1] < before[1]):
            bad.append(f"{penalty}: copies and wrong ones are {found[:2]}, before {before[:2]}")
        before = found
    said = (f"{options.sentences} sentences; {options.steps} steps of training, to a loss of "
            f"{loss:.3f}.\n\n")
    header = ["penalty", "copies, %", "wrong copies, %", "names kept, %",
              "words translated, %"]
    return {"copying": said + table(header, rows)}, bad
