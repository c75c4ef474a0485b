# ===- test_bench.py - The benchmarks run and count right -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The benchmarks on models too small to say anything."""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from xml.etree import ElementTree

import pytest

from tools import REPOSITORY, TIMEOUT_SECONDS, skip_without_namespaces

LAYERS, HIDDEN, HEADS, SEQUENCE, BATCH, VOCABULARY = 2, 32, 2, 16, 4, 64
SIZES = ["--layers", LAYERS, "--hidden", HIDDEN, "--heads", HEADS]
SIZES += ["--seq", SEQUENCE, "--batch", BATCH, "--vocab", VOCABULARY]

# Forward and twice backward, 2 operations each: twelve h² a layer, and the head.
GFLOP = 6e-9 * BATCH * SEQUENCE * (12 * HIDDEN**2 * LAYERS + VOCABULARY * HIDDEN)


def run_bench(name, tools, *arguments, bench=REPOSITORY / "bench"):
    command = [sys.executable, bench / "run", name, "--no-build"]
    command += ["--build", tools.binaries.parent, *arguments]
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        # Of many commands.
        timeout=4 * TIMEOUT_SECONDS,
    )


def new_page(folder, block):
    """For a benchmark that renews the block."""
    page = folder / "page.md"
    page.write_text("<!-- %s -->\n<!-- /%s -->\n" % (block, block))
    return page


def cells_of(line):
    """Of a table's row, between nothing and nothing."""
    return [cell.strip() for cell in line.split("|")]


@pytest.mark.variants
@pytest.mark.parametrize("mesh, ranks", [("", 1), ("row:2,col:2", 4)])
def test_step_accounts_for_the_products_and_the_time(tools, tmp_path, mesh, ranks):
    log = tmp_path / "rounds.json"
    arguments = ["--threads-per-rank", 1, "--json", log]
    arguments += ["--rounds", 2, "--warmup", 1]
    if mesh:
        arguments += ["--mesh", mesh]
    result = run_bench("step", tools, *SIZES, *arguments)
    assert result.returncode == 0, result.stderr
    assert "share of the step" in result.stdout
    assert ("alone: sgemm" in result.stdout) == (ranks == 1)
    rounds = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(rounds) == 2
    for entry in rounds:
        commands = entry["commands"].values()
        gflop = ranks * sum(spent["gflop"] for spent in commands)
        assert gflop == pytest.approx(GFLOP, rel=1e-12)
        # The commands of a rank come one after the other, within the step.
        assert 0 < sum(spent["ms"] for spent in commands) <= entry["ms"]


@pytest.mark.rotates
def test_step_accounts_for_a_prompt_in_bf16(tools, tmp_path):
    log = tmp_path / "rounds.json"
    arguments = ["--prompt", "--precision", "bf16", "--threads-per-rank", 1, "--json", log]
    result = run_bench("step", tools, *SIZES, *arguments, "--rounds", 1, "--warmup", 1)
    assert result.returncode == 0, result.stderr
    assert "alone: matmul, packed" in result.stdout and "sgemm" not in result.stdout
    (entry,) = map(json.loads, log.read_text().splitlines())
    gflop = sum(spent["gflop"] for spent in entry["commands"].values())
    # Of each token the weights of the layers, and of the last one the head.
    expected = 2e-9 * (SEQUENCE * LAYERS * 12 * HIDDEN**2 + HIDDEN * VOCABULARY)
    assert gflop == pytest.approx(expected, rel=1e-12)


@pytest.mark.rotates
def test_compile_time_has_a_limit(tools):
    arguments = ["--runs", 1, "--mesh", "row:1,col:2"]
    within = run_bench("compile-time", tools, *SIZES, *arguments)
    assert within.returncode == 0, within.stderr
    assert f"{LAYERS} layers, hidden {HIDDEN}" in within.stdout
    beyond = run_bench("compile-time", tools, *SIZES, *arguments, "--limit", "0")
    assert beyond.returncode == 1
    assert "slower than the limit of 0 s" in beyond.stderr


