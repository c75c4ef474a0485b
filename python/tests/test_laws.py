# ===- test_laws.py - Formulas of memory on meshes of many ranks -----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The laws of docs/scale.md, on models compiled as far as placed. A layer's part is
the difference of two depths."""

import collections
import json
import os
import re
import resource
import time

import pytest

from tools import REPOSITORY, BertModel, LlamaModel, Model, PhiModel, load_script

PAGE = REPOSITORY / "docs" / "scale.md"
DEPTHS = (4, 8)
HIDDEN, HEADS = 12288, 96
SHAPE = dict(hidden=HIDDEN, heads=HEADS, sequence=2048, vocabulary=51200, batch=64)
TOKENS = SHAPE["batch"] * SHAPE["sequence"]
FAMILIES = {
    "gpt2": Model(layers=0, **SHAPE),
    "bert": BertModel(layers=0, **SHAPE),
    "llama": LlamaModel(layers=0, kv_heads=HEADS, ffn=32768, **SHAPE),
    "phi": PhiModel(layers=0, rotary_dim=64, ffn=4 * HIDDEN, **SHAPE),
}
# What the backward needs of a layer, and its parameters, in [b, s, h] and h².
ACTIVATIONS = {"gpt2": 16, "bert": 16, "llama": 8 + 3 * 32768 / HIDDEN, "phi": 14}
PARAMETERS = {"gpt2": 12, "bert": 12, "llama": 4 + 3 * 32768 / HIDDEN, "phi": 12}
# Collectives in place, and tensors moved whole, take the same activations in fewer
# commands.
FLAGS = ["--target", "cuda", "--machine-profile", "h100x8", "--schedule", "none", "--move", "whole"]

PREDICTED = ["--target", "cuda", "--precision", "bf16", "--machine-profile", "h100x8"]
PREDICTED += ["--compile-to=place"]
# What a program may have of an H100.
GPU_BYTES = 85520809984 - 1610612736


def bound(law):
    """What the page allows."""
    rows = re.findall(r"^\| `([\w-]+)` \|.*\| ([\d.]+)( %)? \|$", PAGE.read_text(), re.M)
    ((number, percent),) = [row[1:] for row in rows if row[0] == law]
    return float(number) / (100 if percent else 1)


def slowness():
    """Of this machine, beside that of scripts/ledger.json: the page's times are for it."""
    return load_script(REPOSITORY / "scripts" / "ledger.py").slowness()


def ranks(mesh):
    size = 1
    for axis in mesh.split(","):
        size *= int(axis.partition(":")[2])
    return size


def compiled(tools, model, mesh, strategy, *flags):
    flags = [*FLAGS, "--mesh", mesh, "--strategy", strategy, *flags]
    output = ["--compile-to=place", "-o", os.devnull, "--report-json", "-"]
    report = tools.run("optimus-compile", tools.program(model), *flags, *output)
    return json.loads(report)


def layer_bytes(tools, model, mesh, strategy, *flags):
    """The bytes of a layer by kind."""

    def kinds(depth):
        report = compiled(tools, model._replace(layers=depth), mesh, strategy, *flags)
        memory = report["memory"]
        return {
            "parameters": memory["train_step"]["parameters"],
            "state": memory["train_step"]["state"],
            "gradients": memory["grad_step"]["gradients"],
            "narrow weights": report["most"]["train_step"].get("narrow weight", 0),
            "activations": report["most"]["train_step"]["activation"],
        }

    less, more = map(kinds, DEPTHS)
    layers = DEPTHS[1] - DEPTHS[0]
    return {kind: (more[kind] - less[kind]) / layers for kind in more}


def stream_bytes(mesh, precision):
    """[b, s, h] of a rank."""
    elements = SHAPE["batch"] * SHAPE["sequence"] * HIDDEN
    return elements * (2 if precision == "bf16" else 4) / ranks(mesh)


MESHES = ["row:2,col:2", "row:32,col:32", "row:8,col:8"]
MORE_MESHES = [
    *("row:1,col:8", "row:2,col:4", "row:4,col:4", "row:4,col:16", "row:16,col:16"),
    "data:8,row:4,col:8",
]


def often(cases, *chosen):
    """Some of the cases, and the others only with --long."""
    return [
        pytest.param(*case, marks=[] if case in chosen else [pytest.mark.long])
        for case in cases
    ]


