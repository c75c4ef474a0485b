# ===- test_schedule.py - Overlap changes no bit ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Training with collectives under way while others compute, against training
with every collective waited for where it starts: the bits are the same, and
the memory that it takes is within its bound.
"""

import json

import numpy as np
import pytest

from selection import covering
from tools import Model, mpirun, read_log, succeed, call

# Heads, vocabulary and batch that no mesh here divides.
MODEL = Model(layers=2, hidden=48, heads=6, sequence=32, vocabulary=250, batch=6)
# One layer, whose peak is where collectives of one place follow each other.
SHALLOW = Model(layers=1, hidden=192, heads=4, sequence=96, vocabulary=128, batch=8)
STEPS = 4


def train_step(manifest):
    (step,) = [each for each in manifest["functions"] if each["name"] == "train_step"]
    return step


def inspect(tools, library):
    return json.loads(tools.run("optimus-run", "inspect", library, "--json"))


def train(tools, library, text, folder, prefix=()):
    log, checkpoint = folder.with_suffix(".jsonl"), folder
    flags = ["--save", checkpoint, "--seed", 5]
    command = tools.train_command(library, text, STEPS, *flags, log=log)
    succeed(call([*prefix, *command]))
    tensors = [
        (checkpoint / name).read_bytes()
        for name in ("model.safetensors", "optimizer.safetensors")
    ]
    numbers = [(line["loss"], line["grad_norm"]) for line in read_log(log)]
    return numbers, tensors


@pytest.mark.variants
@pytest.mark.parametrize(
    "mesh, strategy",
    [
        ("row:2,col:2", "summa"),
        pytest.param("row:2,col:3", "summa", marks=pytest.mark.long),
        pytest.param("row:2,col:3", "summa-paper", marks=pytest.mark.long),
        ("row:1,col:4", "megatron"),
    ],
)
def test_same_bits(tools, text, tmp_path, mesh, strategy):
    runs = {}
    # With all the memory it wants, everything that can move does.
    for name, flags in {
        "none": ["--schedule", "none"],
        "overlap": [],
        "roomy": ["--extra-workspace", "1000%"],
        # Computation too in another order.
        "memory": ["--schedule", "memory"],
        "balanced": ["--schedule", "balanced"],
    }.items():
        library = tools.library(MODEL, mesh, strategy, *flags)
        runs[name] = train(tools, library, text, tmp_path / name)
    assert runs["none"] == runs["overlap"]
    assert runs["none"] == runs["roomy"]
    assert runs["none"] == runs["memory"]
    assert runs["none"] == runs["balanced"]


def test_manifests_are_those_of_libraries(tools):
    """What the tests below look at is the last phase's, as are libraries'."""
    settings = (MODEL, "row:2,col:2", "summa")
    assert tools.manifest(*settings) == inspect(tools, tools.library(*settings))


def test_goals(tools):
    """What each schedule is for: nothing is predicted to be faster than time's,
    nothing needs less than memory's, and no product is less than balanced's."""
    flags = ["--recompute", "layer"]
    step = {
        goal: train_step(
            tools.manifest(MODEL, "row:2,col:2", "summa", *flags, "--schedule", goal)
        )
        for goal in ("none", "time", "memory", "balanced")
    }
    ms = {goal: each["schedule"]["predicted_step_ms"] for goal, each in step.items()}
    peak = {goal: each["lower_bound_bytes"] for goal, each in step.items()}
    assert min(ms.values()) == ms["time"] < ms["none"]
    assert min(peak.values()) == peak["memory"] < peak["time"]
    products = {goal: ms[goal] * peak[goal] for goal in step}
    assert min(products.values()) == products["balanced"]


def test_same_bits_over_mpi(tools, text, tmp_path):
    runs = []
    for name, flags in {"none": ["--schedule", "none"], "overlap": []}.items():
        library = tools.library(MODEL, "row:2,col:2", "summa", *flags)
        prefix = mpirun(4) if name == "overlap" else ()
        runs.append(train(tools, library, text, tmp_path / name, prefix))
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    "mesh, strategy, extra, share",
    covering(
        [
            ("row:2,col:3", "summa"),
            ("row:2,col:2", "summa-paper"),
            ("data:2,row:1,col:3", "megatron-sp"),
        ],
        [("0", 0.0), ("5%", 0.05), ("100%", 1.0)],
    ),
)
def test_workspace_bound(tools, mesh, strategy, extra, share):
    """The most bytes alive at once, with the schedule and without."""
    model = MODEL if strategy == "summa" else SHALLOW
    entries = {}
    for name, flags in {
        "none": ["--schedule", "none"],
        "overlap": ["--extra-workspace", extra],
    }.items():
        entries[name] = train_step(tools.manifest(model, mesh, strategy, *flags))
    before, after = (each["lower_bound_bytes"] for each in entries.values())
    assert after - before <= share * before
    schedules = [each["schedule"] for each in entries.values()]
    assert max(after - before, 0) == schedules[1]["extra_workspace_bytes"]
    # However tight it is, something overlaps.
    assert schedules[1]["not_overlapped"] < schedules[0]["not_overlapped"]


def test_predictions(tools):
    """Overlap hides communication, and more room never hides less of it by
    more than the order of its choices does."""
    schedules = {}
    for name, flags in {
        "none": ["--schedule", "none"],
        "tight": ["--extra-workspace", "0"],
        "roomy": ["--extra-workspace", "100%"],
    }.items():
        manifest = tools.manifest(MODEL, "row:2,col:3", "summa", *flags)
        schedules[name] = train_step(manifest)["schedule"]
    none, tight, roomy = schedules.values()
    # Waited for where it starts, all communication is exposed.
    assert none["predicted_exposed_ms"] == pytest.approx(none["predicted_comm_ms"])
    compute = none["predicted_step_ms"] - none["predicted_exposed_ms"]
    for schedule in (tight, roomy):
        assert schedule["predicted_comm_ms"] == pytest.approx(none["predicted_comm_ms"])
        exposed = schedule["predicted_exposed_ms"]
        assert schedule["predicted_step_ms"] == pytest.approx(compute + exposed)
        assert schedule["not_overlapped"] < none["not_overlapped"]
    assert roomy["predicted_exposed_ms"] < 0.7 * none["predicted_exposed_ms"]
    assert roomy["predicted_exposed_ms"] <= tight["predicted_exposed_ms"]


@pytest.mark.variants
@pytest.mark.parametrize("mesh", ["row:2,col:2", "row:2,col:3"])
def test_tuned_products(tools, text, mesh):
    """Products that move otherwise are the same products: the gradients are
    serial ones, to the bounds that optimus-run derives."""
    serial = tools.library(MODEL)
    tuned = tools.library(MODEL, mesh, "summa", "--tune-products")
    tools.run("optimus-run", "verify", serial, tuned, "--data", text)
    tuned, fixed = (
        train_step(manifest)["communication"]
        for manifest in (inspect(tools, tuned), tools.manifest(MODEL, mesh, "summa"))
    )
    # Bytes are counted by what moves, not by how; messages are fewer.
    assert [axis["bytes"] for axis in tuned] == [axis["bytes"] for axis in fixed]
    assert sum(axis["messages"] for axis in tuned) < sum(
        axis["messages"] for axis in fixed
    )


def test_shared_link(tools, tmp_path):
    """Axes that share a link wait for each other: as much is moved, and less of
    it at the same time. Without a schedule nothing is under way together."""
    def schedule(name, shared, mode):
        path = tmp_path / (name + ".json")
        path.write_text(json.dumps({"version": 1, "axes_share_link": shared}))
        flags = ["--machine-profile", path, "--schedule", mode]
        flags += ["--tune-products=false"]
        manifest = tools.manifest(MODEL, "row:2,col:2", "summa", *flags)
        return train_step(manifest)["schedule"]

    own, shared = (schedule("o%d" % each, each, "time") for each in (False, True))
    assert shared["predicted_comm_ms"] == pytest.approx(own["predicted_comm_ms"])
    assert shared["predicted_exposed_ms"] > own["predicted_exposed_ms"]
    own, shared = (schedule("n%d" % each, each, "none") for each in (False, True))
    assert shared["predicted_step_ms"] == pytest.approx(own["predicted_step_ms"])


def test_machine_profile(tools, tmp_path):
    """Prices come from the profile: a link that is 100 times slower exposes
    more than a fast one, and a slow processor computes for longer."""
    def profile(name, beta, seconds):
        path = tmp_path / (name + " of today.json")
        kinds = ["broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter"]
        comm = [
            {"backend": "mpi", "ranks": 2, "collective": kind, "alpha_s": 1e-6}
            | {"beta_s_per_byte": beta}
            for kind in kinds
        ]
        point = {"m": 64, "n": 64, "k": 64, "seconds": seconds}
        gemm = [{"threads": 1, "alpha_s": 0, "points": [point]}]
        path.write_text(json.dumps({"version": 1, "comm": comm, "gemm": gemm}))
        flags = ["--machine-profile", path, "--schedule", "none"]
        flags += ["--tune-products=false"]
        manifest = tools.manifest(MODEL, "row:2,col:2", "summa", *flags)
        return train_step(manifest)["schedule"]

    fast, slow, lazy = (
        profile("fast", 1e-10, 1e-5),
        profile("slow", 1e-8, 1e-5),
        profile("lazy", 1e-10, 1e-3),
    )
    communication = [each["predicted_comm_ms"] for each in (fast, slow, lazy)]
    assert communication[1] > 5 * communication[0]
    assert communication[2] == communication[0]
    compute = [
        each["predicted_step_ms"] - each["predicted_exposed_ms"]
        for each in (fast, slow, lazy)
    ]
    assert compute[2] > 2 * compute[0]
    assert np.isclose(compute[1], compute[0])