@pytest.mark.rotates
def test_lanes_are_timed_beside_their_own_runs(tools, tmp_path):
    page = new_page(tmp_path, "lanes")
    small = "--layers 1 --heads 2 --seq 8 --lanes 3 --steps 2 --rounds 1 --widths 16".split()
    within = run_bench("lanes", tools, *small, "--write", page)
    assert within.returncode == 0, within.stderr
    cells = cells_of(page.read_text().splitlines()[-2])
    assert cells[1] == "16" and float(cells[3].split()[0]) > 0
    beyond = run_bench("lanes", tools, *small, "--at-least", "1000")
    assert beyond.returncode == 1
    assert "times as fast as one after the other, of 1000" in beyond.stderr


@pytest.mark.rotates
def test_a_search_goes_on_under_faults(tools):
    small = ["--trials", 2, "--steps", 20]
    found = run_bench("search-faults", tools, *small, "--only", "twice,clock")
    assert found.returncode == 0, found.stderr
    assert found.stdout.count(" as undisturbed |") == 2
    unknown = run_bench("search-faults", tools, "--only", "flood")
    assert unknown.returncode == 1
    assert "there is no fault flood; there are kills, disk, clock" in unknown.stderr


@pytest.mark.rotates
def test_flows_are_held_against_simgrid(tools, tmp_path):
    if not pathlib.Path("/usr/include/simgrid/s4u.hpp").exists():
        pytest.skip("needs libsimgrid-dev")
    page = new_page(tmp_path, "contention")
    within = run_bench("contention", tools, "--cases", 5, "--write", page)
    assert within.returncode == 0, within.stderr
    cells = cells_of(page.read_text().splitlines()[-2])
    assert cells[1] == "5" and int(cells[2]) > 10
    beyond = run_bench("contention", tools, "--cases", 5, "--most", -1)
    assert beyond.returncode == 1
    assert "expected flows that differ by at most -1 %, found" in beyond.stderr


@pytest.mark.rotates
def test_2d_and_1d_are_simulated_side_by_side(tools, tmp_path):
    page = new_page(tmp_path, "dimensions")
    small = "--devices 128 --replica 64 --layers 1 --hidden 512 --heads 64 --seq 64".split()
    found = run_bench("dimensions", tools, *small, "--vocab", 512, "--write", page)
    assert found.returncode == 0, found.stderr
    rows = [cells_of(line)[1:-1]
            for line in page.read_text().splitlines()[3:-1]]
    assert [row[2:4] for row in rows] == [
        [ratio, rate] for ratio in ("1", "4", "16") for rate in ("50 GB/s", "12.5 GB/s")]
    for *_, one, two, other, winner in rows:
        best = min(float(two), float(other))
        assert winner.startswith("2D" if best < float(one) else "1D") or best == float(one)
    # A quarter of the rate between nodes makes nothing faster.
    for fast, slow in zip(rows[::2], rows[1::2]):
        assert all(float(a) < float(b) for a, b in zip(fast[4:7], slow[4:7]))


@pytest.mark.rotates
def test_collectives_are_simulated_by_other_sizes(tools, tmp_path):
    page = new_page(tmp_path, "collectives-simulated")
    small = ["--only", "threads, 4", "--max-bytes", 32768, "--folder", tmp_path / "kept"]
    within = run_bench(
        "collectives-simulated", tools, *small, "--median", 1000, "--write", page)
    assert within.returncode == 0, within.stderr
    rows = [cells_of(line)[1:-1]
            for line in page.read_text().splitlines() if line.startswith("| threads")]
    kinds = ["broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter"]
    # Of 4, 8, 16 and 32 KiB.
    assert [row[:3] for row in rows] == [["threads, 4 ranks", kind, "4"] for kind in kinds]
    for kind in "measured again", "between those", "beyond them":
        assert f"sizes {kind} " in page.read_text()
    beyond = run_bench(
        "collectives-simulated", tools, *small, "--rounds", 0, "--median", -1)
    assert beyond.returncode == 1
    assert "expected a median error of at most -1 %, found" in beyond.stderr