@pytest.mark.variants
@pytest.mark.parametrize(
    "family, mesh, precision",
    often(
        [
            (family, mesh, precision)
            for family in FAMILIES
            for mesh in [*MESHES, *MORE_MESHES]
            for precision in ("bf16", "f32")
        ],
        ("gpt2", "row:8,col:8", "bf16"),
        ("gpt2", "row:2,col:4", "f32"),
        ("bert", "row:4,col:4", "bf16"),
        ("llama", "row:8,col:8", "bf16"),
        ("phi", "row:4,col:16", "bf16"),
    ),
)
def test_memory_by_kind(tools, family, mesh, precision):
    found = layer_bytes(tools, FAMILIES[family], mesh, "summa", "--precision", precision)
    # Replicas have all parameters, and share the optimizer's state.
    parameters = PARAMETERS[family] * HIDDEN**2 / ranks(re.sub(r"^data:\d+,", "", mesh))
    expected = {
        "parameters": 4 * parameters,
        "state": 8 * PARAMETERS[family] * HIDDEN**2 / ranks(mesh),
        "gradients": 4 * parameters,
        "narrow weights": 2 * parameters if precision == "bf16" else 0,
        "activations": ACTIVATIONS[family] * stream_bytes(mesh, precision),
    }
    assert found == pytest.approx(expected, rel=bound("memory"))


STRATEGIES = [
    ("summa", "row:2,col:2"),
    ("summa", "row:32,col:32"),
    ("summa-paper", "row:8,col:8"),
    ("megatron", "row:1,col:8"),
    ("megatron", "row:1,col:32"),
    ("megatron-sp", "row:1,col:32"),
    ("data", "data:64"),
    ("summa", "data:8,row:4,col:8"),
]


@pytest.mark.variants
@pytest.mark.parametrize(
    "family, strategy, mesh",
    often(
        [(family, *layout) for family in FAMILIES for layout in STRATEGIES],
        ("gpt2", "summa", "row:32,col:32"),
        ("bert", "summa", "row:32,col:32"),
        ("llama", "megatron-sp", "row:1,col:32"),
        ("phi", "megatron", "row:1,col:32"),
    ),
)
def test_layer_keeps_cuts(tools, family, strategy, mesh):
    flags = ("--precision", "bf16", "--recompute", "layer")
    kept = layer_bytes(tools, FAMILIES[family], mesh, strategy, *flags)["activations"]
    cut = stream_bytes(mesh, "bf16")
    # Between the blocks each of its ranks has all of the residual stream.
    if strategy == "megatron":
        cut *= ranks(mesh)
    assert kept <= bound("layer-keeps") * cut


def operations(tools, family, depth, mesh, strategy, policy):
    """How often each operation stands in the step once, and how often again: by name
    and by role, in which layers are numbered."""
    model = FAMILIES[family]._replace(layers=depth)
    flags = ["--mesh", mesh, "--strategy", strategy, "--recompute", policy]
    flags += [*FLAGS, "--precision", "bf16", "--compile-to", "fuse", "-o", "-"]
    text = tools.run("optimus-compile", tools.program(model), *flags)
    once, again = collections.Counter(), collections.Counter()
    for line in text.partition("@train_step")[2].split("\n"):
        name = re.match(r"\s+%.* = (\w+\.\w+) ", line)
        if name:
            role = re.search(r'optimus\.role = "[^"]* of ([^"]*)"', line)
            (again if "optimus.recomputed" in line else once)[
                name[1], role and role[1]
            ] += 1
        elif line.startswith("  }"):
            break
    return once, again


@pytest.mark.parametrize("policy", ["attention", "layer"])
@pytest.mark.parametrize(
    "family", often([(family,) for family in FAMILIES], ("gpt2",), ("llama",))
)
def test_alike_on_every_mesh(tools, family, policy):
    small, large = (
        operations(tools, family, DEPTHS[0], mesh, "summa", policy)[1]
        for mesh in ("row:2,col:2", "row:32,col:32")
    )
    different = (small - large) + (large - small)
    assert sum(different.values()) <= bound("layer-alike"), different


CHEAP = ["attention", "gelu_with_slope", "layer_norm", "normalize", "rms_norm", "rms_scale"]
CHEAP += ["swiglu"]


