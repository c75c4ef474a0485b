# ===- test_finetune.py - Frozen parameters and adapters ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Training of some parameters beside others that are frozen, and of adapters in
PEFT's form.

Adapters are read and merged by NumPy here, from PEFT's equations: x·Wᵀ + alpha/r ·
x·Aᵀ·Bᵀ, with Wᵀ for GPT-2's weights, which are [in, out].
"""

import json

import numpy as np
import pytest

import gpt2_reference
import llama_reference
import safetensors_file
from tools import EMULATED, Checkpoint, LlamaModel, Model, call, read_log, succeed

GPT2 = Model(2, 24, 4, 8, 40, 4)
LLAMA = LlamaModel(2, 24, 4, 2, 40, 8, 40, 4)
TRAIN = ("--train", "h.*.attn.*", "--train", "ln_f.bias")
SUMMA = ("data:2,row:1,col:2", "summa")


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    path = tmp_path_factory.mktemp("finetune") / "text.bin"
    np.random.default_rng(3).integers(0, 40, 400).astype("<u2").tofile(path)
    return path


def is_trained(name: str) -> bool:
    return ".attn." in name or name == "ln_f.bias"


def named(manifest: dict, role: str) -> dict:
    """Buffers of a role, by their parameter."""
    buffers = manifest["buffers"]
    owner = lambda buffer: buffers[buffer["of"]] if "of" in buffer else buffer
    return {owner(buffer)["name"]: buffer for buffer in buffers if buffer["role"] == role}


def elements(buffer: dict) -> int:
    return int(np.prod(buffer["local_shape"]))


def planned(manifest: dict, name: str) -> dict:
    (found,) = [each for each in manifest["functions"] if each["name"] == name]
    return found


def moved(function: dict) -> int:
    return sum(axis["bytes"] for axis in function["communication"])


@pytest.mark.variants
@pytest.mark.parametrize("layout", [(None, "serial"), SUMMA])
def test_frozen_parameters_cost_no_memory(tools, layout):
    full = tools.manifest(GPT2, *layout, "--accumulate")
    some = tools.manifest(GPT2, *layout, "--accumulate", *TRAIN)
    assert named(some, "parameter").keys() == named(full, "parameter").keys()
    for role in ("exp_avg", "exp_avg_sq", "grad", "grad_sum"):
        kept = named(some, role)
        # State and sums of what is trained lie as before, and there is no other.
        assert {name: elements(buffer) for name, buffer in kept.items()} == {
            name: elements(buffer)
            for name, buffer in named(full, role).items()
            if is_trained(name)
        }
    # Gradients of nothing else are planned, nor do they move.
    for name in ("train_step", "accumulate", "grad_step", "update"):
        before, after = planned(full, name), planned(some, name)
        assert after["arena_bytes"] < before["arena_bytes"]
        assert after["peak_bytes"].get("gradient", 0) <= before["peak_bytes"].get("gradient", 0)
        assert after["commands"] < before["commands"]
        if layout == SUMMA:
            assert moved(after) < moved(before)
    # The table's is gone. It would be whole until the end of the backward.
    table = 4 * 40 * 24 // (1 if layout[0] is None else 2)
    before, after = (planned(each, "train_step") for each in (full, some))
    assert before["peak_bytes"]["gradient"] >= table > after["peak_bytes"].get("gradient", 0)


@pytest.mark.rotates
def test_gradients_are_those_of_full_training(tools, tokens, tmp_path):
    full, some = tools.library(GPT2), tools.library(GPT2, *SUMMA, *TRAIN)
    said = tools.call("optimus-run", "verify", full, some, "--data", tokens, "--json")
    assert "gradients of 19 parameters are not compared" in said.stderr
    compared = {tensor["name"] for tensor in json.loads(said.stdout)["tensors"]}
    names = {name for name, _ in GPT2.parameter_shapes()}
    assert compared == {"loss", *filter(is_trained, names)}
    program = tmp_path / "differentiated.mlir"
    flags = (*TRAIN, "--compile-to", "differentiate")
    tools.run("optimus-compile", tools.program(GPT2), *flags, "-o", program)
    said = tools.run("optimus-interpret", program, "--gradcheck", "--gradcheck-limit", 1, "--draw", 40)
    assert {line.split(":")[0] for line in said.splitlines()} == compared - {"loss"}


@pytest.mark.variants
@pytest.mark.parametrize("layout", [(None, "serial"), SUMMA])
def test_frozen_parameters_keep_their_bits(tools, tokens, tmp_path, layout):
    some = tools.library(GPT2, *layout, "--accumulate", "--recompute", "layer", *TRAIN)
    first = tools.initial(some, tokens, tmp_path / "first")
    flags = ["--seed", 1, "--microbatches", 2, "--save", tmp_path / "last"]
    tools.train(some, tokens, 3, *flags, log=tmp_path / "log")
    last = Checkpoint(tmp_path / "last")
    trained = [name for name in first.parameters if is_trained(name)]
    for name, values in first.parameters.items():
        same = np.array_equal(values, last.parameters[name])
        assert same != is_trained(name), name
    assert sorted(last.state["trained"]) == sorted(trained)
    assert last.moments.keys() == {
        role + "." + name for role in ("exp_avg", "exp_avg_sq") for name in trained
    }


READ_WIDE = ("ln_", "bias", "wte", "wpe")


@pytest.mark.variants
@pytest.mark.parametrize("layout", [(None, "serial"), SUMMA])
def test_frozen_parameters_are_held_in_bf16_alone(tools, tokens, tmp_path, layout):
    flags = [*layout, "--accumulate", *TRAIN]
    narrow = tools.library(GPT2, *flags, "--precision", "bf16")
    before, after = tools.manifest(GPT2, *flags), tools.manifest(
        GPT2, *flags, "--precision", "bf16"
    )
    wide = named(before, "parameter")
    for name, buffer in named(after, "parameter").items():
        held = not is_trained(name) and not any(part in name for part in READ_WIDE)
        assert buffer["type"] == ("bf16" if held else "f32"), name
        assert elements(buffer) == elements(wide[name])
    # Where weights are bf16 nothing of them is rounded, loaded on any mesh.
    full = tools.initial(tools.library(GPT2), tokens, tmp_path / "full")
    rounded = ["--load", full.folder, "--save-dtype", "bf16", "--save", tmp_path / "bf16"]
    tools.run("optimus-run", "convert", *rounded)
    given = safetensors_file.read(tmp_path / "bf16/model.safetensors")
    flags = ["--load-weights", tmp_path / "bf16", "--save", tmp_path / "last"]
    tools.train(narrow, tokens, 2, *flags, "--microbatches", 2, log=tmp_path / "log")
    last = Checkpoint(tmp_path / "last").parameters
    for name, values in given.items():
        assert np.array_equal(values, last[name]) != is_trained(name), name
    # The first loss is that of a run with f32 masters of the same values.
    everything = tools.library(GPT2, *layout, "--accumulate", "--precision", "bf16")
    begun = ["--load-weights", tmp_path / "bf16", "--seed", 1]
    logs = [tmp_path / "some", tmp_path / "all"]
    for library, log in zip((narrow, everything), logs):
        tools.train(library, tokens, 1, *begun, log=log)
    first = [json.loads(log.read_text().splitlines()[1])["loss"] for log in logs]
    assert first[0] == first[1]
    # Held as planned, but for the gaps between buffers.
    said = tools.run("optimus-run", "bench", narrow, "--steps", 1, "--warmup", 0, "--json")
    sizes = {"bf16": 2, "f32": 4}
    planned = sum(
        sizes[buffer["type"]] * elements(buffer) for buffer in named(after, "parameter").values()
    )
    gaps = json.loads(said)["memory"]["parameters"] - planned
    assert 0 <= gaps < 64 * len(named(after, "parameter"))


@pytest.mark.rotates
@pytest.mark.parametrize("target", [(), EMULATED], ids=["processor", "emulated"])
def test_what_is_held_in_bf16_alone_runs_everywhere(tools, tokens, tmp_path, target):
    """Offloaded, verified and generating."""
    whole = tools.initial(tools.library(GPT2), tokens, tmp_path / "whole").folder
    flags = ["--precision", "bf16", *target]
    environment = tools.fake_gpu() if target else None
    optimus = lambda *words: succeed(call(tools.command("optimus-run", *words), env=environment))
    some = tools.library(GPT2, None, "serial", *flags, *TRAIN)
    homes = ["--offload", "state,parameters,gradients,activations"]
    logs = []
    for library in (some, tools.library(GPT2, None, "serial", *flags, *TRAIN, *homes)):
        begun = ["--data", tokens, "--steps", 2, "--load-weights", whole, "--seed", 1]
        optimus("train", library, *begun, "--log-json", tmp_path / "log")
        lines = read_log(tmp_path / "log")
        logs.append([(line["loss"], line["grad_norm"]) for line in lines])
    assert len(logs[0]) == 2 and logs[0] == logs[1]
    wide = tools.library(GPT2, None, "serial", *TRAIN)
    optimus("verify", wide, some, "--data", tokens, "--load", whole)
    # Of the same rounded weights all say the same.
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("[5, 7, 11]\n")
    words = ["--load", whole, "--tokens", prompts, "--max-tokens", 5, "--json"]
    texts = []
    for more in ((), TRAIN):
        extents = dict(functions="loss", generate="slots=1,context=8,chunk=4")
        library = tools.library(GPT2, None, "serial", *flags, *more, **extents)
        texts.append(json.loads(optimus("generate", library, *words))["tokens"])
    assert texts[0] == texts[1]


def test_checkpoints_of_full_and_of_some_training(tools, tokens, tmp_path):
    full, some = tools.library(GPT2), tools.library(GPT2, None, "serial", *TRAIN)
    whole = tools.initial(full, tokens, tmp_path / "full")
    assert "trained" not in whole.state
    go_on = lambda library, load, *flags: call(
        tools.train_command(library, tokens, 1, "--load", load, *flags)
    )
    # A full checkpoint has all that training of a part needs.
    succeed(go_on(some, whole.folder, "--save", tmp_path / "full", "--overwrite"))
    tools.run("optimus-run", "eval", full, "--data", tokens, "--load", whole.folder)
    refused = go_on(full, whole.folder)
    assert refused.returncode == 1
    assert "trained 9 of the model's parameters: it has no exp_avg.wte.weight" in refused.stderr
    assert "--load-weights" in refused.stderr


def test_a_pattern_without_a_match(tools):
    compile = lambda *flags: tools.call("optimus-compile", tools.program(GPT2), *flags, "-o", "x")
    refused = compile("--train", "h.*.atn.c_proj.weight")
    assert refused.returncode == 1
    assert "--train: no parameter matches 'h.*.atn.c_proj.weight'" in refused.stderr
    assert "the nearest names are h.0.attn.c_proj.weight" in refused.stderr
    refused = compile("--train", "h.*", *lora(["c_attn"]))
    assert "--lora and --train both say what is trained" in refused.stderr
    refused = compile("--lora", "rank=0,alpha=1,targets=c_attn")
    assert "--lora: expected a rank from 1 to 65536; found '0'" in refused.stderr
    refused = compile("--lora", "rank=2,alpha=1,targets=c_atn")
    assert "no linear is called 'c_atn'" in refused.stderr
    assert "did you mean 'c_attn'?" in refused.stderr


# ---------------------------------------------------------------- adapters

UNIT = 2.0**-24
BOTH = "loss,forward"
RANK, ALPHA = 2, 6
ALONE = {
    "adapter_config.json",
    "adapter_model.safetensors",
    "optimizer.safetensors",
    "state.json",
}
FAMILIES = {
    "gpt2": (
        GPT2,
        ["c_attn", "c_proj"],
        lambda name: "transformer." + name,
        lambda values: gpt2_reference.Gpt2(values, 4),
    ),
    "llama": (
        LLAMA,
        ["q_proj", "v_proj", "down_proj"],
        lambda name: name,
        lambda values: llama_reference.Llama(values, 4, 2, 10000.0, 1e-6),
    ),
}


def lora(targets) -> tuple:
    return ("--lora", "rank=%d,alpha=%d,targets=%s" % (RANK, ALPHA, ",".join(targets)))


def is_target(name: str, targets) -> bool:
    return name.endswith(".weight") and name.split(".")[-2] in targets


def write_adapter(folder, base, values, targets, outer, fan_in_fan_out):
    """As PEFT's save_pretrained(); returns the merged weights."""
    random = np.random.default_rng(8)
    tensors, merged = [], {}
    for name, weight in values.items():
        merged[name] = weight.astype(np.float64)
        if not is_target(name, targets):
            continue
        shape = weight.T.shape if fan_in_fan_out else weight.shape
        a = random.normal(0, 0.3, (RANK, shape[1])).astype("<f4")
        b = random.normal(0, 0.3, (shape[0], RANK)).astype("<f4")
        path = "base_model.model." + outer(name)[: -len(".weight")]
        tensors += [(path + ".lora_A.weight", "F32", a), (path + ".lora_B.weight", "F32", b)]
        change = ALPHA / RANK * (b.astype(np.float64) @ a)
        merged[name] += change.T if fan_in_fan_out else change
    folder.mkdir()
    safetensors_file.write(folder / "adapter_model.safetensors", tensors)
    config = dict(
        peft_type="LORA",
        task_type="CAUSAL_LM",
        base_model_name_or_path=str(base),
        r=RANK,
        lora_alpha=ALPHA,
        target_modules=targets,
        fan_in_fan_out=fan_in_fan_out,
        bias="none",
        lora_dropout=0.0,
        use_dora=False,
    )
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return merged


