# ===- test_auto.py - The compiler chooses a layout ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`--strategy auto` predicts every layout and takes the fastest that fits."""

import json
import re
from typing import List, NamedTuple

import pytest

from simulation import CLUSTER, simulate
from tools import Model

MODEL = Model(layers=2, hidden=48, heads=4, sequence=32, vocabulary=256, batch=8)


class Row(NamedTuple):
    chosen: bool
    mesh: str
    strategy: str
    recompute: str
    step_ms: float
    exposed_ms: float
    moved_mib: float
    rank_mib: float
    fits: bool


def rows(output: str) -> List[Row]:
    pattern = (
        r"^([* ]) (\S+:\d\S*) +(\S+) +([a-z]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)(.*)$"
    )
    return [
        Row(m[1] == "*", *m.group(2, 3, 4), *map(float, m.group(5, 6, 7, 8)), not m[9])
        for m in re.finditer(pattern, output, re.MULTILINE)
    ]


def compile_auto(tools, path, *flags):
    source = tools.program(MODEL)
    return tools.call(
        "optimus-compile", source, "--strategy", "auto", *flags, "-o", path
    )


@pytest.fixture(scope="module")
def table(tools, tmp_path_factory):
    path = tmp_path_factory.mktemp("auto") / "model.so"
    result = compile_auto(tools, path, "--ranks", 4)
    assert result.returncode == 0, result.stderr
    return path, rows(result.stdout)


def test_every_layout_of_four_ranks_is_weighed(tools, table):
    path, candidates = table
    layouts = {(row.mesh, row.strategy) for row in candidates}
    assert {
        ("data:4", "data"),
        ("row:2,col:2", "summa"),
        ("row:4,col:1", "summa"),
        ("row:1,col:4", "megatron"),
        ("row:1,col:4", "megatron-sp"),
        ("data:2,row:1,col:2", "megatron-sp"),
    } <= layouts
    assert [row.step_ms for row in candidates] == sorted(
        row.step_ms for row in candidates
    )
    (chosen,) = [row for row in candidates if row.chosen]
    assert chosen == candidates[0]
    # The library is the table's row, to the byte of a rank.
    manifest = json.loads(tools.run("optimus-run", "inspect", path, "--json"))
    axes = ",".join("%(axis)s:%(size)d" % axis for axis in manifest["mesh"])
    assert (axes, manifest["strategy"]) == (chosen.mesh, chosen.strategy)
    (step,) = [f for f in manifest["functions"] if f["name"] == "train_step"]
    moved = sum(axis["bytes"] for axis in step["communication"])
    assert chosen.moved_mib == pytest.approx(moved / 2**20, abs=0.06)


def test_what_is_over_the_budget_is_not_chosen(tools, table, tmp_path):
    _, candidates = table
    sizes = sorted(row.rank_mib for row in candidates)
    budget = (sizes[0] + sizes[-1]) / 2
    assert sizes[0] < budget < sizes[-1]
    flags = ["--ranks", 4, "--memory-budget", "%dKiB" % (budget * 1024)]
    result = compile_auto(tools, tmp_path / "model.so", *flags)
    assert result.returncode == 0, result.stderr
    weighed = rows(result.stdout)
    assert {row.fits for row in weighed} == {True, False}
    assert all(row.fits == (row.rank_mib < budget) for row in weighed)
    (chosen,) = [row for row in weighed if row.chosen]
    assert chosen == next(row for row in weighed if row.fits)


def test_memory_budgets_call_for_recomputation(tools, table, tmp_path):
    _, candidates = table
    assert {row.recompute for row in candidates} == {"none"}
    least = min(row.rank_mib for row in candidates)
    flags = ["--ranks", 4, "--memory-budget", "%dKiB" % (0.9 * least * 1024)]
    result = compile_auto(tools, tmp_path / "model.so", *flags)
    assert result.returncode == 0, result.stderr
    weighed = rows(result.stdout)
    assert not any(row.fits for row in weighed if row.recompute == "none")
    (chosen,) = [row for row in weighed if row.chosen]
    assert chosen.recompute != "none"
    assert chosen == next(row for row in weighed if row.fits)
    # Unless it is forbidden.
    path = tmp_path / "none.so"
    result = compile_auto(tools, path, *flags, "--recompute", "none")
    assert result.returncode == 1 and not path.exists()
    assert {row.recompute for row in rows(result.stdout)} == {"none"}