@pytest.mark.parametrize(
    "family, strategy, mesh",
    often(
        [(family, *layout) for family in FAMILIES for layout in STRATEGIES],
        ("gpt2", "summa", "row:32,col:32"),
        ("bert", "megatron", "row:1,col:32"),
        ("llama", "summa", "row:32,col:32"),
    ),
)
def test_attention_does_what_it_says(tools, family, strategy, mesh):
    def counts(depth):
        once, again = operations(tools, family, depth, mesh, strategy, "attention")
        for name, _ in again:
            assert not re.search("matmul|gather|scatter|reduce$", name), name
        return [
            sum(count for (name, _), count in which.items() if name.split(".")[1] in CHEAP)
            for which in (once, again)
        ]

    (less, less_again), (more, more_again) = map(counts, DEPTHS)
    assert (more - less) - (more_again - less_again) <= bound("attention-does")
    assert more_again > less_again


@pytest.mark.variants
@pytest.mark.parametrize(
    "mesh, strategy, move, depths",
    often(
        [
            ("data:8,row:4,col:8", "summa", "auto", DEPTHS),
            ("data:8,row:4,col:8", "summa", "whole", DEPTHS),
            ("data:64", "data", "auto", DEPTHS),
            ("data:4,row:2,col:2", "summa-paper", "auto", DEPTHS),
            ("data:4,row:1,col:16", "megatron-sp", "auto", DEPTHS),
            ("data:16,row:4,col:8", "summa", "auto", (8, 32)),
        ],
        ("data:8,row:4,col:8", "summa", "auto", DEPTHS),
        ("data:8,row:4,col:8", "summa", "whole", DEPTHS),
        ("data:64", "data", "auto", DEPTHS),
    ),
)
def test_gradients_leave_where_they_are_made(tools, mesh, strategy, move, depths):
    def most(depth):
        model = FAMILIES["gpt2"]._replace(layers=depth)
        flags = [*PREDICTED, "--mesh", mesh, "--strategy", strategy, "--move", move]
        report = tools.run(
            "optimus-compile", tools.program(model), *flags, "-o", os.devnull, "--report-json", "-"
        )
        return json.loads(report)["most"]["train_step"]["gradient"]

    less, more = map(most, depths)
    law = 4 * PARAMETERS["gpt2"] * HIDDEN**2 / ranks(mesh)
    assert (more - less) / (depths[1] - depths[0]) <= bound("data-gradients") * law


def arena(tools, model, mesh, *flags):
    """The bytes of the arena of train_step, and the most of them alive at once."""
    given = [*PREDICTED, "--mesh", mesh, *flags, "-o", "-"]
    text = tools.run("optimus-compile", tools.program(model), *given)
    head = text.partition("@train_step(")[2].partition("\n")[0]
    return [
        int(re.search(r"exec\.%s_bytes = (\d+)" % each, head)[1])
        for each in ("arena", "lower_bound")
    ]


@pytest.mark.long
def test_a_model_of_96_layers(tools):
    def report(policy):
        flags = [*PREDICTED, "--mesh", "row:8,col:8", "--recompute", policy]
        program = tools.program(FAMILIES["gpt2"]._replace(layers=96))
        output = ["-o", os.devnull, "--report-json", "-"]
        return json.loads(tools.run("optimus-compile", program, *flags, *output))

    def milliseconds(report, function="train_step"):
        return report["schedule"][function]["predicted_step_ms"]

    layer, none = report("layer"), report("none")
    assert layer["rank_bytes"] <= bound("gpt3-gib") * 2**30
    more = milliseconds(layer) - milliseconds(none)
    assert more <= bound("gpt3-forward") * milliseconds(none, "eval_step")


def assert_arena_within_its_allowance(tools, depth, mesh, extra, *flags):
    model = FAMILIES["gpt2"]._replace(layers=depth)
    _, alive = arena(tools, model, mesh, *flags, "--schedule", "none")
    overlapped, _ = arena(tools, model, mesh, *flags)
    assert overlapped <= (1 + extra / 100 + bound("arena")) * alive


OVERLAPPED = ["row:8,col:8", "row:2,col:4", "row:4,col:4", "row:16,col:16", "row:32,col:32"]
OVERLAPPED += ["data:8,row:4,col:8"]