def logits_bound(tools, library, exact) -> float:
    """That of test_forward, without amplification."""
    rounding = tools.rounding(library)
    return 4 * rounding * UNIT * np.linalg.norm(exact)


@pytest.mark.rotates
@pytest.mark.parametrize("family", FAMILIES)
def test_an_adapter_of_peft(tools, tokens, tmp_path, family):
    model, targets, outer, reference = FAMILIES[family]
    plain = tools.library(model, functions=BOTH)
    base, peft = tmp_path / "base", tmp_path / "peft"
    tools.initial(plain, tokens, tmp_path / "initial", seed=5)
    tools.run("optimus-run", "convert", "--load", tmp_path / "initial", "--save", base)
    values = safetensors_file.read(base / "model.safetensors")
    merged = write_adapter(peft, base, values, targets, outer, family == "gpt2")
    windows = np.fromfile(tokens, "<u2").astype(int)[: 4 * 8].reshape(4, 8)
    exact = reference(merged).logits(windows)
    assert np.linalg.norm(reference(values).logits(windows) - exact) > 0.1

    def check(library, folder):
        output = tmp_path / "logits.npy"
        given = ["--data", tokens, "--windows", 4, "--load", folder]
        tools.run("optimus-run", "forward", library, *given, "-o", output)
        difference = np.linalg.norm(np.load(output) - exact)
        assert difference <= logits_bound(tools, library, exact)

    beside = [
        tools.library(model, *layout, *lora(targets), functions=BOTH)
        for layout in [(None, "serial"), ("row:2,col:2", "summa"), ("row:1,col:4", "megatron")]
    ]
    for library in beside:
        check(library, peft)
    tools.run("optimus-run", "convert", "--load", peft, "--merge", "--save", tmp_path / "merged")
    found = safetensors_file.read(tmp_path / "merged/model.safetensors")
    assert {file.name for file in (tmp_path / "merged").iterdir()} == {
        "config.json",
        "model.safetensors",
    }
    for name, weight in merged.items():
        # A sum of two products in f64, rounded once.
        np.testing.assert_allclose(found[name], weight, rtol=2 * UNIT, atol=1e-12)
    check(plain, tmp_path / "merged")

    # Trained on, all comes out as it came.
    trained = tmp_path / "trained"
    flags = ["--load-weights", peft, "--save", trained]
    tools.train(beside[1], tokens, 2, *flags, log=tmp_path / "log")
    assert {file.name for file in trained.iterdir()} == ALONE
    before = safetensors_file.read(peft / "adapter_model.safetensors")
    after = safetensors_file.read(trained / "adapter_model.safetensors")
    assert before.keys() == after.keys()
    for name, weight in before.items():
        assert weight.shape == after[name].shape and not np.array_equal(weight, after[name])
    state = Checkpoint(trained).state
    assert sorted(state["trained"]) == sorted(after)
    moments = Checkpoint(trained).moments
    assert moments.keys() == {
        role + "." + name for role in ("exp_avg", "exp_avg_sq") for name in after
    }
    config = json.loads((trained / "adapter_config.json").read_text())
    given = json.loads((peft / "adapter_config.json").read_text())
    assert {name: config[name] for name in given} == given
    # From there another mesh goes on.
    flags = ["--load", trained, "--save", trained]
    tools.train(beside[0], tokens, 3, *flags, log=tmp_path / "log")