@pytest.mark.rotates
def test_arenas_are_near_their_bounds(tools, tmp_path):
    page = new_page(tmp_path, "arenas")
    arguments = ["--only", "bert-large | 2×2 | layer | bf16", "--write", page]
    within = run_bench("arenas", tools, *arguments)
    assert within.returncode == 0, within.stderr
    cells = cells_of(page.read_text().splitlines()[-2])
    assert cells[1:5] == ["bert-large", "2×2", "layer", "bf16"]
    assert 1 <= float(cells[7]) <= float(cells[8]) <= 1.005
    # No arena is below its bound.
    beyond = run_bench("arenas", tools, *arguments, "--within", "0.99")
    assert beyond.returncode == 1
    assert "times its bound, expected at most 0.99 times" in beyond.stderr


def test_mesh_and_serial_step_print_one_loss(tools, tmp_path):
    log = tmp_path / "rounds.json"
    arguments = ["--peers", "none", "--rounds", 2, "--warmup", 1]
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- mesh -->\nold\n<!-- /mesh -->\nafter\n")
    result = run_bench("mesh", tools, *SIZES, *arguments, "--json", log, "--write", page)
    assert result.returncode == 0, result.stderr
    rounds = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(rounds) == 2
    for entry in rounds:
        assert entry["mesh"]["loss"] == pytest.approx(entry["serial"]["loss"], rel=1e-5)
    assert rounds[1]["serial"]["loss"] < rounds[0]["serial"]["loss"]
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n")
    assert "old" not in text and "summa on 2×2" in text


def test_mesh_refuses_different_losses(tools):
    arguments = ["--peers", "none", "--rounds", 1, "--warmup", 0]
    # Even equal ones are not within a negative distance.
    result = run_bench("mesh", tools, *SIZES, *arguments, "--tolerance", "-1")
    assert result.returncode == 1
    assert "expected one loss" in result.stderr


def namespaces(process):
    """Those that a run of `cluster` has made and not removed."""
    listing = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True)
    names = [line.split()[0] for line in listing.stdout.splitlines()]
    return [name for name in names if f"-net-{process.pid}-" in name]


def processes(names):
    listing = ["ip netns pids %s" % name for name in names]
    found = subprocess.run(
        "; ".join(listing), shell=True, capture_output=True, text=True
    )
    return found.stdout.split()


def command_line(pid):
    """Empty once the process has ended, even if nobody has asked for it yet."""
    try:
        with open("/proc/%s/cmdline" % pid) as file:
            return file.read()
    except OSError:
        return ""


def cluster_command(tools, *arguments):
    skip_without_namespaces()
    command = [sys.executable, REPOSITORY / "bench/run", "cluster", "--no-build"]
    command += ["--build", tools.binaries.parent, "--ranks", 4, "--hidden", 64]
    return [str(part) for part in (*command, *arguments)]


@pytest.mark.rotates
def test_cluster_limits_links_and_cleans_up(tools, tmp_path):
    log = tmp_path / "runs.json"
    # 1 Mbit/s is slow enough that links take all the time there is.
    strategies = "megatron,summa,data,data-next"
    arguments = ["--strategies", strategies, "--rate", 1, "--ratios", 1]
    arguments += ["--rounds", 1, "--steps", 1, "--json", log]
    command = cluster_command(tools, *arguments)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert namespaces(process) == []
    assert re.search(r"1 Mbit/s: exchange takes \d+ .*; `data-next` hides -?\d+", printed)
    runs = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(runs) == 8
    for entry in runs:
        # What is carried has begun to move before its step.
        if entry["rate"] == "1 Mbit/s" and entry["strategy"] != "data-next":
            # No host's link is faster than its rate; the shaper lets a first
            # burst of 128 kB through, and a host moves a quarter of the bytes.
            bits = 8 * (entry["comm_bytes"] / 4 - 131072)
            assert entry["ms"] >= 1e3 * bits / 1e6
            assert bits > 0


