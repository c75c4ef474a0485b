# ===- test_cuda_flags.py - How steps are computed, by flags ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""The flags of optimus-run that say how a GPU computes, on the fake driver of
runtime/device/cuda/fake."""

import json
import re
import socket
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest

from test_cuda_device import GPT2, STEPS
from tools import EMULATED, Checkpoint, call, read_log, succeed


SLACK_NS = 2000


@pytest.fixture(scope="module")
def library(tools):
    return tools.library(GPT2, None, "serial", *EMULATED)


@pytest.fixture(scope="module")
def on_processor(tools):
    return tools.library(GPT2)


@pytest.fixture(scope="module")
def few(text, tmp_path_factory):
    """Some windows of the text."""
    path = tmp_path_factory.mktemp("few") / "few.txt"
    path.write_bytes(text.read_bytes()[:50])
    return path


def train(tools, library, text, folder, *flags, **settings):
    """Losses, parameters, and what the fake GPU counted."""
    folder.mkdir()
    log, saved, counts = (folder / name for name in ("log", "checkpoint", "counts.json"))
    command = tools.train_command(
        library, text, STEPS, "--seed", 1, "--lr", 1e-2, "--save", saved, *flags, log=log
    )
    succeed(call(command, env=tools.fake_gpu(counts=counts, **settings)))
    numbers = [(line["loss"], line["grad_norm"]) for line in read_log(log)]
    counted = json.loads(counts.read_text()) if counts.exists() else {}
    return numbers, Checkpoint(saved).parameters, counted


def assert_same(one, other):
    assert one[0] == other[0]
    for name, values in one[1].items():
        assert (values == other[1][name]).all(), name


@pytest.mark.variants
@pytest.mark.parametrize("mesh, strategy", [(None, "serial"), ("row:2,col:2", "summa")])
def test_eager_steps_have_the_same_bits_and_no_graphs(tools, text, tmp_path, mesh, strategy):
    library = tools.library(GPT2, mesh, strategy, *EMULATED)
    recorded = train(tools, library, text, tmp_path / "recorded")
    eager = train(tools, library, text, tmp_path / "eager", "--eager")
    assert_same(recorded, eager)
    assert eager[2]["graph_launches"] == 0
    # Each step's commands are put on queues anew.
    assert eager[2]["launches"] >= recorded[2]["launches"]
    if mesh is None:
        assert recorded[2]["graph_launches"] > 0
        assert eager[2]["launches"] > recorded[2]["launches"]


def test_products_sum_gradients_of_biases_where_cublaslt_can(tools, text, tmp_path, monkeypatch):
    """Else their kernels do, one launch for each. Rows are added in another order, so that
    sums differ by their roundings: of some tens of rows, far below 1e-4."""
    library = tools.library(GPT2, None, "serial", *EMULATED, "--precision", "bf16")
    commands = tools.run("optimus-run", "inspect", library, "--commands", "--function", "train_step")
    sums = commands.count(" bias_grad ")
    assert sums == GPT2.layers
    by_products = train(tools, library, text, tmp_path / "products", "--eager")
    monkeypatch.setenv("OPTIMUS_FAKE_CUBLASLT_WITHOUT", "bias_grad")
    by_kernels = train(tools, library, text, tmp_path / "kernels", "--eager")
    assert by_kernels[2]["launches"] == by_products[2]["launches"] + STEPS * sums
    (loss, norm), (same_loss, near_norm) = by_products[0][0], by_kernels[0][0]
    assert loss == same_loss
    assert near_norm == pytest.approx(norm, rel=1e-4)


def test_eager_processors_compute_as_ever(tools, on_processor, text, tmp_path):
    recorded = train(tools, on_processor, text, tmp_path / "as ever")
    assert_same(recorded, train(tools, on_processor, text, tmp_path / "eager", "--eager"))


def test_eager_is_for_all_that_runs_a_library(tools, library, few, tmp_path):
    counts = tmp_path / "counts.json"
    for command in (
        ("eval", library, "--data", few),
        ("verify", library, library, "--data", few),
        ("bench", library, "--steps", 2, "--warmup", 1),
    ):
        for flags, expected in (((), True), (("--eager",), False)):
            run = tools.command("optimus-run", *command, *flags)
            succeed(call(run, env=tools.fake_gpu(counts=counts)))
            assert (json.loads(counts.read_text())["graph_launches"] > 0) == expected, run


def gradients(tools, *arguments):
    command = tools.command("optimus-run", "verify", *arguments, "--json")
    result = call(command, env=tools.fake_gpu())
    assert result.returncode in (0, 1) and result.stdout, result.stderr
    return json.loads(result.stdout)


def test_tf32_rounds_as_much_as_its_bounds_say(tools, library, on_processor, text):
    exact = gradients(tools, on_processor, library, "--data", text)
    rounded = gradients(tools, on_processor, library, "--data", text, "--tf32")
    assert exact["same"] and rounded["same"]
    assert exact["loss_b"] != rounded["loss_b"]
    of_bounds = []
    for before, after in zip(exact["tensors"], rounded["tensors"]):
        assert after["relative_difference"] > before["relative_difference"], after["name"]
        # The loss is a mean, where rounding errors cancel.
        if after["name"] != "loss":
            assert after["relative_difference"] > before["bound"], after["name"]
            of_bounds.append(after["of_bound"])
    assert 0.001 < np.median(of_bounds) and max(of_bounds) < 0.5, of_bounds


def test_tf32_trains_and_is_said(tools, library, text, tmp_path):
    exact = train(tools, library, text, tmp_path / "f32")
    rounded = train(tools, library, text, tmp_path / "tf32", "--tf32")
    assert exact[0] != rounded[0]
    for kind, bound in ((0, 1e-3), (1, 5e-2)):
        expected, found = ([line[kind] for line in run[0]] for run in (exact, rounded))
        np.testing.assert_allclose(found, expected, rtol=bound)
    command = tools.train_command(library, text, 1, "--tf32")
    assert "products of f32 are in TF32" in succeed(call(command, env=tools.fake_gpu()))


def test_processors_have_no_tf32(tools, on_processor, text):
    for command in (
        ("train", on_processor, "--data", text, "--steps", 1),
        ("eval", on_processor, "--data", text),
        ("bench", on_processor, "--steps", 1),
    ):
        result = tools.call("optimus-run", *command, "--tf32")
        assert result.returncode == 1
        assert "products in TF32 (--tf32) are for GPUs" in result.stderr
    result = tools.call("optimus-run", "verify", on_processor, on_processor, "--data", text, "--tf32")
    assert result.returncode == 1 and "--tf32 and --tune are for libraries for GPUs" in result.stderr


def both_ranks(tools, command, last=(), **settings):
    """Two processes over TCP, the last with more flags."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(rank):
        where = ["--rank", rank, "--ranks", 2, "--rendezvous", "127.0.0.1:%d" % port]
        flags = [*map(str, where), *(last if rank else [])]
        return call([*command, *flags], env=tools.fake_gpu(**settings))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, (0, 1)))