@pytest.mark.parametrize("layout", [(None, "serial"), SUMMA])
def test_state_is_that_of_adapters(tools, layout):
    """To the byte: A is whole, B lies as its host does."""
    manifest = tools.manifest(GPT2, *layout, *lora(["c_attn"]))
    parts = 1 if layout[0] is None else 2
    for role in ("exp_avg", "exp_avg_sq", "grad"):
        found = {name: elements(buffer) for name, buffer in named(manifest, role).items()}
        # With ZeRO state is shared out over data, where a dimension allows it.
        shared = 1 if role == "grad" else parts
        path = "base_model.model.transformer.h.%d.attn.c_attn.lora_%s.weight"
        assert found.keys() == {path % (layer, of) for layer in (0, 1) for of in "AB"}
        for layer in (0, 1):
            assert found[path % (layer, "A")] * shared == RANK * 24
            assert found[path % (layer, "B")] * parts * shared == 72 * RANK


def test_adapters_begin_without_effect(tools, tokens, tmp_path):
    libraries = [
        tools.library(GPT2, functions=BOTH),
        tools.library(GPT2, None, "serial", *lora(["c_attn", "c_proj"]), functions=BOTH),
    ]
    initial = [
        tools.initial(library, tokens, tmp_path / str(i)) for i, library in enumerate(libraries)
    ]
    logits = []
    for library, checkpoint in zip(libraries, initial):
        output = tmp_path / "logits.npy"
        given = ["--data", tokens, "--windows", 4, "--load", checkpoint.folder]
        tools.run("optimus-run", "forward", library, *given, "-o", output)
        logits.append(np.load(output))
    assert np.array_equal(*logits)
    adapters = safetensors_file.read(initial[1].folder / "adapter_model.safetensors")
    a = adapters["base_model.model.transformer.h.0.attn.c_attn.lora_A.weight"]
    b = adapters["base_model.model.transformer.h.0.attn.c_attn.lora_B.weight"]
    assert a.shape == (2, 24) and b.shape == (72, 2) and not b.any()
    # Kaiming's bound for a = sqrt(5), over the whole range.
    bound = 24**-0.5
    assert np.abs(a).max() <= bound and a.min() < -bound / 2 and a.max() > bound / 2
    # A full checkpoint begins adapters, too; one with adapters is no full one.
    begun = tools.train_command(libraries[1], tokens, 0, "--load-weights", initial[0].folder)
    said = succeed(call([*begun, "--save", str(tmp_path / "begun")]))
    assert "has no adapter: the library's begins anew" in said
    assert safetensors_file.read(tmp_path / "begun/adapter_model.safetensors").keys() == (
        adapters.keys()
    )
    given = ["--data", tokens, "--load", initial[1].folder]
    refused = tools.call("optimus-run", "eval", libraries[0], *given)
    assert refused.returncode == 1
    assert "it has adapters, the library none; compile with --lora, or merge" in refused.stderr