@pytest.mark.alone
def test_cluster_cleans_up_after_a_signal(tools):
    command = cluster_command(tools, "--rate", 0.01, "--no-fast", "--ratios", 1)
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + TIMEOUT_SECONDS
    running = []
    # mpirun or orted on each host, and more
    while len(running) < 5:
        assert process.poll() is None, "it ended before it was interrupted"
        assert time.monotonic() < deadline, "the hosts did not start"
        time.sleep(0.1)
        running = processes(namespaces(process))
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=TIMEOUT_SECONDS) == 128 + signal.SIGTERM
    assert namespaces(process) == []
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while any(map(command_line, running)):
        assert time.monotonic() < deadline, "processes go on after the end"
        time.sleep(0.1)


def test_cluster_removes_what_a_killed_run_left(tools):
    cluster_command(tools)
    script = (
        "import os, signal, sys\n"
        "sys.path.insert(0, %r)\n"
        "from namespaces import Cluster\n"
        "with Cluster(2):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n" % str(REPOSITORY / "bench")
    )
    process = subprocess.Popen([sys.executable, "-c", script])
    assert process.wait(timeout=TIMEOUT_SECONDS) == -signal.SIGKILL
    assert len(namespaces(process)) == 3  # two hosts and the switch
    remove = script.split("with")[0] + "import namespaces\n"
    remove += "namespaces.remove_abandoned()\n"
    subprocess.run([sys.executable, "-c", remove], check=True, timeout=TIMEOUT_SECONDS)
    assert namespaces(process) == []


@pytest.mark.rotates
def test_a_layer_moves_what_the_formulas_say(tools, tmp_path):
    page = new_page(tmp_path, "volume")
    arguments = ["--meshes", "2x2,2x3", "--ratios", 1]
    arguments += ["--crossovers", "none", "--least-hidden", 24, "--write", page]
    result = run_bench("volume", tools, *arguments)
    assert result.returncode == 0, result.stderr
    text = page.read_text()
    # 4 (C - 1) X + 12 (R - 1) h h at bs = h = 24, in bytes: 16 * 24 * 24 * 4.
    assert "| 2×2 | 1 | 24 | `summa` |" in text and "| 36,864 |" in text
    for strategy in ["megatron", "summa-paper", "summa"]:
        assert "`%s`" % strategy in text


def test_a_wrong_formula_is_found(tools, tmp_path):
    copy = tmp_path / "bench"
    shutil.copytree(REPOSITORY / "bench", copy)
    harness, volume = copy / "harness.py", copy / "suite" / "volume.py"
    for path, right, wrong in [
        (harness, "ROOT = pathlib.Path(__file__)", 'ROOT = pathlib.Path("%s/_")' % (REPOSITORY / "bench")),
        (volume, '"summa": 4}', '"summa": 5}'),
    ]:
        assert right in path.read_text()
        path.write_text(path.read_text().replace(right, wrong))
    arguments = ["--strategies", "summa", "--meshes", "2x2", "--ratios", 1]
    arguments += ["--crossovers", "none", "--least-hidden", 24]
    result = run_bench("volume", tools, *arguments, bench=copy)
    assert result.returncode == 1
    assert "summa on 2×2 at bs/h = 1, forward: expected" in result.stderr


@pytest.mark.rotates
def test_reshard_reports_every_phase(tools, tmp_path):
    page = new_page(tmp_path, "reshard")
    arguments = ["--cases", 2, "--write", page]
    # Heads and batch that the meshes divide or pad.
    result = run_bench("reshard", tools, *SIZES, *arguments)
    assert result.returncode == 0, result.stderr
    rows = page.read_text().splitlines()[5:-1]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[:3] for row in cells] == [
        ["serial", "summa 4×4", "16 processes"],
        ["summa 4×4", "summa 2×3", "6 processes"],
    ]
    for row in cells:
        held, peak = float(row[5]), float(row[8])
        assert held > 1 and 0 <= peak < 5