@pytest.mark.variants
@pytest.mark.parametrize(
    "depth, mesh, recompute, extra",
    often(
        [
            (depth, mesh, recompute, extra)
            for depth, meshes in ((4, OVERLAPPED), (8, OVERLAPPED), (96, OVERLAPPED[:1]))
            for mesh in meshes
            for recompute in ("none", "attention", "layer")
            for extra in (0, 10)
        ],
        (4, "row:8,col:8", "layer", 10),
        (4, "row:16,col:16", "none", 10),
        (4, "data:8,row:4,col:8", "none", 0),
        (8, "row:8,col:8", "none", 10),
    ),
)
def test_arena_keeps_within_its_allowance(tools, depth, mesh, recompute, extra):
    flags = ["--recompute", recompute, "--extra-workspace", f"{extra}%"]
    assert_arena_within_its_allowance(tools, depth, mesh, extra, *flags)


@pytest.mark.variants
@pytest.mark.parametrize(
    "depth, mesh, recompute, offload",
    often(
        [
            (depth, mesh, recompute, offload)
            for depth, meshes in ((4, OVERLAPPED), (8, OVERLAPPED), (96, OVERLAPPED[:1]))
            for mesh in meshes
            for recompute in ("none", "layer")
            for offload in ("state", "activations", "state,activations")
        ],
        (4, "row:8,col:8", "none", "activations"),
        (4, "row:2,col:4", "layer", "state,activations"),
    ),
)
def test_arena_of_offloaded_steps(tools, depth, mesh, recompute, offload):
    flags = ["--recompute", recompute, "--offload", offload]
    assert_arena_within_its_allowance(tools, depth, mesh, 10, *flags)


@pytest.mark.parametrize(
    "depth, recompute, extra",
    often(
        [
            (96, recompute, extra)
            for recompute in ("none", "attention", "layer")
            for extra in (0, 10)
        ]
        + [(8, "none", 10)],
        (8, "none", 10),
    ),
)
def test_arena_has_few_fragments(tools, depth, recompute, extra):
    model = FAMILIES["gpt2"]._replace(layers=depth)
    flags = ["--recompute", recompute, "--extra-workspace", f"{extra}%"]
    placed, alive = arena(tools, model, "row:8,col:8", *flags)
    assert placed <= bound("fragments") * alive


def processor_seconds(tools, times, tool, *arguments):
    """Of a tool and its children, whatever else the machine does: the least."""

    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    seconds = []
    for _ in range(times):
        begin = used()
        tools.run(tool, *arguments)
        seconds.append(used() - begin)
    return min(seconds)


@pytest.mark.long
@pytest.mark.parametrize("depth", [16, 32, 64])
def test_compiles_in_linear_time(tools, tmp_path, depth):
    """In the commands, of which there are most in panels: 1,000 a layer."""

    def seconds(depth):
        library = tmp_path / f"{depth}.so"
        program = tools.program(FAMILIES["gpt2"]._replace(layers=depth))
        flags = [*PREDICTED[:-1], "--mesh", "row:32,col:32", "--panels", "32"]
        flags += ["--gpu-arch", "sm_90", "-o", library]
        compiling = processor_seconds(tools, 1, "optimus-compile", program, *flags)
        return compiling, processor_seconds(tools, 5, "optimus-run", "inspect", library)

    for less, more in zip(seconds(depth), seconds(2 * depth)):
        assert more <= bound("linear") * less


def moved(tools, model, mesh, strategy, *flags):
    """The bytes of a layer over each axis, all ranks together, and the floating-point
    operations of a rank's products."""

    def count(depth):
        program = tools.program(model._replace(layers=depth))
        given = ["--mesh", mesh, "--strategy", strategy, *FLAGS, *flags]
        given += ["--compile-to=place", "-o", "-"]
        text = tools.run("optimus-compile", program, *given)
        text = text.partition("@train_step")[2].partition("\n  }")[0]
        found = collections.Counter()
        for axis, size in re.findall(r'axis = "(\w+)", bytes = (\d+)', text):
            found[axis] += int(size)
        for gemm in re.findall(r"exec\.gemm .*", text):
            m, n, k = (int(re.search(r"\b%s = (\d+)" % each, gemm)[1]) for each in "mnk")
            found["operations"] += 2 * m * n * k
        return found

    less, more = map(count, DEPTHS)
    layers = DEPTHS[1] - DEPTHS[0]
    return {kind: (more[kind] - less[kind]) / layers for kind in more}