def test_checkpoints_of_adapters_alone(tools, tokens, tmp_path):
    targets = ["c_attn", "c_proj"]
    serial, grid = (
        tools.library(GPT2, *layout, *lora(targets), functions=BOTH)
        for layout in [(None, "serial"), ("row:2,col:2", "summa")]
    )
    base, weights, last = (tmp_path / name for name in ("base", "weights", "last"))
    first = tools.initial(tools.library(GPT2), tokens, base).parameters
    tools.run("optimus-run", "convert", "--load", base, "--save", weights)

    def evaluate(library, folder, *flags):
        given = ["--data", tokens, "--load", folder, *flags]
        return tools.call("optimus-run", "eval", library, *given)

    # Beside weights as beside a checkpoint, and whatever mesh goes on.
    command = tools.train_command(grid, tokens, 1, "--load-weights", base, "--save", last)
    said = succeed(call(command))
    assert "checkpoints hold the adapters alone, beside the weights in %s" % base in said
    begun = {file.name: file.read_bytes() for file in last.iterdir()}
    assert begun.keys() == ALONE
    assert sum(map(len, begun.values())) < sum(4 * p.size for p in first.values())
    for library in (serial, grid):
        go_on = ["--load", last, "--base", weights, "--save", tmp_path / "on", "--overwrite"]
        tools.train(library, tokens, 2, *go_on, log=tmp_path / "log")
    config = json.loads((tmp_path / "on/adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(weights)

    # One run and two runs have the same bits, and so has what is whole again.
    whole = tmp_path / "whole"
    flags = ["--load-weights", weights, "--save", whole]
    tools.train(grid, tokens, 2, *flags, log=tmp_path / "log")
    for name in ("adapter_model.safetensors", "optimizer.safetensors"):
        assert (whole / name).read_bytes() == (tmp_path / "on" / name).read_bytes()
    for folder, flags in [(tmp_path / "out", []), (tmp_path / "merged", ["--merge"])]:
        tools.run("optimus-run", "convert", "--load", whole, *flags, "--save", folder)
    written = safetensors_file.read(tmp_path / "out/model.safetensors")
    assert all(np.array_equal(weight, written[name]) for name, weight in first.items())
    losses = [
        succeed(evaluate(serial, folder)).splitlines() for folder in (whole, tmp_path / "out")
    ]
    # The folder of weights says nothing of the library that they are of.
    assert losses[0][-1] == losses[1][-1]
    assert "begins anew" not in losses[0][0]

    # Another base is refused by name, one that moved is named.
    other = tools.initial(tools.library(GPT2), tokens, tmp_path / "other", seed=9).folder
    refused = evaluate(serial, last, "--base", other)
    assert refused.returncode == 1
    assert "the adapters in %s were trained beside weights with hash" % last in refused.stderr
    assert "those in %s have" % other in refused.stderr
    base.rename(tmp_path / "moved")
    refused = evaluate(serial, last)
    assert refused.returncode == 1
    assert 'found "%s"; name it with --base' % base in refused.stderr
    succeed(evaluate(serial, last, "--base", tmp_path / "moved"))

    # What takes the place of its base is whole.
    flags = ["--load-weights", tmp_path / "moved", "--save", tmp_path / "moved", "--overwrite"]
    tools.train(serial, tokens, 1, *flags, log=tmp_path / "log")
    assert "base" not in Checkpoint(tmp_path / "moved").state
    assert Checkpoint(tmp_path / "moved").parameters.keys() == first.keys()


def test_adapters_that_do_not_fit(tools, tokens, tmp_path):
    library = tools.library(GPT2, None, "serial", *lora(["c_attn", "c_proj"]), functions=BOTH)
    tools.initial(library, tokens, tmp_path / "base")
    values = safetensors_file.read(tmp_path / "base/model.safetensors")
    outer = FAMILIES["gpt2"][2]
    write_adapter(tmp_path / "peft", tmp_path / "base", values, ["c_attn"], outer, True)
    path = tmp_path / "peft/adapter_config.json"
    config = json.loads(path.read_text())
    for changed, message in [
        (dict(lora_alpha=7), "lora_alpha: adapter_config.json 7, library 6"),
        (dict(use_dora=True), "use_dora is true; supported: false"),
        (dict(alpha_pattern={"h.0": 3}), 'alpha_pattern is {"h.0":3}; supported: {}'),
        (dict(fan_in_fan_out=False), "fan_in_fan_out: adapter_config.json 0, library 1"),
        (dict(peft_type="IA3"), 'peft_type is "IA3"; supported: "LORA"'),
        (dict(base_model_name_or_path=3), "base_model_name_or_path: expected a string"),
        (dict(base_model_name_or_path="gpt2"), 'expected base_model_name_or_path to be a folder'),
        (dict(), "they lack 8 of its 40 parameters"),
    ]:
        path.write_text(json.dumps(dict(config, **changed)))
        given = ["--data", tokens, "--load", tmp_path / "peft"]
        refused = tools.call("optimus-run", "eval", library, *given)
        assert refused.returncode == 1 and message in refused.stderr, refused.stderr
    merge = lambda folder, merged: tools.call(
        "optimus-run", "convert", "--load", folder, "--merge", "--save", merged
    )
    succeed(merge(tmp_path / "base", tmp_path / "merged"))
    refused = merge(tmp_path / "merged", tmp_path / "again")
    assert refused.returncode == 1 and "has no adapters" in refused.stderr