@pytest.mark.rotates
def test_a_folder_is_loaded_beside_its_shards(tools):
    sizes = ["--layers", 1, "--hidden", 48, "--heads", 3, "--rounds", 1]
    result = run_bench("folder", tools, *sizes)
    # On a busy machine a rate may be far off.
    assert re.fullmatch(r"(.*error: widening is slower than reading\n)?", result.stderr)
    rows = dict(re.findall(r"^\| (.+) \| ([0-9.]+).* \|$", result.stdout, re.M))
    assert float(rows["a rank's shards, in f32"]) > 2
    assert 5 < float(rows["beside both at the peak, rank 0"]) < 64


@pytest.mark.rotates
def test_2d_activations_are_one_part_of_the_serial_ones(tools, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- peak -->\n<!-- /peak -->\n<!-- batch -->\n<!-- /batch -->\n")
    arguments = ["--strategies", "serial,megatron,summa"]
    arguments += ["--ranks", "1,4", "--layers", 2, "--hidden", 64, "--heads", 8]
    arguments += ["--seq", 32, "--batch", 8, "--large", "2,64,8,32,256"]
    arguments += ["--large-ranks", 4, "--budget", 0.004, "--write", page]
    result = run_bench("memory", tools, *arguments)
    assert result.returncode == 0, result.stderr
    rows = {}
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[tuple(cells[:2])] = cells[2:]
    # 1, but for what both ranks of a row hold, in numbers a token: two for each of
    # the 5 norms, and for a moment the head's input at its full width of 64, beside
    # at least 2 layers of 16 * 64. Overlap may move the peak by a command, and so
    # have up to one tensor of 64 a token less at it.
    share = float(rows["`summa`", "4"][1])
    assert 1 - 64 / (2 * 16 * 64) - 0.005 <= share
    assert share <= 1 + (5 * 2 + 2 * 64) / (2 * 16 * 64)
    assert float(rows["`megatron`", "4"][1]) > 1.5
    # On four ranks, from the same budget.
    assert int(rows["4", "`summa`"][0]) > int(rows["4", "`megatron`"][0]) > 0
    assert float(rows["4", "`summa`"][1]) <= 0.004


@pytest.mark.rotates
def test_a_curve_of_budgets_is_compared_with_the_policies_and_a_peer(tools, tmp_path):
    # In PyTorch's place: takes its time.
    peer = tmp_path / "peer"
    peer.write_text(
        "#!/bin/sh\necho '{\"torch\": \"none\"}'\necho '{\"step\": 1, \"ms\": 9e9}'\n"
    )
    peer.chmod(0o755)
    page = new_page(tmp_path, "curve")
    arguments = ["--layers", 2, "--hidden", 64, "--heads", 4, "--seq", 64, "--batch", 4]
    arguments += ["--shares", "100,80,1", "--rounds", 1, "--threads", 1]
    arguments += ["--peer", peer, "--write", page, "--scratch", tmp_path]
    # The built-in rates: none is measured.
    profile = tmp_path / "machine.json"
    profile.write_text('{"version": 1}')
    arguments += ["--machine-profile", profile]
    result = run_bench("budget", tools, *arguments)
    assert result.returncode == 0, result.stderr
    text = page.read_text()
    rows = {}
    for line in text.splitlines():
        if line.startswith("| "):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            rows[cells[0].split(",")[0]] = cells
    assert rows["none"][1] == rows["100 %"][1] == "none"
    assert rows["1 %"][1] == "nothing fits"
    assert float(rows["80 %"][4]) <= 0.8 * float(rows["none"][4]) + 0.1
    assert float(rows["PyTorch"][9]) == 9e9
    for other in ["none", "attention", "layer", "PyTorch"]:
        assert f"* {other}: " in text


def evaluate_in_bench(code):
    result = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY / "bench",
                            capture_output=True, text=True, check=True)
    return result.stdout


