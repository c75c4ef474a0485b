# ===- test_lanes.py - Trainings side by side in one program -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""optimus-compile --lanes and optimus-run train --lanes: each lane has the losses and
checkpoints of its own run, to the bit."""

import json
import re
import signal
import subprocess
from typing import NamedTuple, Tuple

import pytest

from tools import (
    EMULATED,
    BertModel,
    Checkpoint,
    LlamaModel,
    Model,
    call,
    read_log,
    succeed,
)

MODEL = Model(layers=1, hidden=16, heads=2, sequence=8, vocabulary=256, batch=4)
LLAMA = LlamaModel(
    layers=1, hidden=16, heads=4, kv_heads=2, ffn=24, sequence=8, vocabulary=256, batch=4
)

# What is a lane's own: rates and schedules, steps, seeds, decay, clipping.
LANES = (
    "--steps 2 --lr 2e-3 --seed 3 --beta1 0.8",
    "--steps 6 --lr 3e-3 --seed 2 --schedule cosine --warmup 2",
    "--steps 3 --lr 1e-2 --seed 1 --clip 0.5 --order sequential",
    "--steps 5 --lr 1e-4 --seed 7 --weight-decay 0.3 --schedule linear",
    "--steps 5 --lr 1e-3 --seed 1",
)


class Case(NamedTuple):
    model: tuple
    flags: Tuple[str, ...] = ()
    options: Tuple[str, ...] = ()


CASES = {
    "gpt2": Case(MODEL),
    "bert": Case(BertModel(*MODEL)),
    "llama": Case(LLAMA),
    "dropout": Case(MODEL._replace(dropout=0.2)),
    "lamb": Case(MODEL, ("--optimizer", "lamb")),
    "bf16": Case(MODEL, ("--precision", "bf16")),
    "microbatches": Case(MODEL, ("--accumulate",), ("--microbatches", "2")),
    "recompute": Case(MODEL._replace(layers=2), ("--recompute", "layer")),
}


def compile_lanes(tools, folder, case, lanes, *more):
    library = folder / f"lanes{lanes}.so"
    program = tools.program(case.model)
    flags = ["--lanes", lanes, *case.flags, *more]
    tools.run("optimus-compile", program, *flags, "-o", library)
    return library


def train(tools, library, text, *flags, **settings):
    command = tools.command("optimus-run", "train", library, "--data", text, *flags)
    return call(command, **settings)


def write_lanes(folder, lanes, *more):
    """A file of lanes, each with a log and a checkpoint of its own."""
    path = folder / "lanes.txt"
    kept = "--log-json {0}/log{1} --save {0}/saved{1}"
    rows = [" ".join([row, kept.format(folder, i), *more]) for i, row in enumerate(lanes)]
    path.write_text("# What each lane is asked for.\n\n" + "\n".join(rows) + "\n")
    return path


def results(folder, lane):
    """What a run has logged and saved, but for times."""
    kept = ("step", "loss", "grad_norm", "lr")
    log = [[e.get(k) for k in kept] + [e.get("eval_loss")] for e in read_log(folder / f"log{lane}")]
    saved = Checkpoint(folder / f"saved{lane}")
    tensors = [saved.parameters, saved.moments]
    state = saved.state
    state.pop("checksums", None)
    bits = [{name: t.tobytes() for name, t in sorted(some.items())} for some in tensors]
    return log, bits, state["step"]


def run_alone(tools, library, text, folder, lanes, *options):
    """Each by itself, with as many threads as a lane gets."""
    for i, row in enumerate(lanes):
        flags = [*row.split(), "--threads-per-rank", 1, *options]
        flags += ["--log-json", folder / f"log{i}", "--save", folder / f"saved{i}"]
        succeed(train(tools, library, text, *flags))


def compare(tools, library, text, tmp_path, options=(), environment=None, lanes=LANES):
    alone, together = tmp_path / "alone", tmp_path / "together"
    alone.mkdir()
    together.mkdir()
    run_alone(tools, library, text, alone, lanes, *options)
    flags = ["--lanes", write_lanes(together, lanes), "--threads-per-rank", 2, *options]
    printed = succeed(train(tools, library, text, *flags, env=environment))
    for lane in range(len(lanes)):
        assert results(together, lane) == results(alone, lane), lane
    return printed


@pytest.fixture(scope="module")
def library(tools, tmp_path_factory):
    return compile_lanes(tools, tmp_path_factory.mktemp("lanes"), CASES["gpt2"], len(LANES))


def test_lanes_have_the_bits_of_their_own_runs(tools, library, text, tmp_path):
    """They end at different steps and together, and others move into their places, of
    their own thread and of the other. Each is evaluated and saved on the way."""
    more = ["--eval-data", text, "--eval-every", 2, "--save-every", 2]
    printed = compare(tools, library, text, tmp_path, more)
    assert f"{library}: 5 lanes, 1 rank (local), 2 threads each" in printed
    assert re.search(r"^lane 1: step 6/6 \| loss ", printed, re.MULTILINE)
    assert f"lane 4: saved to {tmp_path}/together/saved4" in printed


def test_batches_are_read_while_lanes_run(tools, library, text, tmp_path):
    """On one thread they run on the one that hands them their step."""
    rows = write_lanes(tmp_path, ["--steps 8"] * len(LANES))
    succeed(train(tools, library, text, "--lanes", rows, "--threads-per-rank", 1))
    for lane in range(len(LANES)):
        *steps, _ = [line for line in read_log(tmp_path / f"log{lane}") if "data_ms" in line]
        assert all(0 < step["data_ms"] and 0 <= step["data_spare_ms"] for step in steps)
        # Other programs may keep a thread from starting in time.
        assert max(step["data_spare_ms"] / step["ms"] for step in steps) > 0.5


@pytest.mark.rotates
@pytest.mark.parametrize("name", [name for name in CASES if name != "gpt2"])
def test_all_programs_have_lanes(tools, text, tmp_path, name):
    case = CASES[name]
    library = compile_lanes(tools, tmp_path, case, 3)
    compare(tools, library, text, tmp_path, case.options, lanes=LANES[:3])


@pytest.mark.rotates
def test_a_lane_goes_on_where_it_stopped(tools, library, text, tmp_path):
    """One from step 2, with others from the start, and then all from there."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    lanes = [f"--steps 5 --lr {rate} --seed {seed}" for seed, rate in enumerate((1e-3, 1e-2))]
    run_alone(tools, library, text, whole, lanes)
    for until in ["--until 2", "--until 3"], ["", ""]:
        rows = [f"{row} {stop}" for row, stop in zip(lanes, until)]
        flags = ["--lanes", write_lanes(parts, rows, "--resume"), "--threads-per-rank", 2]
        succeed(train(tools, library, text, *flags))
    for lane in range(len(lanes)):
        assert results(parts, lane) == results(whole, lane)


