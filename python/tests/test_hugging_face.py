# ===- test_hugging_face.py - Folders that others wrote, end to end ----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A folder in Hugging Face's format, its program by `from-hf`, compiled, and its
logits and loss by `optimus-run`: those of NumPy for the values in the folder.

Heads are 6 of width 10, the vocabulary has 97 tokens, and epsilons are so large as to
change logits. The bound is that of test_forward.
"""

import json

import numpy as np
import pytest

import bert_reference
import gpt2_reference
import llama_reference
import safetensors_file
from families_reference import (
    Neox,
    Phi,
    neox_shapes,
    phi_packed_shapes,
    phi_shapes,
    phi_unpacked,
)
from published_configs import BERT, GPT2, LLAMA, MISTRAL, NEOX, PHI, PHI_MSFT, QWEN2, QWEN3
from tools import EMULATED, NeoxModel, call, run_builder, succeed

POSITIONS, SEQUENCE, WINDOWS = 16, 12, 4
LAYOUTS = [(), ("--mesh", "row:2,col:2", "--strategy", "summa")]
ODD = ("--mesh", "row:1,col:3", "--strategy", "megatron")
UNIT = 2.0**-24
TYPES = ["BF16", "F32", "F16"]


def gpt2(parameters, epsilon, monkeypatch):
    monkeypatch.setattr(gpt2_reference.Gpt2, "epsilon", epsilon)
    return gpt2_reference.Gpt2(parameters, 6)


def bert(parameters, epsilon, monkeypatch):
    monkeypatch.setattr(bert_reference.Bert, "epsilon", epsilon)
    return bert_reference.Bert(parameters, 6, pad=3)


def llama(parameters, epsilon, monkeypatch):
    return llama_reference.Llama(parameters, 6, 2, theta=5000.0, epsilon=epsilon)


STRETCHED = dict(
    rope_type="llama3",
    rope_theta=50.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=60,
)


def stretched(parameters, epsilon, monkeypatch):
    speeds = llama_reference.llama3_speeds(50.0, 5, 8, 1, 4, 60)
    return llama_reference.Llama(parameters, 6, 2, 50.0, epsilon, speeds=speeds)


def phi(parameters, epsilon, monkeypatch):
    return Phi(parameters, 6, 4, 10000.0, epsilon)


def phi_msft(parameters, epsilon, monkeypatch):
    return phi(phi_unpacked(parameters), epsilon, monkeypatch)


def gpt_neox(parameters, epsilon, monkeypatch):
    return Neox(parameters, 6, 4, 10000.0, epsilon)


FAMILIES = {
    "gpt2": (
        dict(GPT2, layer_norm_epsilon=0.05),
        gpt2_reference.parameter_shapes(2, 60, POSITIONS, 97, 240),
        # As GPT2LMHeadModel has them.
        lambda name: "transformer." + name,
        gpt2,
        0.05,
    ),
    "bert": (
        dict(BERT, layer_norm_eps=0.02),
        bert_reference.parameter_shapes(2, 60, POSITIONS, 97, 70),
        # As in the first folders.
        lambda name: name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ),
        bert,
        0.02,
    ),
    "llama": (
        dict(LLAMA, rms_norm_eps=0.03),
        llama_reference.parameter_shapes(2, 60, 6, 2, 70, 97, True),
        lambda name: name,
        llama,
        0.03,
    ),
    "mistral": (
        dict(MISTRAL, rms_norm_eps=0.03),
        llama_reference.parameter_shapes(2, 60, 6, 2, 70, 97, False),
        lambda name: name,
        llama,
        0.03,
    ),
    "qwen2": (
        dict(QWEN2, rms_norm_eps=0.03),
        llama_reference.parameter_shapes(2, 60, 6, 2, 70, 97, True, qkv_bias=True),
        lambda name: name,
        llama,
        0.03,
    ),
    "qwen3": (
        dict(QWEN3, rms_norm_eps=0.03),
        llama_reference.parameter_shapes(
            *(2, 60, 6, 2, 70, 97, False), head_dim=14, qk_norm=True
        ),
        lambda name: name,
        llama,
        0.03,
    ),
    # As Llama 3.1: of five pairs some turn as before, and some are between.
    "llama-stretched": (
        dict(LLAMA, rms_norm_eps=0.03, rope_parameters=STRETCHED),
        llama_reference.parameter_shapes(2, 60, 6, 2, 70, 97, True),
        lambda name: name,
        stretched,
        0.03,
    ),
    "phi": (
        dict(PHI, layer_norm_eps=0.03),
        phi_shapes(2, 60, 70, 97, 1),
        lambda name: name,
        phi,
        0.03,
    ),
    "phi-msft": (
        dict(PHI_MSFT, layer_norm_epsilon=0.03),
        phi_packed_shapes(phi_shapes(2, 60, 70, 97, 1)),
        lambda name: name,
        phi_msft,
        0.03,
    ),
    "gpt_neox": (
        dict(NEOX, layer_norm_eps=0.03),
        neox_shapes(NeoxModel(2, 60, 6, POSITIONS, 97, 1, rotary_dim=4, ffn=70)),
        lambda name: name,
        gpt_neox,
        0.03,
    ),
}


def write_folder(folder, config, shapes, rename):
    """Tensors of all types in any order; returns what they hold."""
    random = np.random.default_rng(12)
    values, tensors = {}, []
    for number, (name, shape) in enumerate(shapes):
        drawn = random.normal(0, 0.3, shape)
        dtype = TYPES[number % len(TYPES)]
        values[name] = safetensors_file.representable(dtype, drawn).astype(float)
        tensors.append((rename(name), dtype, drawn))
    shuffled = [tensors[i] for i in random.permutation(len(tensors))]
    folder.mkdir()
    safetensors_file.write(folder / "model.safetensors", shuffled, pad=1)
    (folder / "config.json").write_text(json.dumps(config))
    return values


@pytest.mark.rotates
@pytest.mark.parametrize("family", FAMILIES)
def test_a_folders_logits_are_those_of_numpy(tools, tmp_path, monkeypatch, family):
    config, shapes, rename, reference, epsilon = FAMILIES[family]
    folder = tmp_path / "hf"
    values = write_folder(folder, config, shapes, rename)
    data = tmp_path / "data.txt"
    random = np.random.default_rng(13)
    tokens = random.integers(4, 97, WINDOWS * SEQUENCE + 1)
    data.write_bytes(tokens.astype(np.uint8).tobytes())
    windows = tokens[:-1].reshape(WINDOWS, SEQUENCE)
    targets = tokens[1:].reshape(WINDOWS, SEQUENCE)

    # A sequence shorter than the positions of the model.
    known = {
        name: value[:SEQUENCE]
        if name.endswith(("wpe.weight", "position_embeddings.weight"))
        else value
        for name, value in values.items()
    }
    exact = reference(known, epsilon, monkeypatch).logits(windows)
    moved = {
        name: value * (1 + UNIT * random.choice([-1, 1], value.shape))
        for name, value in known.items()
    }
    change = reference(moved, epsilon, monkeypatch).logits(windows) - exact
    scale = max(
        np.linalg.norm(exact), np.linalg.norm(change) / (UNIT * np.sqrt(len(known)))
    )

    program = tmp_path / "model.mlir"
    shape = ["--seq", SEQUENCE, "--batch", 2, "--functions", "loss,forward"]
    made = run_builder("from-hf", folder, *shape, "-o", program)
    assert made.returncode == 0, made.stderr
    for number, layout in enumerate(LAYOUTS):
        library = tmp_path / ("model-%d.so" % number)
        tools.run("optimus-compile", program, *layout, "-o", library)
        rounding = tools.rounding(library)
        bound = 4 * rounding * UNIT * scale
        assert bound < 1e-3 * np.linalg.norm(exact)
        # A scaling is no detail.
        if family == "llama-stretched":
            config = json.loads((folder / "config.json").read_text())
            plain = dict(config, rope_parameters=dict(rope_theta=50.0))
            (folder / "config.json").write_text(json.dumps(plain))
            refused = call(tools.command("optimus-run", "eval", library, "--data", data, "--load", folder))
            assert "rope_scaling: config.json none, library scaled" in refused.stderr
            (folder / "config.json").write_text(json.dumps(config))
        # No other epsilon is excused.
        other = reference(known, 0.9 * epsilon, monkeypatch).logits(windows)
        assert np.linalg.norm(other - exact) > bound

        output = tmp_path / "logits.npy"
        given = [library, "--data", data, "--load", folder]
        tools.run("optimus-run", "forward", *given, "-o", output)
        found = np.load(output)
        assert found.shape == exact.shape
        assert np.linalg.norm(found - exact) <= bound

        if family == "bert":
            # Its loss hides tokens at random.
            continue
        loss, count = reference(known, epsilon, monkeypatch).loss(windows, targets)
        said = succeed(call(tools.command("optimus-run", "eval", *given, "--json")))
        assert json.loads(said)["tokens"] == count
        # A loss moves by at most twice as much as its largest logit.
        assert abs(json.loads(said)["loss"] - loss / count) <= 2 * bound


def test_an_encoders_hidden_states_are_those_of_numpy(tools, tmp_path, monkeypatch):
    """BertModel, with sequences that end in padding."""
    config = dict(BERT, architectures=["BertModel"], layer_norm_eps=0.02)
    shapes = [
        one
        for one in bert_reference.parameter_shapes(2, 60, POSITIONS, 97, 70)
        if not one[0].startswith("cls.")
    ]
    folder = tmp_path / "hf"
    # As the class writes itself, with a pooler.
    pooler = [("pooler.dense.weight", (60, 60)), ("pooler.dense.bias", (60,))]
    rename = lambda name: name.replace("bert.", "", 1)
    values = write_folder(folder, config, shapes + pooler, rename)
    random = np.random.default_rng(13)
    tokens = random.integers(4, 97, (WINDOWS, SEQUENCE))
    tokens[1, 7:] = tokens[3, 1:] = 3
    data = tmp_path / "data.txt"
    data.write_bytes(np.append(tokens, 5).astype(np.uint8).tobytes())

    known = {name: value for name, value in values.items() if "pooler" not in name}
    monkeypatch.setattr(bert_reference.Bert, "epsilon", 0.02)
    hidden = lambda of: bert_reference.Bert(of, 6, pad=3).hidden_states(tokens)
    exact = hidden(known)
    moved = {
        name: value * (1 + UNIT * random.choice([-1, 1], value.shape))
        for name, value in known.items()
    }
    change = np.linalg.norm(hidden(moved) - exact) / (UNIT * np.sqrt(len(known)))
    scale = max(np.linalg.norm(exact), change)

    program = tmp_path / "model.mlir"
    made = run_builder("from-hf", folder, "--seq", SEQUENCE, "--batch", 2, "-o", program)
    assert made.returncode == 0, made.stderr
    libraries = []
    for number, layout in enumerate([*LAYOUTS, ODD]):
        library = tmp_path / ("model-%d.so" % number)
        libraries.append(library)
        tools.run("optimus-compile", program, *layout, "-o", library)
        manifest = json.loads(tools.run("optimus-run", "inspect", library, "--json"))
        assert manifest["function"]["facts"]["heads"]["value"] == 6
        assert len(manifest["functions"]) == 1
        rounding = tools.rounding(library)
        bound = 4 * rounding * UNIT * scale
        assert bound < 1e-3 * np.linalg.norm(exact)
        output = tmp_path / "hidden.npy"
        given = [library, "--data", data, "--load", folder]
        said = tools.run("optimus-run", "forward", *given, "-o", output)
        assert "not used: pooler.dense.bias, pooler.dense.weight" in said or (
            "not used: pooler.dense.weight, pooler.dense.bias" in said
        )
        found = np.load(output)
        assert found.shape == exact.shape
        # What stands for padding means nothing.
        real = tokens != 3
        assert np.linalg.norm((found - exact)[real]) <= bound

    given = ["--data", data, "--load", folder]
    said = tools.run("optimus-run", "verify", *libraries[:2], *given, "--json")
    assert "hidden_states" in said
    # Heads are what the class says, and come out again under its names.
    (folder / "config.json").write_text(json.dumps(dict(config, num_attention_heads=5)))
    result = call(tools.command("optimus-run", "forward", libraries[0], *given, "-o", output))
    assert result.returncode == 1
    assert "num_attention_heads: config.json 5, library 6" in result.stderr
    (folder / "config.json").write_text(json.dumps(config))
    out = tmp_path / "out"
    tools.run("optimus-run", "convert", libraries[0], "--load", folder, "--save", out)
    names = {rename(name) for name, _ in shapes}
    assert safetensors_file.read(out / "model.safetensors").keys() == names
    assert json.loads((out / "config.json").read_text())["architectures"] == ["BertModel"]


ADDED = 7
"""Rows after the folder's 97."""


