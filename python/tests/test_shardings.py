# ===- test_shardings.py - What strategies make of known models -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The sharding of every value of GPT-2, BERT and Llama, held against a record.

Rules are general, and so a change of one may change what nobody looked at. Where
that is meant, record anew: `OPTIMUS_BIN_DIR=build/bin python3 test_shardings.py`.
"""

import hashlib
import json
import os
import re
import tempfile
from pathlib import Path

import pytest

from selection import covering
from session import Session
from tools import BertModel, LlamaModel, Model, Tools

RECORD = Path(__file__).with_name("shardings.json")
SHAPE = dict(sequence=16, vocabulary=97, batch=4)
MODELS = {
    "gpt2": Model(2, 48, 4, **SHAPE),
    "gpt2-narrow": Model(1, 40, 5, **SHAPE, ffn=24),
    "gpt2-square": Model(1, 48, 4, **SHAPE, ffn=48, dropout=0.1),
    "bert": BertModel(2, 48, 4, **SHAPE),
    "bert-narrow": BertModel(1, 40, 5, **SHAPE, ffn=24, dropout=0.1),
    # Sequence, vocabulary, hidden and inner width are one number.
    "bert-square": BertModel(1, 48, 6, sequence=48, vocabulary=48, batch=6, ffn=48),
    "llama": LlamaModel(2, 48, 4, kv_heads=4, ffn=128, **SHAPE),
    "llama-grouped": LlamaModel(2, 48, 6, kv_heads=2, ffn=24, **SHAPE),
    "llama-tied": LlamaModel(1, 48, 4, kv_heads=1, ffn=48, **SHAPE, tied=True),
}
MESHES = ["row:2,col:2", "row:2,col:3", "row:1,col:4", "row:4,col:1", "data:2,row:2,col:2"]
STRATEGIES = ["summa", "summa-paper", "megatron", "megatron-sp"]
FLAGS = [
    ("--mesh", mesh, "--strategy", strategy) for mesh in MESHES for strategy in STRATEGIES
]
FLAGS += [("--mesh", "data:4", "--strategy", "data")]
FLAGS += [("--mesh", "row:2,col:2", "--strategy", name, "--accumulate") for name in STRATEGIES]
NARROW = ("--accumulate", "--optimizer", "lamb", "--precision", "bf16")
FLAGS += [
    ("--mesh", "data:2,row:1,col:2", "--strategy", name, *NARROW) for name in STRATEGIES
]
SHARDING = r"#optimus\.sharding<@mesh, (\[[^\]]*\](?:, unreduced = \{[^}]*\})?)"


def shardings(tools, name, flags):
    """A line for every function and operation: how its values lie."""
    program = tools.program(MODELS[name])
    text = tools.run("optimus-compile", program, *flags, "--compile-to", "shard", "-o", "-")
    found = [
        (re.search(r"func\.func @\w+|(optimus|arith)\.\w+", line), re.findall(SHARDING, line))
        for line in text.split("\n")
    ]
    lines = [" ".join([what.group(), *how]) for what, how in found if how]
    # Functions, and operations of at least one layer.
    assert len(lines) > 40 and all("@mesh" not in line for line in lines)
    return lines


def key(flags):
    return " ".join(flags)


def digest(lines):
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


@pytest.mark.parametrize("flags, name", covering([[flags] for flags in FLAGS], MODELS))
def test_every_value_lies_as_recorded(tools, name, flags):
    found = shardings(tools, name, *flags)
    recorded = json.loads(RECORD.read_text())[name][key(*flags)]
    assert digest(found) == recorded, "\n".join(found)


def record(binaries):
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(Path(binaries), Session(Path(folder) / "session"))
        digests = {
            name: {key(flags): digest(shardings(tools, name, flags)) for flags in FLAGS}
            for name in MODELS
        }
    RECORD.write_text(json.dumps(digests, indent=2) + "\n")


if __name__ == "__main__":
    record(os.environ["OPTIMUS_BIN_DIR"])
