# ===- test_python_docs.py - What the pages on Python show --------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The blocks of docs/python.md and docs/your-own-model.md, and the cells of
docs/first-steps.ipynb, run in their order, without optimus-compile in PATH."""

import json
import os
import re
import sys

import numpy as np
import pytest

import bert_reference
import safetensors_file
from test_sentence_embeddings import find_folder, pool
from tools import REPOSITORY, call, run_builder, succeed
from wordpiece import WordPiece



def blocks_of(page):
    text = (REPOSITORY / "docs" / page).read_text()
    return re.findall(r"^(<!-- needs: \w+ -->\n)?```python\n(.*?)^```$", text, re.M | re.S)


BLOCKS = blocks_of("python.md")
CELLS = json.loads((REPOSITORY / "docs/first-steps.ipynb").read_text())["cells"]


def execute(code, python_folder, folder):
    paths = [str(python_folder), str(REPOSITORY / "python")]
    environment = dict(os.environ, PYTHONPATH=":".join(paths))
    environment.pop("OPTIMUS_BIN_DIR", None)
    (folder / "code.py").write_text(code)
    return succeed(call([sys.executable, "code.py"], cwd=folder, env=environment))


def test_blocks_of_the_page(python_folder, text, tmp_path):
    (tmp_path / "corpus.txt").write_bytes(text.read_bytes())
    code = "\n".join(code for needs, code in BLOCKS if not needs)
    said = execute(code, python_folder, tmp_path)
    assert re.search(r"^step 40: loss [12]\.\d+, gradient ", said, re.M), said
    assert "unknown strategy 'summit'; known are auto" in said
    assert "rank 3 has (128, 32) of (256, 64)" in said
    assert "(1, 32, 256) float32 b'" in said
    assert "tokens: expected a NumPy array of int32 or int64, found one of float64" in said


@pytest.mark.rotates
def test_a_model_of_ones_own(python_folder, text, tmp_path):
    (tmp_path / "corpus.txt").write_bytes(text.read_bytes())
    code = "\n".join(code for _, code in blocks_of("your-own-model.md"))
    said = execute(code, python_folder, tmp_path)
    alone, seeing = (float(loss) for loss in re.findall(r": (\d\.\d\d)$", said, re.M))
    # Words of the text are made up: their letters need those before.
    assert seeing < alone - 0.3
    assert "matmul 'wrong': expected [64]" in said


def test_cells_of_the_notebook(python_folder, tmp_path):
    code = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in CELLS if cell["cell_type"] == "code")
    said = execute("\n".join(code), python_folder, tmp_path)
    assert re.search(r"^loss \d\.\d\d at first, \d\.\d\d now$", said, re.M), said
    assert "rank 3: (128, 32) of (256, 64)" in said and "\ndef " in said


TOKENIZERS = '''
class Encoding:
    def __init__(self, ids):
        self.ids = ids


class Tokenizer:
    """The part of PyPI's that the page uses, for this vocabulary."""

    def __init__(self, path):
        self._pieces = WordPiece(path.parent / "vocab.txt")

    @classmethod
    def from_file(cls, path):
        return cls(Path(path))

    def encode(self, text):
        return Encoding(self._pieces.encode(text))
'''
SENTENCES = ["A cat sleeps.", "Cafés — 東京!", "In the beginning God created the heaven."]


@pytest.mark.rotates
def test_sentences_are_embedded(python_folder, tmp_path):
    """As all-MiniLM-L6-v2 does in f64."""
    folder = find_folder()
    if not (folder / "model.safetensors").exists():
        pytest.skip("no all-MiniLM-L6-v2 in %s: scripts/setup --python brings it" % folder)
    shape = ["--seq", 72, "--batch", 8, "-o", tmp_path / "minilm.mlir"]
    assert run_builder("from-hf", folder, *shape).returncode == 0
    tests = str(REPOSITORY / "python/tests")
    imports = "import sys\nfrom pathlib import Path\nsys.path.append(%r)\n" % tests
    imports += "from wordpiece import WordPiece\n"
    (tmp_path / "tokenizers.py").write_text(imports + TOKENIZERS)
    ((_, block),) = [each for each in BLOCKS if "minilm" in each[0]]
    lines = [line for line in block.splitlines() if line]
    assert len(lines) <= 20
    code = "from pathlib import Path\nfolder = Path(%r)\n" % str(folder)
    code += block + "np.save('found.npy', embed(%r))\n" % SENTENCES
    execute(code, python_folder, tmp_path)
    pieces = WordPiece(folder / "vocab.txt")
    tokens = np.zeros((len(SENTENCES), 72), np.int64)
    for row, sentence in zip(tokens, SENTENCES):
        ids = pieces.encode(sentence)
        row[: len(ids)] = ids
    weights = {
        "bert." + name: value.astype(np.float64)
        for name, value in safetensors_file.read(folder / "model.safetensors").items()
        if value.dtype != np.int64
    }
    expected = pool(bert_reference.Bert(weights, 12).hidden_states(tokens), tokens)
    found = np.load(tmp_path / "found.npy")
    assert np.linalg.norm(found - expected, axis=1).max() <= 2e-6