@pytest.mark.parametrize(
    "flags, what", [(["--tf32"], "--tf32"), (["--tune", "q.json"], "whether there is --tune")]
)
def test_ranks_agree_on_how_they_compute(tools, text, flags, what):
    library = tools.library(GPT2, "row:1,col:2", "megatron", *EMULATED)
    ranks = both_ranks(tools, tools.train_command(library, text, 1), flags)
    assert [rank.returncode for rank in ranks] == [1, 1]
    said = "".join(rank.stderr for rank in ranks)
    assert "rank 1 and rank 0 disagree on " + what in said


# The second of four algorithms is the fastest, by seconds that pass on the fake
# GPU's clock alone.
TIMES = "3000,1000,5000,2000"


def test_products_are_tuned_once_and_for_all_runs(tools, library, text, tmp_path):
    file = tmp_path / "tuned.json"
    plain = train(tools, library, text, tmp_path / "plain", product_ms=TIMES)
    assert plain[2]["products"][0] > 0 and plain[2]["products"][1:] == [0, 0, 0]

    first = train(tools, library, text, tmp_path / "first", "--tune", file, product_ms=TIMES)
    assert_same(plain, first)
    tried = first[2]["products"][0]
    assert tried > 0 and first[2]["products"][2:] == [tried, tried]
    assert first[2]["products"][1] == tried + plain[2]["products"][0]
    assert first[2]["most_bytes"] == plain[2]["most_bytes"]

    found = json.loads(file.read_text())
    assert found["machine"].startswith("Optimus's fake GPU (emulated), CUDA 13.0, cuBLASLt 13.")
    assert all(0.9 < product["seconds"] < 1.5 for product in found["products"])
    before = file.stat()
    # What is known holds, though another algorithm would be chosen now.
    again = train(tools, library, text, tmp_path / "again", "--tune", file, product_ms="1,2,3,4")
    assert_same(plain, again)
    assert again[2]["products"] == [0, plain[2]["products"][0], 0, 0]
    assert file.stat().st_mtime_ns == before.st_mtime_ns


