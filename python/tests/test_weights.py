# ===- test_weights.py - Folders of weights that others wrote ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`--load` and `--load-weights` of folders without state.json, as Transformers
saves a model: names with a prefix, several files, other element types, any order."""

import json
import os

import numpy as np
import pytest

import safetensors_file
from gpt2_reference import Gpt2
from interpreter import draw_parameters
from test_forward import BOTH, rounding_bound
from tools import (
    BertModel,
    Checkpoint,
    LlamaModel,
    Model,
    NeoxModel,
    PhiModel,
    call,
    mpirun,
    succeed,
)

MODEL = Model(2, 60, 6, sequence=16, vocabulary=97, batch=3)
POSITIONS = 20
"""More than the model has."""
WINDOWS = 5
LAYOUTS = [(None, "serial"), ("row:2,col:2", "summa"), ("row:1,col:3", "megatron")]
TYPES = ["F32", "BF16", "F16"]
CONFIG = {"model_type": "gpt2", "n_head": 6, "n_layer": 2, "layer_norm_epsilon": 1e-5}


def draw_weights():
    """A name, a type and values for each tensor of GPT2LMHeadModel, in no order."""
    random = np.random.default_rng(8)
    parameters = draw_parameters(MODEL, spread=0.2)
    parameters["wpe.weight"] = random.normal(0, 0.2, (POSITIONS, MODEL.hidden))
    tensors = [
        ("transformer." + name, TYPES[i % 3], value)
        for i, (name, value) in enumerate(parameters.items())
    ]
    for layer in range(MODEL.layers):
        # An odd number of bytes: what follows lies at odd ones.
        mask = np.ones((1, 1, 7, 9))
        tensors.append(("transformer.h.%d.attn.bias" % layer, "U8", mask))
    (table,) = [one for one in tensors if one[0].endswith("wte.weight")]
    tensors.append(("lm_head.weight", *table[1:]))
    return [tensors[i] for i in random.permutation(len(tensors))]


def as_parameters(tensors):
    """What the model's are."""
    found = {
        name[len("transformer.") :]: safetensors_file.representable(dtype, values)
        for name, dtype, values in tensors
        if name.startswith("transformer.") and dtype != "U8"
    }
    found["wpe.weight"] = found["wpe.weight"][: MODEL.sequence]
    return found


