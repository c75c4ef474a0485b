# ===- test_to_gguf.py - Folders of weights for llama.cpp --------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus.models to-gguf`, read back by the reader of PyPI's gguf."""

import json

import numpy as np
import pytest

import gpt2_reference
import llama_reference
import safetensors_file
from blocks_reference import round_to_blocks
from optimus.arguments import Mistake
from optimus.models import to_gguf
from published_configs import BERT, GPT2, LLAMA, QWEN2, QWEN3
from tools import run_builder


@pytest.fixture(scope="module")
def gguf():
    try:
        return to_gguf.library()
    except Mistake as mistake:
        pytest.skip(str(mistake))


def shapes_of(bias=False, norms=False, width=10):
    return llama_reference.parameter_shapes(2, 60, 6, 2, 40, 97, False, bias, width, norms)


FAMILIES = {
    "gpt2": (GPT2, gpt2_reference.parameter_shapes(2, 60, 16, 97, 240)),
    "llama": (LLAMA, shapes_of()),
    "qwen2": (QWEN2, shapes_of(bias=True)),
    "qwen3": (QWEN3, shapes_of(norms=True)),
}
NAMES = {
    "gpt2": {
        "wte.weight": "token_embd.weight",
        "h.1.attn.c_attn.weight": "blk.1.attn_qkv.weight",
        "h.1.mlp.c_proj.bias": "blk.1.ffn_down.bias",
    },
    "llama": {
        "model.layers.1.self_attn.q_proj.weight": "blk.1.attn_q.weight",
        "model.layers.0.mlp.down_proj.weight": "blk.0.ffn_down.weight",
    },
    "qwen2": {"model.layers.1.self_attn.k_proj.bias": "blk.1.attn_k.bias"},
    "qwen3": {
        "lm_head.weight": "output.weight",
        "model.layers.1.self_attn.q_norm.weight": "blk.1.attn_q_norm.weight",
    },
}


def folder_of(tmp_path, family, dtype="F32", shapes=None):
    config, usual = FAMILIES[family]
    shapes = shapes or usual
    folder = tmp_path / family
    folder.mkdir()
    random = np.random.default_rng(4)
    values = {
        name: random.normal(0, 0.1, shape).astype("<f4") for name, shape in shapes
    }
    tensors = [(name, dtype, value) for name, value in values.items()]
    safetensors_file.write(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps(config))
    return folder, values


def metadata(reader, key):
    return reader.fields[key].contents()


@pytest.mark.parametrize("family", FAMILIES)
def test_values_come_back(gguf, tmp_path, family):
    folder, values = folder_of(tmp_path, family)
    path = tmp_path / "model.gguf"
    made = run_builder("to-gguf", folder, "-o", path)
    assert made.returncode == 0, made.stderr
    assert "no tokenizer.json: tokens have no text" in made.stderr
    reader = gguf.GGUFReader(path)
    found = {tensor.name: tensor.data for tensor in reader.tensors}
    # A tied head is the table, however often a folder has it.
    is_tied = FAMILIES[family][0].get("tie_word_embeddings", False)
    assert len(found) == len(values) - is_tied
    assert ("output.weight" in found) == (family == "qwen3")
    for name, other in NAMES[family].items():
        expected = values[name]
        if family == "gpt2" and name.endswith("c_attn.weight"):
            expected = expected.T
        if family == "llama" and "q_proj" in name:
            # Pairs of channels i and i + 5 of each head stand side by side.
            order = [
                head * 10 + half * 5 + pair
                for head in range(6)
                for pair in range(5)
                for half in range(2)
            ]
            expected = expected[order]
        assert np.array_equal(found[other], expected), name
    assert metadata(reader, "general.architecture") == family
    assert metadata(reader, family + ".block_count") == 2
    assert metadata(reader, family + ".attention.head_count") == 6
    if family != "gpt2":
        assert metadata(reader, family + ".attention.head_count_kv") == 2
        assert metadata(reader, family + ".rope.freq_base") == 5000