def test_only_what_is_missing_is_tried(tools, library, few, tmp_path):
    file = tmp_path / "tuned.json"
    run = ("eval", library, "--data", few, "--tune", file)

    def tune(*flags, **settings):
        command = tools.command("optimus-run", *run, *flags)
        result = call(command, env=tools.fake_gpu(product_ms=TIMES, **settings))
        succeed(result)
        (tried, known) = re.search(r"--tune: (\d+) products were tried, (\d+) were known", result.stderr).groups()
        return int(tried), int(known), result.stderr

    everything, known, _ = tune()
    assert everything > 2 and known == 0
    whole = json.loads(file.read_text())
    assert len(whole["products"]) == everything
    file.write_text(json.dumps({**whole, "products": whole["products"][2:]}))
    assert tune()[:2] == (2, everything - 2)
    merged = json.loads(file.read_text())
    assert [p["product"] for p in merged["products"]] == [p["product"] for p in whole["products"]]
    assert tune()[:2] == (0, everything)
    # TF32 has products of its own.
    assert tune("--tf32")[:2] == (everything, everything)


def test_another_machine_is_tuned_anew(tools, library, few, tmp_path):
    file = tmp_path / "tuned.json"
    command = tools.command("optimus-run", "eval", library, "--data", few, "--tune", file)
    succeed(call(command, env=tools.fake_gpu(product_ms=TIMES)))
    environment = dict(tools.fake_gpu(product_ms="1000,2000,3000,4000"), OPTIMUS_FAKE_CUBLASLT_MAJOR="14")
    result = call(command, env=environment)
    succeed(result)
    assert "cuBLASLt 13.0.0, and this is Optimus's fake GPU (emulated), CUDA 13.0, cuBLASLt 14.0.0" in result.stderr
    assert "all products are tried anew" in result.stderr
    found = json.loads(file.read_text())
    assert found["machine"].endswith("cuBLASLt 14.0.0")
    assert all(0.9 < product["seconds"] < 1.5 for product in found["products"])


@pytest.mark.parametrize(
    "content, message",
    [
        ("", "expected a JSON object"),
        ('{"version": 1, "gemm": []}', '"optimus_tuning": 1, found none'),
        ('{"optimus_tuning": 1, "machine": "x", "products": [1]}', "product 0: expected"),
        (None, "hexadecimal digits"),
    ],
)
def test_a_file_that_is_something_else_stays(tools, library, few, tmp_path, content, message):
    file = tmp_path / "tuned.json"
    command = tools.command("optimus-run", "eval", library, "--data", few, "--tune", file)
    if content is None:
        succeed(call(command, env=tools.fake_gpu()))
        content = re.sub(r'"algorithm": "\w{8}', '"algorithm": "nonsense', file.read_text())
    file.write_text(content)
    result = call(command, env=tools.fake_gpu())
    assert result.returncode == 1
    assert message in result.stderr and result.stderr.count("\n") == 1
    assert file.read_text() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tuned.json"]