def test_rounds_of_several_calls_add_up(tmp_path):
    """Predictions are by their medians."""
    code = (
        "import json, measured, pathlib\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "measured.reference = lambda: 2.0\n"
        "for alpha in (1.0, 5.0, 3.0):\n"
        "    entries = [dict(threads=1, alpha_s=alpha), dict(threads=2, alpha_s=0.0)]\n"
        "    entry = dict(backend='tcp' if alpha == 5 else 'mpi', ranks=2, collective='reduce')\n"
        "    machine = dict(gemm=entries, comm=[dict(entry, alpha_s=alpha)])\n"
        "    measured.measure_machine = lambda *_: machine\n"
        "    rounds = measured.Rounds(None, folder)\n"
        "    rounds.add([], dict(one=lambda: alpha))\n"
        "path = rounds.profile(folder / 'profile.json', threads=1)\n"
        "print(json.dumps([rounds.programs, json.loads(path.read_text())]))\n"
        "for backend in ('mpi', 'tcp'):\n"
        "    path = rounds.profile(folder / 'profile.json', threads=1, backend=backend)\n"
        "    print([one['alpha_s'] for one in json.loads(path.read_text())['comm']])\n"
        "print('3 rounds' in rounds.describe() and '2.00 to 2.00 s' in rounds.describe())\n"
    )
    found, *collectives, described = evaluate_in_bench(code).splitlines()
    assert json.loads(found) == [
        {"one": [1.0, 5.0, 3.0]},
        {"gemm": [{"threads": 1, "alpha_s": 3.0}], "comm": []},
    ]
    # Of those rounds that have them.
    assert collectives == ["[2.0]", "[5.0]"]
    assert described == "True"


def test_a_share_of_nothing_held_is_unmeasured():
    code = "from suite.budget import share_of; print(share_of(1.5, 2), share_of(1, 0))"
    assert evaluate_in_bench(code) == "0.750 unmeasured\n"


def test_a_budget_is_compared_with_what_holds_no_less():
    # Milliseconds and MiB of two rounds each.
    code = (
        "from suite.budget import compare\n"
        "measured = {'50 %': [(12, 2), (12, 2)], '100 %': [(9, 4), (9, 4)],\n"
        "            'peer': [(10, 5), (15, 5)], 'lean': [(7, 1), (7, 1)]}\n"
        "print(compare(measured, ['50 %', '100 %'], ['peer', 'lean']))"
    )
    assert evaluate_in_bench(code) == (
        "* peer: 100 % holds 0.800 of it, and a step takes 0.750 of its time.\n"
        "* lean: no budget holds as little.\n"
    )


@pytest.mark.rotates
def test_memory_behaviours_of_a_small_model(tools, tmp_path):
    page = tmp_path / "page.md"
    names = "run stability intervals lifetimes categories peak outliers swaps placement"
    page.write_text(
        "".join("<!-- %s -->\n<!-- /%s -->\n" % (name, name) for name in names.split())
    )
    # Windows of 16 tokens, so that a batch of 32 is large beside the parameters.
    arguments = ["--models", "gpt2,mlp", "--layers", 1]
    arguments += ["--batches", "2,32", "--hidden", 32, "--heads", 2]
    arguments += ["--seq", 16, "--steps", 3, "--write", page]
    result = run_bench("memory-behaviours", tools, *arguments)
    assert result.returncode == 0, result.stderr
    tables = {}
    for part in page.read_text().split("<!-- /")[:-1]:
        name, _, rows = part.rpartition("<!-- ")[2].partition(" -->")
        tables[name] = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in rows.splitlines()
            if line.startswith("|")
        ]
    cases = [["`gpt2`", "1", "2"], ["`gpt2`", "1", "32"]]
    cases += [["`mlp`", "1", "2"], ["`mlp`", "1", "32"]]
    for name in ["stability", "intervals", "lifetimes", "peak", "swaps", "placement"]:
        assert [row[:3] for row in tables[name][2:]] == cases
    # One rank runs its commands in the program's order.
    assert [row[5:7] for row in tables["stability"][2:]] == [["100.00"] * 2] * 4
    categories = tables["peak"][0]
    for small, large in [tables["peak"][2:4], tables["peak"][4:6]]:
        share = [
            float(row[categories.index("activation")].split()[0])
            for row in (small, large)
        ]
        assert 0 < share[0] < share[1] < 100
    for row in tables["placement"][2:]:
        arena_by_bound, pages_by_arena = float(row[5]), float(row[7])
        assert arena_by_bound >= 1
        # Pages cover what is alive at the peak. Of the figures, the second is
        # rounded to 0.01, the bound has sizes in multiples of 64.
        assert arena_by_bound * pages_by_arena >= 0.98