def test_types_and_tokens(gguf, tmp_path):
    folder, values = folder_of(tmp_path, "gpt2")
    tokenizer = dict(
        model=dict(
            type="BPE",
            vocab={chr(97 + number): number for number in range(26)},
            merges=[["a", "b"]],
        ),
        pre_tokenizer=dict(type="ByteLevel", use_regex=True),
        added_tokens=[dict(id=30, content="<|endoftext|>", special=True)],
    )
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    path = tmp_path / "model.gguf"
    assert run_builder("to-gguf", folder, "--type", "f16", "-o", path).returncode == 0
    reader = gguf.GGUFReader(path)
    (table,) = [tensor for tensor in reader.tensors if tensor.name == "token_embd.weight"]
    assert np.array_equal(table.data, values["wte.weight"].astype("<f2"))
    tokens = metadata(reader, "tokenizer.ggml.tokens")
    assert len(tokens) == 97 and tokens[:2] == ["a", "b"] and tokens[30] == "<|endoftext|>"
    assert metadata(reader, "tokenizer.ggml.pre") == "gpt-2"
    assert metadata(reader, "tokenizer.ggml.merges") == ["a b"]
    tokenizer["pre_tokenizer"] = dict(type="Whitespace")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    before = path.read_bytes()
    refused = run_builder("to-gguf", folder, "-o", path)
    assert refused.returncode == 1 and "supported: those of GPT-2" in refused.stderr
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("kind, bits", [("q8_0", 8), ("q4_0", 4)])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_few_bits_have_the_values_of_libraries(gguf, tmp_path, family, kind, bits):
    """Blocks along what products sum, as `--weights int8` and `int4` have them; norms,
    biases and positions stay as they are."""
    shapes = gpt2_reference.parameter_shapes(2, 64, 16, 97, 256)
    if family == "llama":
        shapes = llama_reference.parameter_shapes(2, 96, 6, 2, 160, 97, False, False, 16, False)
    folder, values = folder_of(tmp_path, family, shapes=shapes)
    config = json.loads((folder / "config.json").read_text())
    sizes = {
        "gpt2": dict(n_embd=64, n_head=4),
        "llama": dict(hidden_size=96, intermediate_size=160, head_dim=16),
    }
    config.update(sizes[family])
    (folder / "config.json").write_text(json.dumps(config))
    path = tmp_path / "model.gguf"
    made = run_builder("to-gguf", folder, "--type", kind, "-o", path)
    assert made.returncode == 0, made.stderr
    reader = gguf.GGUFReader(path)
    found = {tensor.name: tensor for tensor in reader.tensors}
    wide = {name for name, each in found.items() if each.tensor_type.name == "F32"}
    assert all("norm" in name or "bias" in name for name in wide - {"position_embd.weight"})
    assert ("position_embd.weight" in wide) == (family == "gpt2")
    names = {
        "gpt2": ["wte.weight", "h.0.mlp.c_fc.weight", "h.1.attn.c_attn.weight"],
        "llama": ["model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight"],
    }
    others = {
        **dict.fromkeys(["wte.weight", "model.embed_tokens.weight"], "token_embd.weight"),
        "h.0.mlp.c_fc.weight": "blk.0.ffn_up.weight",
        "h.1.attn.c_attn.weight": "blk.1.attn_qkv.weight",
        "model.layers.1.mlp.down_proj.weight": "blk.1.ffn_down.weight",
    }
    for name in names[family]:
        tensor = found[others[name]]
        assert tensor.tensor_type.name == kind.upper()
        weight = values[name].T if name.startswith("h.") else values[name]
        expected = round_to_blocks(weight, bits, axis=-1)
        assert np.array_equal(gguf.dequantize(tensor.data, tensor.tensor_type), expected)


def test_rows_that_are_no_blocks(gguf, tmp_path):
    folder, _ = folder_of(tmp_path, "gpt2")
    refused = run_builder("to-gguf", folder, "--type", "q4_0", "-o", tmp_path / "model.gguf")
    assert refused.returncode == 1
    assert "sums 60 elements; expected a multiple of 32, the block of Q4_0" in refused.stderr
    assert not (tmp_path / "model.gguf").exists()


def test_what_is_not_written(tmp_path):
    folder, _ = folder_of(tmp_path, "gpt2")
    path = tmp_path / "model.gguf"
    (folder / "adapter_model.safetensors").write_bytes(b"")
    refused = run_builder("to-gguf", folder, "-o", path)
    assert refused.returncode == 1 and "optimus-run convert --merge" in refused.stderr
    (folder / "config.json").write_text(json.dumps(BERT))
    refused = run_builder("to-gguf", folder, "-o", path)
    assert refused.returncode == 1
    assert 'model_type is "bert"; supported: gpt2, llama, qwen2, qwen3' in refused.stderr
    (folder / "config.json").write_text(json.dumps(GPT2))
    (folder / "model.safetensors").write_bytes(b"\xff" * 9)
    refused = run_builder("to-gguf", folder, "-o", path)
    assert refused.returncode == 1 and "is damaged: its header does not fit" in refused.stderr
    assert not path.exists()