def test_policies_are_weighed_on_one_layout(tools, tmp_path):
    source, path = tools.program(MODEL), tmp_path / "model.so"
    flags = ["--mesh", "row:2,col:2", "--recompute", "auto"]
    output = tools.run("optimus-compile", source, *flags, "-o", path)
    weighed = {row.recompute: row for row in rows(output)}
    assert weighed.keys() == {"none", "attention", "layer"}
    assert {row.strategy for row in weighed.values()} == {"summa"}
    assert weighed["none"].chosen
    assert weighed["none"].step_ms < weighed["layer"].step_ms
    assert weighed["none"].rank_mib > weighed["attention"].rank_mib
    assert weighed["attention"].rank_mib > weighed["layer"].rank_mib
    # The library is the chosen one.
    budget = "%dKiB" % (weighed["layer"].rank_mib * 1024 + 52)
    output = tools.run(
        *("optimus-compile", source, *flags, "--memory-budget", budget, "-o", path)
    )
    (chosen,) = [row for row in rows(output) if row.chosen]
    assert chosen.recompute == "layer"
    layer = tmp_path / "layer.so"
    tools.run("optimus-compile", source, *flags[:3], "layer", "-o", layer)
    assert path.read_bytes() == layer.read_bytes()


DEEP = MODEL._replace(layers=10)
DEEP_ROW = re.compile(r"^([* ]) (\S+:\d\S*) +(\S+) +(\w+) +(.*)$", re.MULTILINE)


@pytest.mark.rotates
def test_a_few_layers_price_a_deep_model(tools, tmp_path):
    """The choice is near the best of all, compiled whole; the others' prices are near
    theirs, and the library is the one that is asked for by name."""
    source, path = tools.program(DEEP), tmp_path / "model.so"
    flags = ["--strategy", "auto", "--ranks", 4]
    output = tools.run("optimus-compile", source, *flags, "-o", path)
    steps = {}
    for marked, mesh, strategy, _, rest in DEEP_ROW.findall(output):
        library = tmp_path / "whole.so"
        given = ["--mesh", mesh, "--strategy", strategy, "-o", library]
        report = tools.run("optimus-compile", source, *given, "--report-json", "-")
        report = json.loads(report)
        steps[mesh, strategy] = report["schedule"]["train_step"]["predicted_step_ms"]
        if marked == "*":
            chosen = steps[mesh, strategy]
            assert "estimated" not in rest
            assert library.read_bytes() == path.read_bytes()
        if "slower" in rest:
            assert float(rest.split()[2].replace(",", "")) <= steps[mesh, strategy]
            continue
        step_ms, _, _, rank_mib = map(float, rest.split()[:4])
        assert step_ms == pytest.approx(steps[mesh, strategy], rel=0.05)
        bytes = report["memory"]["train_step"]["total"]
        assert rank_mib == pytest.approx(bytes / 2**20, rel=0.1)
    assert len(steps) == 10
    assert chosen <= 1.02 * min(steps.values())


@pytest.mark.rotates
def test_deep_models_recompute_where_nothing_fits(tools, tmp_path):
    source = tools.program(DEEP)
    flags = ["--strategy", "auto", "--ranks", 4, "--compile-to=place"]
    flags += ["-o", tmp_path / "placed.mlir"]
    output = tools.run("optimus-compile", source, *flags)
    least = min(
        float(rest.split()[3])
        for *_, rest in DEEP_ROW.findall(output)
        if not rest.startswith("at least")
    )
    flags += ["--memory-budget", "%dKiB" % (0.75 * least * 1024)]
    output = tools.run("optimus-compile", source, *flags)
    (chosen,) = [row for row in DEEP_ROW.findall(output) if row[0] == "*"]
    assert chosen[3] != "none" and "estimated" not in chosen[4]
    assert float(chosen[4].split()[3]) <= 0.75 * least
    # Not even the parameters fit.
    flags[-1] = "64KiB"
    result = tools.call("optimus-compile", source, *flags)
    assert result.returncode == 1
    assert "of parameters and state: over the budget" in result.stdout
    assert "no layout fits the memory budget of 64" in result.stderr
    assert re.search("the least that was found is .* --recompute layer$", result.stderr, re.M)
    # More than some parameters and state, and not enough: no row is there twice.
    kibibytes = re.findall(r"at least ([\d.]+) KiB of parameters", result.stdout)
    flags[-1] = "%dKiB" % (1.05 * min(map(float, kibibytes)))
    result = tools.call("optimus-compile", source, *flags)
    assert result.returncode == 1
    priced = [row[1:4] for row in DEEP_ROW.findall(result.stdout)]
    assert len(priced) == len(set(priced)) > 10


def test_no_layout_fits(tools, tmp_path):
    path = tmp_path / "model.so"
    result = compile_auto(tools, path, "--ranks", 2, "--memory-budget", "64KiB")
    assert result.returncode == 1
    assert "no layout fits the memory budget" in result.stderr
    assert not path.exists()