def test_a_rank_that_is_tuned_takes_no_byte_more(tools, text, tmp_path):
    library = tmp_path / "model.so"
    flags = (*EMULATED, "--report", "-o", library)
    report = tools.run("optimus-compile", tools.program(GPT2), *flags)
    (predicted,) = re.findall(r"a rank needs .* \((\d+) bytes\) of its GPU", report)
    command = tools.train_command(library, text, 2, "--tune", tmp_path / "tuned.json")
    succeed(call(command, env=tools.fake_gpu(bytes=int(predicted))))


def test_processes_try_each_product_once(tools, text, tmp_path):
    library = tools.library(GPT2, "row:1,col:2", "megatron", *EMULATED)
    file = tmp_path / "tuned.json"
    plain = train(tools, library, text, tmp_path / "plain")
    threads = train(tools, library, text, tmp_path / "threads", "--tune", file, product_ms=TIMES)
    assert_same(plain, threads)
    found = [product["product"] for product in json.loads(file.read_text())["products"]]
    file.unlink()
    command = tools.train_command(library, text, 1, "--tune", file)
    ranks = both_ranks(tools, command, product_ms=TIMES)
    assert [rank.returncode for rank in ranks] == [0, 0], ranks
    written = json.loads(file.read_text())
    assert [product["product"] for product in written["products"]] == found
    said = "".join(rank.stderr for rank in ranks)
    assert "--tune: %d products were tried, 0 were known" % len(found) in said


def test_processors_are_not_tuned(tools, on_processor, text, tmp_path):
    file = tmp_path / "tuned.json"
    result = tools.call("optimus-run", "eval", on_processor, "--data", text, "--tune", file)
    assert result.returncode == 1
    assert "products are tuned (--tune) on GPUs" in result.stderr and not file.exists()
    result = tools.call("optimus-run", "train", on_processor, "--data", text, "--tune", text)
    assert result.returncode == 1 and "--tune" in result.stderr


def test_verify_tunes_what_is_for_gpus(tools, library, on_processor, text, tmp_path):
    file = tmp_path / "tuned.json"
    assert gradients(tools, on_processor, library, "--data", text, "--tune", file)["same"]
    assert json.loads(file.read_text())["products"]


def ranges(tools, command, folder, **settings):
    """The names of ranges, by depth, each thread's in order."""
    record = folder / "ranges.txt"
    recorder = tools.binaries.resolve().parent / "lib" / "liboptimus_nvtx_recorder.so"
    environment = dict(
        tools.fake_gpu(**settings),
        NVTX_INJECTION64_PATH=str(recorder),
        OPTIMUS_NVTX_RECORD=str(record),
    )
    succeed(call(command, env=environment))
    found, depths = [], {}
    for line in record.read_text().splitlines():
        thread, what, rest = line.split(" ", 2)
        depth = depths.get(thread, 0)
        if what == "push":
            domain, name = rest.split(": ", 1)
            assert domain == "optimus"
            found.append((depth, name))
        depths[thread] = depth + (1 if what == "push" else -1)
    assert set(depths.values()) == {0}, "all that begins ends"
    return found


def paths_of(tools, library):
    """What the step's commands are called, in order."""
    lines = tools.run("optimus-run", "inspect", library, "--json")
    return next(f for f in json.loads(lines)["functions"] if f["name"] == "train_step")["commands"]


@pytest.mark.rotates
def test_commands_are_ranges_where_they_are_put_on_queues(tools, library, text, tmp_path):
    command = tools.train_command(library, text, 4, "--nvtx")
    found = ranges(tools, command, tmp_path)
    steps = [i for i, (depth, name) in enumerate(found) if depth == 0]
    assert [found[i][1] for i in steps] == ["train_step"] * 4
    one_by_one, recorded = (found[a + 1 : b] for a, b in zip(steps, steps[1:3]))
    assert len(one_by_one) == paths_of(tools, library)
    assert {depth for depth, _ in one_by_one} == {1}
    assert (1, "h.0.mlp.up") in one_by_one
    assert one_by_one == recorded
    # What is repeated has no commands of its own.
    assert steps[2:] == [len(found) - 2, len(found) - 1]

    eager = ranges(tools, [*command, "--eager"], tmp_path)
    assert eager == 4 * [(0, "train_step"), *one_by_one]