def test_a_lane_that_diverges_ends_alone(tools, library, text, tmp_path):
    lanes = ["--steps 4 --lr 1e-3", "--steps 4 --lr 1e30 --clip none", "--steps 4 --lr 2e-3"]
    ran = train(tools, library, text, "--lanes", write_lanes(tmp_path, lanes))
    assert ran.returncode == 1
    assert re.match(r"optimus-run: error: lane 1: training diverged: ", ran.stderr), ran.stderr
    assert "(a run of it alone says why)" in ran.stderr
    assert ran.stderr.endswith("optimus-run: error: of 3 lanes failed: lane 1\n")
    ends = [json.loads((tmp_path / f"log{i}").read_text().splitlines()[-1]) for i in range(3)]
    assert [end["ended"] for end in ends] == ["done", "diverged", "done"]


def test_fewer_lanes_than_the_library_has(tools, library, text, tmp_path):
    """Other commands have one."""
    compare(tools, library, text, tmp_path, lanes=LANES[:1])
    tools.run("optimus-run", "eval", library, "--data", text)


def test_the_table_says_its_lanes(tools, library, tmp_path):
    printed = tools.run("optimus-run", "inspect", library, "--commands")
    head = next(line for line in printed.splitlines() if line.startswith("function train_step"))
    assert "; 5 lanes, from one to the next arg0+" in head
    assert "\n  lanes: 5, for train --lanes\n" in tools.run("optimus-run", "inspect", library)
    plain = tmp_path / "plain.so"
    tools.run("optimus-compile", tools.program(MODEL), "-o", plain)
    one = tools.run("optimus-run", "inspect", plain, "--commands")
    assert re.sub("; 5 lanes, .*", "", printed) == one


def report(tools, folder, *flags):
    path = folder / "report.json"
    flags = [*flags, "--report-json", path, "-o", folder / "reported.so"]
    tools.run("optimus-compile", tools.program(MODEL), *flags)
    return json.loads(path.read_text())


def test_the_most_lanes_are_known_before(tools, text, tmp_path):
    """By the bytes of one; a lane costs no arena and no scratch."""
    one = report(tools, tmp_path, "--memory-budget", "1MiB")
    most = one["most_lanes"]
    fitting, beyond = (report(tools, tmp_path, "--lanes", most + more) for more in (0, 1))
    assert fitting["rank_bytes"] <= 2**20 < beyond["rank_bytes"]
    held, alone = fitting["memory"]["train_step"], one["memory"]["train_step"]
    for part in "parameters", "state", "inputs":
        assert held[part] == most * alone[part]
    for part in "arena", "scratch":
        assert held[part] == alone[part]

    library = compile_lanes(tools, tmp_path, CASES["gpt2"], most)
    log = tmp_path / "log0"
    rows = [f"--steps 1 --log-json {log}"] + ["--steps 1"] * (most - 1)
    (tmp_path / "rows").write_text("\n".join(rows))
    flags = ["--lanes", tmp_path / "rows", "--threads-per-rank", 1]
    printed = succeed(train(tools, library, text, *flags))
    # Scratch is what the device has used at most.
    (step,) = read_log(log)
    assert held["total"] - held["scratch"] < step["peak_bytes"] <= held["total"]
    assert printed.count("memory of the largest rank: ") == 1