def test_simulation_decides_on_a_cluster(tools, tmp_path):
    """Of the fastest layouts on each part of the mesh that fills a node. Each takes what
    its own plan takes there."""
    program, path = tools.program(MODEL), tmp_path / "cluster.json"
    auto = ["--strategy", "auto", "--ranks", 4, "--optimizer", "sgd", "--plan"]
    auto += ["-o", tmp_path / "auto.plan"]

    def choose(cluster):
        path.write_text(json.dumps(cluster))
        flags = [*auto, "--cluster", path, "--report-json", tmp_path / "report.json"]
        text = tools.run("optimus-compile", program, *flags)
        return json.loads((tmp_path / "report.json").read_text()), text

    report, text = choose(CLUSTER)
    found = report["finalists"]
    steps = [one["step_ms"] for one in found]
    assert steps == sorted(steps)
    assert (report["mesh"], report["strategy"]) == (found[0]["mesh"], found[0]["strategy"])
    assert "decided by simulation: the closed form's choice\n" in text
    layouts = {(one["mesh"], one["strategy"]) for one in found}
    assert len(layouts) > 4
    assert layouts <= {(one["mesh"], one["strategy"]) for one in report["layouts"]}
    for layout in layouts:
        placements = [
            one["placement"] for one in found if (one["mesh"], one["strategy"]) == layout
        ]
        # Two of four ranks are on a node.
        assert len(placements) == len(set(placements)) >= 1
        for placement in placements:
            extents = [int(part.split(":")[1]) for part in placement.split(",")]
            assert max(extents) == 2 and sum(extents) == len(extents) + 1
    # Long latencies between nodes: fewer collectives there, and the other placement.
    slow = {"bytes_per_s": 1e9, "latency_s": 1e-3}
    other, text = choose({**CLUSTER, "nic": slow})
    assert (other["mesh"], other["strategy"]) != (report["mesh"], report["strategy"])
    assert "decided by simulation: the closed form's choice is --mesh " in text
    for one in (other["finalists"][0], other["finalists"][-1]):
        flags = "--mesh %(mesh)s --strategy %(strategy)s --recompute %(recompute)s" % one
        own = simulate(
            *(tools, program, "--try", flags + " --optimizer sgd"),
            *("--cluster", path, "--placement", one["placement"]),
        )["tries"]
        assert own[0]["step_ms"] == pytest.approx(one["step_ms"], rel=1e-12)


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--ranks", -1], "--ranks: expected a number from 1 to 16384"),
        (["--ranks", 2, "--mesh", "row:1,col:2"], "--ranks: expected"),
        (["--memory-budget", "much"], "--memory-budget: expected a size"),
    ],
)
def test_bad_options(tools, tmp_path, flags, message):
    result = compile_auto(tools, tmp_path / "model.so", *flags)
    assert result.returncode == 1
    assert message in result.stderr


def entries(output):
    """Of each function of generation that was weighed: by strategy whether it is chosen,
    and its predicted MiB."""
    pattern = r"^([* ]) (prefill|decode|score) +(\S+) +[\d.]+ +([\d.]+)$"
    found = {}
    for mark, entry, strategy, moved in re.findall(pattern, output, re.MULTILINE):
        found.setdefault(entry, {})[strategy] = (mark == "*", float(moved))
    return found


def compile_generation(tools, tmp_path, *flags, functions=None):
    # As wide as models are; of one layer.
    model = Model(1, 2048, 64, sequence=32, vocabulary=32768, batch=64)
    source = tools.program(model, functions, "slots=64,context=32,chunk=32")
    path = tmp_path / "model.so"
    flags = ["--strategy", "auto", "--plan", *flags, "-o", path]
    output = tools.run("optimus-compile", source, *flags)
    return output, json.loads(tools.run("optimus-run", "inspect", path, "--json"))


@pytest.mark.parametrize("ranks", [4, 64])
def test_weights_stay_where_many_ranks_decode(tools, tmp_path, ranks):
    """Few ranks move least in one dimension."""
    output, manifest = compile_generation(tools, tmp_path, "--ranks", ranks)
    weighed = {(row.mesh, row.strategy): row for row in rows(output)}
    assert ("row:2,col:%d" % (ranks // 2), "summa,decode=stationary") in weighed
    if ranks == 4:
        assert manifest["strategy"] == "megatron" and not entries(output)
        return
    functions = entries(output)
    moves = {f["entry"]["kind"]: f["communication"] for f in manifest["functions"]}
    chosen = ["summa"]
    for entry, layouts in functions.items():
        ((strategy, moved),) = [(s, m) for s, (is_chosen, m) in layouts.items() if is_chosen]
        if strategy == "stationary":
            chosen.append(entry + "=stationary")
        # The library is what was weighed.
        assert moved == pytest.approx(sum(a["bytes"] for a in moves[entry]) / 2**20, abs=1e-3)
    assert "decode=stationary" in chosen and manifest["strategy"] == ",".join(chosen)


def test_functions_of_generation_follow_a_step_of_training(tools, tmp_path):
    """Its time decides for mesh and strategy; a @decode may still move activations alone."""
    flags = ["--mesh", "row:2,col:2"]
    output, manifest = compile_generation(tools, tmp_path, *flags, functions="loss")
    layouts = entries(output)
    step = {row.strategy: row for row in rows(output)}
    best = min(step.values(), key=lambda row: row.step_ms)
    if not best.strategy.startswith("summa"):
        assert manifest["strategy"] == best.strategy and not layouts
        return
    assert layouts["decode"]["stationary"][0]
    assert step[manifest["strategy"]].step_ms <= 1.02 * step["summa"].step_ms