@pytest.mark.rotates
def test_calls_counts_what_lies_between_them(tools):
    arguments = ["--ranks", 4, "--microbatches", 5, "--steps", 2]
    within = run_bench("calls", tools, *arguments, "--limit", 1e9)
    assert within.returncode == 0, within.stderr
    rows = re.findall(r"^\| ([12]) \| (\d+) \| ([\d.]+) \| ([\d.]+) \|", within.stdout, re.MULTILINE)
    # Five microbatches and the update have five gaps.
    assert [row[:2] for row in rows] == [("1", "5"), ("2", "5")]
    assert all(0 < float(row[2]) <= float(row[3]) for row in rows)
    opening = re.search(r"library in (\d+) ms of a processor, at most (\d+)\.", within.stdout)
    assert 0 <= int(opening[1]) <= int(opening[2]) <= 1000
    beyond = run_bench("calls", tools, *arguments, "--limit", 0, "--open-limit", 0)
    assert beyond.returncode == 1
    assert "µs between two calls of a rank; expected at most 0" in beyond.stderr
    assert re.search(r"[\d.]+ s to open the library; expected at most 0\n", beyond.stderr)


def test_packs_are_gained(tools):
    small = ("--layers", 1, "--hidden", 64, "--sequence", 16, "--rounds", 1, "--steps", 1)
    found = run_bench("packs", tools, *small, "--microbatches", 2, "--least", -1000)
    assert found.returncode == 0, found.stderr
    assert re.search(r"ms once a step; gained are .* % of 50.0 %. A rank holds", found.stdout)
    short = run_bench("packs", tools, *small, "--microbatches", 2, "--least", 1000)
    assert short.returncode == 1 and "of which 1000 were expected" in short.stderr


def test_all_benchmarks_are_listed_and_explain_themselves():
    bench = REPOSITORY / "bench"
    listed = subprocess.run([bench / "run"], capture_output=True, text=True, check=True)
    names = [path.stem.replace("_", "-") for path in (bench / "suite").glob("*.py")]
    table = (bench / "README.md").read_text()
    for name in names:
        assert re.search(r"^%s +\S.*\.$" % name, listed.stdout, re.MULTILINE)
        assert "`bench/run %s" % name in table
        command = ["/usr/bin/python3", bench / "run", name, "--help"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert "usage: bench/run %s " % name in text and "--no-build" in text
    wrong = subprocess.run([bench / "run", "stpe"], capture_output=True, text=True)
    assert wrong.returncode == 1 and "there is no benchmark 'stpe'" in wrong.stderr


def test_gates_fail_by_name(tmp_path):
    copy = tmp_path / "bench"
    shutil.copytree(REPOSITORY / "bench", copy)
    for name in ["equivalence", "volume", "arenas", "same_bits"]:
        mistakes = ["the gate is shut"] if name == "volume" else []
        (copy / "suite" / (name + ".py")).write_text(
            '"""A gate."""\nTARGETS = []\n\n\ndef options(parser):\n'
            '    parser.add_argument("before", nargs="?")\n\n\n'
            "def main(options, tools, folder):\n    return {}, %r\n" % mistakes)
    report = tmp_path / "gates.xml"
    for flags, skipped in [([], 1), (["--before", tmp_path], 0)]:
        command = [copy / "run", "gates", "--junit", report, *flags]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 1
        assert "the gate is shut" in result.stderr
        suite = ElementTree.parse(report).getroot()
        failed = [case.get("name") for case in suite if case.find("failure") is not None]
        assert failed == ["volume"] and len(suite) == 4
        assert len(suite.findall("*/skipped")) == skipped
