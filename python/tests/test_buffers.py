# ===- test_buffers.py - Buffers of any kind ------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""An unknown function, with buffers unknown to training steps, is one more entry of the
manifest."""

import json
import re

import pytest

from tools import Model, call, succeed

MODEL = Model(layers=1, hidden=16, heads=2, sequence=8, vocabulary=256, batch=4)

DECODE = """
  func.func @decode(%%table: tensor<256x16xf32> %s,
      %%tokens: tensor<4x8xi32> {optimus.binding = "tokens"},
      %%cache: tensor<4x8x16xf32> {optimus.donates = 0 : i64, optimus.role = "batch,sequence,hidden",
        optimus.binding = #optimus.buffer<role = "cache", lifetime = sequence, init = <constant, value = 0.5>, reset = sequence>},
      %%temperature: tensor<f32> {optimus.binding = #optimus.buffer<role = "temperature", lifetime = call, filled_by = host>})
      -> (tensor<4x8x16xf32>, tensor<4x8x16xf32> {optimus.binding = #optimus.buffer<role = "hidden", lifetime = call>}) {
    %%0 = optimus.embedding %%table, %%tokens {optimus.role = "batch,sequence,hidden"} : (tensor<256x16xf32>, tensor<4x8xi32>) -> tensor<4x8x16xf32>
    %%1 = optimus.add %%cache, %%0 {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %%2 = optimus.gelu %%1 {optimus.role = "batch,sequence,hidden"} : tensor<4x8x16xf32>
    return %%1, %%2 : tensor<4x8x16xf32>, tensor<4x8x16xf32>
  }
}
"""


@pytest.fixture(scope="module")
def decoding(tools, tmp_path_factory):
    """The model's library with one more function."""
    folder = tmp_path_factory.mktemp("decoding")
    step, library = folder / "step.mlir", folder / "decoding.so"
    layout = ["--mesh", "row:2,col:2", "--strategy", "summa"]
    source = tools.program(MODEL)
    tools.run("optimus-compile", source, *layout, "--compile-to", "step", "-o", step)
    text = step.read_text()
    (table,) = re.findall(
        r"@eval_step\(%arg0: tensor<256x16xf32> (\{.*?\}) loc\([^,]*\), %arg1", text
    )
    # Into the module, behind which are the aliases of locations.
    end = text.rindex("\n}") + 1
    function = (DECODE % table).rstrip().removesuffix("}")
    step.write_text(text[:end] + function + text[end:])
    tools.run("optimus-compile", step, "--compile-from", "step", "-o", library)
    return library


def test_other_functions_are_entries_of_the_manifest(tools, decoding):
    manifest = json.loads(tools.run("optimus-run", "inspect", decoding, "--json"))
    buffers = manifest["buffers"]
    (decode,) = [f for f in manifest["functions"] if f["name"] == "decode"]
    args = [(buffers[a["buffer"]]["name"], a["access"]) for a in decode["args"]]
    assert args == [
        ("wte.weight", "read"),
        ("tokens", "read"),
        ("cache", "update"),
        ("temperature", "read"),
        ("hidden", "write"),
    ]
    (cache,) = [buffer for buffer in buffers if buffer["name"] == "cache"]
    assert cache == {
        "name": "cache",
        "role": "cache",
        "type": "f32",
        "shape": [4, 8, 16],
        "local_shape": [2, 8, 8],
        "sharding": [["row"], [], ["col"]],
        "lifetime": "sequence",
        "init": {"kind": "constant", "value": 0.5},
        "reset": "sequence",
    }
    (hidden,) = [buffer for buffer in buffers if buffer["name"] == "hidden"]
    assert hidden["local_shape"] == [2, 8, 8] and "init" not in hidden
    text = tools.run("optimus-run", "inspect", decoding)
    assert re.search(r"\n  decode +cache +hidden\n", text)


def test_they_change_nothing_for_the_others(tools, text, decoding, tmp_path):
    plain = tools.library(MODEL, "row:2,col:2", "summa")
    saved = []
    for library in (decoding, plain):
        saved.append(tmp_path / library.name)
        flags = ["--save", saved[-1], "--threads-per-rank", 1]
        succeed(call(tools.train_command(library, text, 2, *flags)))
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (saved[0] / name).read_bytes() == (saved[1] / name).read_bytes()