@pytest.mark.rotates
def test_ranges_of_threads_and_of_processors(tools, on_processor, text, tmp_path):
    found = ranges(tools, tools.train_command(on_processor, text, 1, "--nvtx"), tmp_path)
    assert found[0] == (0, "train_step") and (1, "h.0.mlp.up") in found
    sharded = tools.library(GPT2, "row:1,col:2", "megatron", *EMULATED)
    found = ranges(tools, tools.train_command(sharded, text, 1, "--nvtx"), tmp_path)
    assert found.count((0, "train_step")) == 2


def test_without_a_tool_nobody_listens(tools, library, text, tmp_path):
    command = tools.train_command(library, text, 1, "--nvtx")
    environment = tools.fake_gpu()
    environment.pop("NVTX_INJECTION64_PATH", None)
    succeed(call(command, env=environment))
    recorder = tools.binaries.resolve().parent / "lib" / "liboptimus_nvtx_recorder.so"
    for path, message in (
        ("/nowhere.so", "`/nowhere.so`, which NVTX_INJECTION64_PATH names, cannot be opened"),
        (environment["OPTIMUS_CUDA_DRIVER_LIBRARY"], "has no function InitializeInjectionNvtx2"),
        (str(recorder), "does not start"),
    ):
        result = call(command, env=dict(environment, NVTX_INJECTION64_PATH=path))
        assert result.returncode == 1 and message in result.stderr


@pytest.mark.variants
@pytest.mark.parametrize("flags", [(), ("--eager",)], ids=["overlapping", "eager"])
@pytest.mark.parametrize("mesh, strategy", [(None, "serial"), ("row:2,col:2", "summa")])
def test_a_profile_has_the_times_of_every_command(tools, text, tmp_path, mesh, strategy, flags):
    library = tools.library(GPT2, mesh, strategy, *EMULATED)
    profile = tmp_path / "run.profile"
    command = tools.train_command(library, text, 2, "--profile", profile, *flags)
    succeed(call(command, env=tools.fake_gpu()))
    ranks = 4 if mesh else 1
    with closing(sqlite3.connect(profile)) as database:
        calls = database.execute("SELECT call, function, begin, end FROM calls").fetchall()
        assert len(calls) == 2 * ranks
        for number, function, begin, end in calls:
            rows = database.execute(
                "SELECT queue, times.begin, times.end FROM times JOIN commands"
                " USING (command) WHERE call = ? AND function = ? ORDER BY command",
                (number, function),
            ).fetchall()
            (commands,) = database.execute(
                "SELECT count(*) FROM commands WHERE function = ?", (function,)
            ).fetchone()
            assert len(rows) == commands > 30
            # Events know their times to about a microsecond.
            last, everywhere = {}, begin - SLACK_NS
            for queue, started, ended in rows:
                assert begin - SLACK_NS <= started <= ended <= end + SLACK_NS
                assert last.get(queue, started) <= started + SLACK_NS
                last[queue] = ended
                if flags:
                    assert everywhere <= started + SLACK_NS, "one by one"
                    everywhere = ended
            assert len(last) == (1 if mesh is None else 3)


def test_steps_that_are_not_profiled_are_recorded(tools, library, text, tmp_path):
    plain = train(tools, library, text, tmp_path / "plain")
    flags = ("--profile", tmp_path / "run.profile", "--profile-steps", "3:3")
    profiled = train(tools, library, text, tmp_path / "profiled", *flags)
    assert_same(plain, profiled)
    assert profiled[2]["graph_launches"] == plain[2]["graph_launches"] - 1


@pytest.mark.parametrize("what", ["--comm", "--gemm"])
def test_machines_are_measured_without_a_librarys_flags(tools, what):
    result = tools.call("optimus-run", "bench", what, "--eager")
    assert result.returncode == 1
    assert "bench %s runs no library, for which --eager is" % what in result.stderr