def laws_of_movement(parameters, mesh, precision, reduced=4):
    """Of a model whose dimensions the mesh divides, with the gradients of weights
    reduced in so many bytes."""
    axes = {name: int(size) for name, size in re.findall(r"(\w+):(\d+)", mesh)}
    narrow = 2 if precision == "bf16" else 4
    return {
        "col": 10 * (axes["col"] - 1) * TOKENS * HIDDEN * narrow,
        "row": (axes["row"] - 1) * parameters * (2 * narrow + reduced),
        "operations": 6 * TOKENS * parameters / ranks(mesh),
    }


@pytest.mark.variants
@pytest.mark.parametrize(
    "family, mesh, precision",
    often(
        [
            (family, mesh, precision)
            for family in ("gpt2", "bert", "llama")
            for mesh in ("row:2,col:4", "row:8,col:8", "row:4,col:16")
            for precision in ("bf16", "f32")
        ],
        ("gpt2", "row:8,col:8", "bf16"),
        ("bert", "row:2,col:4", "f32"),
        ("bert", "row:8,col:8", "bf16"),
        ("llama", "row:2,col:4", "bf16"),
    ),
)
def test_bytes_over_each_axis(tools, family, mesh, precision):
    found = moved(tools, FAMILIES[family], mesh, "summa", "--precision", precision)
    law = laws_of_movement(PARAMETERS[family] * HIDDEN**2, mesh, precision)
    assert found == pytest.approx(law, rel=bound("bytes"))


@pytest.mark.parametrize(
    "family, mesh",
    often(
        [(family, mesh) for family in ("gpt2", "bert", "llama") for mesh in ("row:2,col:4", "row:8,col:8")],
        ("gpt2", "row:8,col:8"),
    ),
)
def test_bytes_of_narrow_gradients(tools, family, mesh):
    flags = ("--precision", "bf16", "--reduce-precision", "bf16")
    found = moved(tools, FAMILIES[family], mesh, "summa", *flags)
    law = laws_of_movement(PARAMETERS[family] * HIDDEN**2, mesh, "bf16", reduced=2)
    assert found == pytest.approx(law, rel=bound("bytes"))


@pytest.mark.variants
@pytest.mark.parametrize(
    "mesh, strategy",
    often(
        [
            ("row:16,col:16", "summa"),
            ("row:32,col:32", "summa"),
            ("row:1,col:16", "megatron"),
            ("row:1,col:16", "megatron-sp"),
        ],
        ("row:16,col:16", "summa"),
        ("row:32,col:32", "summa"),
    ),
)
def test_heads_of_keys_for_more_columns(tools, mesh, strategy):
    """As where they divide: memory by kind, movement and operations."""
    model = FAMILIES["llama"]._replace(kv_heads=8)
    flags = ("--precision", "bf16")
    parameters = (2 + 2 * 8 / HEADS + 3 * model.ffn / HIDDEN) * HIDDEN**2
    most = bound("few-keys")
    found = moved(tools, model, mesh, strategy, *flags)
    assert found["operations"] <= most * 6 * TOKENS * parameters / ranks(mesh)
    if strategy == "summa":
        law = laws_of_movement(parameters, mesh, "bf16")
        assert all(found[kind] <= most * law[kind] for kind in law), (found, law)
    kinds = layer_bytes(tools, model, mesh, strategy, *flags)
    each = parameters / ranks(mesh)
    for kind, size in ("parameters", 4), ("state", 8), ("gradients", 4), ("narrow weights", 2):
        assert kinds[kind] <= most * size * each, kind


def weighed(tools, model, count):
    """The rows of `--strategy auto`: the chosen one, and all with mesh, strategy and
    what follows; then the seconds of processors, of the clock, and what it said."""
    flags = ["--strategy", "auto", "--ranks", count, *PREDICTED, "-o", os.devnull]
    program = tools.program(model)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    result = tools.call("optimus-compile", program, *flags)
    clock = time.monotonic() - begin
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert result.returncode == 0, result.stderr
    rows = re.findall(r"^([* ]) (\S+:\d\S*) +(\S+) +none +(.*)$", result.stdout, re.M)
    (chosen,) = [row for row in rows if row[0] == "*"]
    seconds = used.ru_utime + used.ru_stime - usage.ru_utime - usage.ru_stime
    return chosen, rows, seconds, clock, result.stderr