@pytest.mark.rotates
@pytest.mark.parametrize("layout", [*LAYOUTS, ODD, EMULATED], ids=str)
def test_added_rows_of_tables_never_win(tools, tmp_path, layout):
    """Where all logits are negative, that of a row of zeros would be the largest."""
    config, shapes, rename, _, _ = FAMILIES["gpt2"]
    folder = tmp_path / "hf"
    values = write_folder(folder, config, shapes, rename)
    values["wte.weight"] -= 1
    values["ln_f.bias"] = 0 * values["ln_f.bias"] + 1
    tensors = [(rename(name), "F32", value) for name, value in values.items()]
    safetensors_file.write(folder / "model.safetensors", tensors)
    data = tmp_path / "data.txt"
    tokens = np.random.default_rng(13).integers(4, 97, WINDOWS * SEQUENCE + 1)
    data.write_bytes(tokens.astype(np.uint8).tobytes())

    def compiled(name, more, *flags):
        program, library = tmp_path / (name + ".mlir"), tmp_path / (name + ".so")
        shape = ["--seq", SEQUENCE, "--batch", 4, "--functions", "loss,forward"]
        extents = ["--generate", "slots=2,context=12,chunk=4"]
        made = run_builder("from-hf", folder, *shape, *extents, *more, "-o", program)
        assert made.returncode == 0, made.stderr
        tools.run("optimus-compile", program, *flags, "-o", library)
        return library, made.stderr

    plain, _ = compiled("plain", [])
    padded, said = compiled("padded", ["--padded-vocabulary", 97 + ADDED], *layout)
    assert "tables of tokens get 7 rows of zeros after the folder's 97" in said
    # Rows are the table's on every rank, and in no sum.
    (table,) = [
        buffer
        for buffer in tools.buffers(padded)
        if (buffer["name"], buffer["role"]) == ("wte.weight", "parameter")
    ]
    assert table["shape"] == [97, 60]
    parts = dict(zip([*LAYOUTS, ODD, EMULATED], [1, 2, 3, 1]))[layout]
    assert table["local_shape"][0] == -(-(97 + ADDED) // parts)

    environment = tools.fake_gpu() if layout == EMULATED else None
    on = lambda library, *words: succeed(
        call(
            tools.command("optimus-run", *words),
            env=environment if library is padded else None,
        )
    )
    if layout != EMULATED:
        # Loss and gradients, to the bounds of both.
        tools.run("optimus-run", "verify", plain, padded, "--data", data, "--load", folder)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("[5, 7, 11]\n")
    found = []
    for library in (plain, padded):
        given = [library, "--data", data, "--load", folder]
        on(library, "forward", *given, "-o", tmp_path / "logits.npy")
        loss = json.loads(on(library, "eval", *given, "--json"))["loss"]
        words = ["--load", folder, "--tokens", prompts, "--max-tokens", 6]
        text = json.loads(on(library, "generate", library, *words, "--json"))
        found.append((np.load(tmp_path / "logits.npy"), loss, text["tokens"]))
    (exact, loss, tokens), (logits, other, again) = found
    assert logits.shape == exact.shape == (WINDOWS, SEQUENCE, 97) and exact.max() < -10
    bound = 4 * (tools.rounding(plain) + tools.rounding(padded)) * UNIT * np.linalg.norm(exact)
    assert np.linalg.norm(logits - exact) <= bound < 1e-2 * np.linalg.norm(exact)
    assert abs(other - loss) <= 2 * bound
    assert again == tokens

    # What is trained and written are the folder's rows.
    flags = ["--load-weights", folder, "--data", data, "--lr", 1e-3, "--steps", 2]
    on(padded, "train", padded, *flags, "--save", tmp_path / "saved")
    saved = safetensors_file.read(tmp_path / "saved/model.safetensors")
    assert saved["wte.weight"].shape == (97, 60)
    assert json.loads((tmp_path / "saved/config.json").read_text())["vocab_size"] == 97
    given = ["--data", data, "--load", tmp_path / "saved", "--json"]
    losses = [json.loads(on(one, "eval", one, *given))["loss"] for one in (plain, padded)]
    assert abs(losses[0] - losses[1]) <= 2 * bound