def test_lanes_are_simulated(tools, library, tmp_path):
    """The default machine has a thread, and one lane after the other."""
    plain = tmp_path / "plain.so"
    tools.run("optimus-compile", tools.program(MODEL), "-o", plain)
    steps = []
    for path in plain, library:
        answer = tmp_path / "answer.json"
        tools.run("optimus-simulate", path, "--json", answer)
        steps.append(json.loads(answer.read_text())["step_ms"])
    assert steps[1] == pytest.approx(len(LANES) * steps[0], rel=1e-6)


@pytest.mark.parametrize(
    "flags, message",
    [
        (
            ["--mesh", "row:2,col:2", "--lanes", 4],
            "--lanes 4: expected one rank, as --mesh row:1,col:1; lanes of a mesh would have to "
            "communicate each for itself. Found 'row:2,col:2'",
        ),
        (
            ["--strategy", "auto", "--ranks", 4, "--lanes", 2],
            "--ranks: expected 1 beside --lanes, whose program has one rank; found 4",
        ),
        (["--lanes", 2, "--offload", "state"], "--lanes 2: expected no --offload beside it"),
        (["--lanes", 0], "--lanes: expected a number from 1 to 4096, found 0"),
    ],
)
def test_what_has_no_lanes_is_refused(tools, tmp_path, flags, message):
    result = tools.call("optimus-compile", tools.program(MODEL), *flags, "-o", tmp_path / "no.so")
    assert result.returncode == 1
    assert message in result.stderr
    assert not (tmp_path / "no.so").exists()


@pytest.mark.parametrize(
    "lanes, flags, message",
    [
        (["--lr x"], [], "--lanes: with the flags of {file}:3: --lr: expected "),
        (["--lr 1e-3", "--rate 3"], [], "--lanes: with the flags of {file}:4: "),
        (["other.so"], [], "--lanes: with the flags of {file}:3: "),
        (["--threads-per-rank=2"], [], "--threads-per-rank is not a lane's own"),
        (["--steps 1"], ["--lanes", "{file}"], "{file}:3: expected --lanes once"),
        ([], [], "{file} has no line with a run's flags; expected one a lane"),
        (["--steps 1"] * 6, [], "expected 1 to 5 lanes, as `{library}` was compiled, found 6"),
        (["--steps 1"] * 2, ["--save", "{folder}/same"], "lane 1: --save"),
        (["--steps 1"] * 2, ["--profile", "{folder}/profile"], "--lanes: expected no --profile beside it"),
    ],
)
def test_mistakes_in_lanes(tools, library, text, tmp_path, lanes, flags, message):
    path = tmp_path / "lanes.txt"
    path.write_text("\n# lanes\n" + "\n".join(lanes) + "\n")
    names = dict(file=path, library=library, folder=tmp_path)
    flags = [flag.format(**names) for flag in flags]
    ran = train(tools, library, text, "--lanes", path, *flags)
    assert ran.returncode == 1, ran
    assert message.format(**names) in ran.stderr


def test_a_signal_saves_all_lanes(tools, library, text, tmp_path):
    lanes = write_lanes(tmp_path, ["--steps 100000"] * 3)
    command = tools.command("optimus-run", "train", library, "--data", text, "--lanes", lanes)
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in job.stdout:
        if "lane 2: step" in line:
            break
    job.send_signal(signal.SIGTERM)
    _, errors = job.communicate(timeout=60)
    assert job.returncode == 128 + signal.SIGTERM, errors
    steps = {Checkpoint(tmp_path / f"saved{lane}").state["step"] for lane in range(3)}
    assert len(steps) == 1 and steps.pop() > 0


@pytest.mark.rotates
def test_a_gpu_loops_over_lanes(tools, text, tmp_path):
    """Recorded once for each number of lanes that occurs."""
    case = Case(MODEL, EMULATED)
    library = compile_lanes(tools, tmp_path, case, 3)
    gpu = tools.fake_gpu()
    alone, together = tmp_path / "alone", tmp_path / "together"
    alone.mkdir()
    together.mkdir()
    for i, row in enumerate(LANES[:3]):
        flags = [*row.split(), "--log-json", alone / f"log{i}", "--save", alone / f"saved{i}"]
        succeed(train(tools, library, text, *flags, env=gpu))
    flags = ["--lanes", write_lanes(together, LANES[:3])]
    succeed(train(tools, library, text, *flags, env=gpu))
    for lane in range(3):
        assert results(together, lane) == results(alone, lane)