@pytest.mark.rotates
def test_auto_chooses_in_time(tools):
    model = FAMILIES["gpt2"]._replace(layers=24)
    chosen, rows, seconds, clock, said = weighed(tools, model, 64)
    assert len(rows) == 40
    assert seconds <= bound("auto-seconds") * slowness()
    # It speaks every four seconds.
    line = r"^optimus-compile: --strategy auto: layout \d+ of 40; --mesh \S+ .* leads"
    assert clock < 8 or re.search(line, said, re.M), said
    # What is chosen is compiled whole.
    whole = compiled_as_chosen(tools, model, *chosen[1:3])
    assert float(chosen[3].split()[0]) == pytest.approx(whole, abs=0.006)


def compiled_as_chosen(tools, model, mesh, strategy):
    """The predicted milliseconds, or nothing where a GPU does not hold it."""
    flags = [*PREDICTED, "--mesh", mesh, "--strategy", strategy, "-o", os.devnull]
    report = tools.run("optimus-compile", tools.program(model), *flags, "--report-json", "-")
    report = json.loads(report)
    fits = report["memory"]["train_step"]["total"] <= GPU_BYTES
    return report["schedule"]["train_step"]["predicted_step_ms"] if fits else None


@pytest.mark.long
@pytest.mark.parametrize("family", ["gpt2", "bert", "llama"])
def test_auto_chooses_well(tools, family):
    model = FAMILIES[family]._replace(layers=24)
    chosen, rows, *_ = weighed(tools, model, 64)
    steps = [compiled_as_chosen(tools, model, *row[1:3]) for row in rows]
    best = min(step for step in steps if step)
    assert float(chosen[3].split()[0]) <= bound("auto-choice") * best


def predict(tools, depth, mesh, *flags):
    """Milliseconds of a step, and of the products in it."""
    model = FAMILIES["gpt2"]._replace(layers=depth)
    flags = [*PREDICTED, "--mesh", mesh, *flags, "-o", "-"]
    text = tools.run("optimus-compile", tools.program(model), *flags)
    schedule = re.search(r"exec\.schedule = .*", text.partition("@train_step")[2])[0]
    return [
        float(re.search(name + r" = ([\d.e+-]+)", schedule)[1])
        for name in ("predicted_step_ms", "gemm")
    ]


def assert_moves_well(tools, depth, mesh, *flags):
    """Returns the milliseconds of a step, whose products move as chosen."""
    step, products = predict(tools, depth, mesh, *flags)
    whole, alone = predict(tools, depth, mesh, *flags, "--move", "whole")
    panels, _ = predict(tools, depth, mesh, *flags, "--move", "panels")
    assert products <= bound("products") * alone
    assert step <= bound("moves") * min(whole, panels)
    return step


@pytest.mark.rotates
@pytest.mark.parametrize(
    "mesh, larger",
    often(
        [
            ("row:16,col:16", "row:32,col:32"),
            ("row:4,col:16", "row:8,col:16"),
            ("row:8,col:8", None),
            ("row:16,col:4", None),
            ("row:64,col:1", None),
        ],
        ("row:4,col:16", "row:8,col:16"),
    ),
)
def test_products_move_as_they_should(tools, mesh, larger):
    steps = [assert_moves_well(tools, 2, each) for each in (mesh, larger) if each]
    assert steps == sorted(steps, reverse=True)


@pytest.mark.rotates
@pytest.mark.parametrize(
    "depth, mesh, flags",
    often(
        [
            (8, "row:8,col:8", ("--recompute", "layer")),
            (8, "row:8,col:8", ("--recompute", "attention")),
            (8, "row:8,col:8", ("--recompute", "none")),
            (8, "row:8,col:8", ("--offload", "activations")),
            (8, "row:8,col:8", ("--offload", "state,activations")),
            (4, "row:8,col:8", ("--recompute", "layer")),
        ],
        (4, "row:8,col:8", ("--recompute", "layer")),
    ),
)
def test_products_move_well_where_memory_is_short(tools, depth, mesh, flags):
    step = assert_moves_well(tools, depth, mesh, *flags)
    # What is placed with fragments overlaps still.
    assert step <= 0.9 * predict(tools, depth, mesh, *flags, "--schedule", "none")[0]