def write_folder(folder, tensors, shards=3, config=CONFIG):
    folder.mkdir()
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        safetensors_file.write(folder / "model.safetensors", tensors)
        return folder
    files = {}
    for number in range(shards):
        name = "model-%05d-of-%05d.safetensors" % (number + 1, shards)
        # A header of odd length: no tensor is aligned.
        safetensors_file.write(folder / name, tensors[number::shards], pad=number)
        files.update({tensor[0]: name for tensor in tensors[number::shards]})
    index = {"metadata": {"total_size": 1}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Windows, and the file."""
    path = tmp_path_factory.mktemp("data") / "data.txt"
    tokens = np.random.default_rng(4).integers(0, 97, WINDOWS * MODEL.sequence + 1)
    path.write_bytes(tokens.astype(np.uint8).tobytes())
    return tokens, path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("weights") / "hf", draw_weights())


def evaluate(tools, library, data, folder, *flags):
    command = ("eval", library, "--data", data[1], "--load", folder, *flags)
    return call(tools.command("optimus-run", *command))


def refusal(result):
    """The one line that says why."""
    assert result.returncode == 1, result
    (line,) = result.stderr.splitlines()
    assert line.startswith("optimus-run: error: ")
    return line[len("optimus-run: error: ") :]


@pytest.mark.variants
@pytest.mark.parametrize("mesh, strategy", LAYOUTS)
def test_weights_are_the_models_on_every_mesh(tools, data, folder, tmp_path, mesh, strategy):
    tokens, path = data
    expected = as_parameters(draw_weights())
    library = tools.library(MODEL, mesh, strategy, functions=BOTH)

    # Exactly.
    saved = tmp_path / "saved"
    flags = ["--load-weights", folder, "--save", saved]
    succeed(call(tools.train_command(library, path, 0, *flags)))
    found = Checkpoint(saved)
    assert found.state["step"] == 0
    assert found.parameters.keys() == expected.keys()
    for name, value in expected.items():
        assert found.parameters[name].tobytes() == value.tobytes(), name
    assert not any(moment.any() for moment in found.moments.values())

    # What they compute.
    windows = tokens[:-1].reshape(WINDOWS, -1)
    rounding = tools.rounding(library)
    exact = {name: value.astype(float) for name, value in expected.items()}
    logits, bound = rounding_bound(MODEL, exact, windows, rounding)
    output = tmp_path / "logits.npy"
    command = ("forward", library, "--data", path, "--load", folder, "-o", output)
    tools.run("optimus-run", *command)
    assert np.linalg.norm(np.load(output) - logits) <= bound
    assert bound < 1e-3 * np.linalg.norm(logits)

    targets = tokens[1:].reshape(WINDOWS, -1)
    loss, count = Gpt2(exact, MODEL.heads).loss(windows, targets)
    said = json.loads(succeed(evaluate(tools, library, data, folder, "--json")))
    assert said["tokens"] == count
    # A loss moves by at most twice as much as its largest logit.
    assert abs(said["loss"] - loss / count) <= 2 * bound


FAMILIES = {
    # The inner class, without prefix and head; its head is tied.
    "llama": (
        LlamaModel(1, 24, 4, 2, ffn=20, sequence=8, vocabulary=97, batch=2, tied=True),
        {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_act": "silu"},
        lambda name: name.replace("model.", "", 1),
        {"layers.0.self_attn.rotary_emb.inv_freq": np.ones(3)},
    ),
    # Transformers 4 wrote the tied head, too.
    "bert": (
        BertModel(1, 24, 3, sequence=8, vocabulary=97, batch=2),
        {"num_attention_heads": 3, "layer_norm_eps": 1e-12, "pad_token_id": 0},
        lambda name: name,
        {
            "bert.embeddings.position_ids": np.arange(8)[None],
            "bert.pooler.dense.weight": np.ones((24, 24)),
            "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        },
    ),
    "phi": (
        PhiModel(1, 24, 3, sequence=8, vocabulary=97, batch=2, rotary_dim=4, ffn=20),
        {"rope_parameters": {"rope_theta": 10000.0}, "hidden_act": "gelu_new"},
        lambda name: name,
        {},
    ),
    # Three parameters lie in one tensor, head by head; older folders have buffers.
    "gpt_neox": (
        NeoxModel(1, 24, 4, sequence=8, vocabulary=97, batch=2, rotary_dim=2, ffn=20),
        {"rotary_emb_base": 10000, "hidden_act": "gelu", "use_parallel_residual": True},
        lambda name: name.replace("gpt_neox.", "", 1),
        {
            "layers.0.attention.bias": np.ones((1, 1, 8, 8)),
            "layers.0.attention.masked_bias": np.ones(()),
            "layers.0.attention.rotary_emb.inv_freq": np.ones(1),
        },
    ),
}


@pytest.mark.variants
@pytest.mark.parametrize("family", FAMILIES)
def test_other_families_load_exactly(tools, data, tmp_path, family):
    model, config, rename, more = FAMILIES[family]
    parameters = draw_parameters(model)
    tensors = [(rename(name), "BF16", value) for name, value in parameters.items()]
    values = {name: value for name, _, value in tensors}
    tensors += [
        (name, "BF16", values[value]) if isinstance(value, str) else (name, "I64", value)
        for name, value in more.items()
    ]
    folder = write_folder(tmp_path / "hf", tensors, shards=2, config=config)
    library = tools.library(model, "row:1,col:2", "megatron")
    flags = ["--load-weights", folder, "--save", tmp_path / "saved"]
    succeed(call(tools.train_command(library, data[1], 0, *flags)))
    found = Checkpoint(tmp_path / "saved").parameters
    assert found.keys() == parameters.keys()
    for name, value in parameters.items():
        expected = safetensors_file.representable("BF16", value)
        assert found[name].tobytes() == expected.tobytes(), name


def test_processes_read_the_same(tools, data, folder, tmp_path):
    library = tools.library(MODEL, "row:2,col:2", "summa", functions=BOTH)
    for name, prefix in ("threads", []), ("processes", mpirun(4)):
        flags = ["--load-weights", folder, "--save", tmp_path / name]
        command = tools.train_command(library, data[1], 0, *flags)
        succeed(call([*prefix, *command]))
    one, other = (tmp_path / n / "model.safetensors" for n in ("threads", "processes"))
    assert one.read_bytes() == other.read_bytes()


def test_one_file_says_what_is_not_used(tools, data, folder, tmp_path):
    library = tools.library(MODEL, functions=BOTH)
    tensors = draw_weights()
    single = write_folder(tmp_path / "hf", tensors, shards=1)
    said = succeed(evaluate(tools, library, data, single)).splitlines()
    masks = [name for name, dtype, _ in tensors if dtype == "U8"]
    in_file = [name for name, _, _ in tensors if name in masks]
    assert said[:-1] == [
        "transformer.wpe.weight: the first 16 of 20 positions are used",
        "%s: not used: %s" % (single, ", ".join(in_file)),
    ]
    parts = succeed(evaluate(tools, library, data, folder)).splitlines()
    assert said[-1] == parts[-1] and said[-1].startswith("loss ")
    # verify, too: the library is equivalent to one on a mesh.
    other = tools.library(MODEL, "row:2,col:2", "summa", functions=BOTH)
    tools.run("optimus-run", "verify", library, other, "--data", data[1], "--load", single)


def test_training_goes_on_from_checkpoints_alone(tools, data, folder):
    library = tools.library(MODEL, functions=BOTH)
    result = call(tools.train_command(library, data[1], 1, "--load", folder))
    assert refusal(result) == (
        "%s has weights alone, no state.json: there is no run to go on with; begin one "
        "with these parameters: --load-weights %s" % (folder, folder)
    )


def changed(tensors, name, dtype=None, values=None):
    """The same with another type or other values of a tensor."""
    return [
        (one, dtype or old, value if values is None else values)
        if one == name
        else (one, old, value)
        for one, old, value in tensors
    ]


def test_other_models_are_refused(tools, data, tmp_path):
    library = tools.library(MODEL, functions=BOTH)
    tensors = draw_weights()
    by_name = {name: values for name, _, values in tensors}

    def refused(label, tensors, config=CONFIG, flags=()):
        folder = write_folder(tmp_path / label, tensors, shards=1, config=config)
        said = refusal(evaluate(tools, library, data, folder, *flags))
        return said.replace("%s" % folder, "DIR")

    others = "the weights in DIR are of another model: "
    gone = ("transformer.ln_f.bias", "transformer.h.1.mlp.c_fc.weight")
    kept = [one for one in tensors if one[0] not in gone]
    assert refused("missing", kept) == (
        others + "they lack 2 of its 28 parameters: h.1.mlp.c_fc.weight, ln_f.bias"
    )
    extra = tensors + [("score.weight", "F32", np.ones((2, 60)))]
    assert refused("extra", extra) == (
        others + "they have 1 tensor without a parameter: score.weight; "
        "--ignore PATTERN leaves tensors out"
    )
    ignoring = evaluate(tools, library, data, tmp_path / "extra", "--ignore", "score.*")
    assert "score.weight" in succeed(ignoring)
    head = by_name["lm_head.weight"].copy()
    head[3, 7] += 1
    assert "element 187 of lm_head.weight is " in refused(
        "untied", changed(tensors, "lm_head.weight", values=head)
    )
    few = by_name["transformer.wpe.weight"][:15]
    assert refused("short", changed(tensors, "transformer.wpe.weight", values=few)) == (
        others + "transformer.wpe.weight has 15 positions, the model's sequences have "
        "16 tokens; build it with --seq 15 or less"
    )
    assert "transformer.ln_f.bias has elements of type F64; expected F32, BF16 or F16" in (
        refused("type", changed(tensors, "transformer.ln_f.bias", dtype="F64"))
    )
    bad = by_name["transformer.ln_f.bias"].copy()
    bad[5] = np.inf
    assert "the tensor ln_f.bias has an element that is not finite (inf)" in refused(
        "infinite", changed(tensors, "transformer.ln_f.bias", values=bad)
    )
    assert refused("heads", tensors, dict(CONFIG, n_head=5)) == (
        "DIR/config.json is of another model than the library: "
        "n_head: config.json 5, library 6"
    )


def test_damaged_and_hostile_folders_are_refused(tools, data, tmp_path):
    library = tools.library(MODEL, functions=BOTH)
    tensors = draw_weights()

    def refused(folder):
        return refusal(evaluate(tools, library, data, folder)).replace("%s" % folder, "DIR")

    def indexed(label, change):
        folder = write_folder(tmp_path / label, tensors)
        path = folder / "model.safetensors.index.json"
        index = json.loads(path.read_text())
        change(index["weight_map"])
        path.write_text(json.dumps(index))
        return refused(folder)

    expected = "expected the name of a file in the same folder that ends in .safetensors"
    for label, name in [
        ("outside", "../model.safetensors"),
        ("absolute", "/etc/passwd"),
        ("itself", "model.safetensors.index.json"),
    ]:
        said = indexed(label, lambda files: files.update({"lm_head.weight": name}))
        assert '%s, found "%s"' % (expected, name) in said
    many = {"t%d" % i: "%d.safetensors" % i for i in range(100_000)}
    assert "it names more than 512 files" in indexed("many", lambda files: files.update(many))
    moved = {"lm_head.weight": "model-00001-of-00003.safetensors"}
    wrong = [n for n in range(3) if "lm_head.weight" in [t[0] for t in tensors[n::3]]]
    moved["lm_head.weight"] = "model-%05d-of-00003.safetensors" % ((wrong[0] + 1) % 3 + 1)
    assert "lm_head.weight" in indexed("moved", lambda files: files.update(moved))
    assert "names no file" in indexed("none", lambda files: files.clear())

    lost = write_folder(tmp_path / "lost", tensors)
    (lost / "model-00002-of-00003.safetensors").unlink()
    assert "DIR/model-00002-of-00003.safetensors" in refused(lost)
    cut = write_folder(tmp_path / "cut", tensors, shards=1)
    with open(cut / "model.safetensors", "r+b") as file:
        file.truncate(os.path.getsize(file.name) - 1)
    assert "DIR/model.safetensors" in refused(cut)
    deep = write_folder(tmp_path / "deep", tensors, shards=1)
    (deep / "config.json").write_text("[" * 10_000)
    assert "DIR/config.json" in refused(deep)
    with open(deep / "config.json", "r+b") as file:
        file.truncate(1 << 30)
    assert "DIR/config.json" in refused(deep)
    twice = write_folder(tmp_path / "twice", tensors)
    safetensors_file.write(twice / "model-00001-of-00003.safetensors", tensors[1::3])
    assert " is also in another file" in refused(twice)

    pickled = tmp_path / "pickled"
    pickled.mkdir()
    (pickled / "pytorch_model.bin").write_bytes(b"")
    assert refused(pickled) == (
        "DIR has pytorch_model.bin and no model.safetensors: reading a pickle runs the "
        "code in it, so none is read; save the model as safetensors"
    )


def test_a_checkpoint_without_its_state_is_damaged(tools, data, tmp_path):
    library = tools.library(MODEL, functions=BOTH)
    tools.initial(library, data[1], tmp_path / "ck")
    said = refusal(evaluate(tools, library, data, tmp_path / "ck", "--ignore", "*"))
    assert said.startswith("--ignore is for folders of weights; ")
    (tmp_path / "ck/state.json").unlink()
    said = refusal(evaluate(tools, library, data, tmp_path / "ck"))
    assert said == "%s is not a checkpoint: it has no state.json" % (tmp_path / "ck")
