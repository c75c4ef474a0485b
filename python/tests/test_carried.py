# ===- test_carried.py - Gathers that the next step waits for ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""With --sync 'sync(next)' new parameters are gathered while the next step begins: the
same losses and checkpoints, to the bit, on every back-end."""

import os
import re
import shutil
from typing import NamedTuple, Tuple

import pytest

from test_checkpoints import run_and_kill, saved_step
from tools import Checkpoint, Model, call, mpirun, over_tcp, read_log, succeed

MODEL = Model(layers=1, hidden=16, heads=2, sequence=8, vocabulary=256, batch=4)
NEXT = ("--sync", "sync(next)")


class Case(NamedTuple):
    flags: Tuple[str, ...]
    options: Tuple[object, ...] = ()


DATA = ("--mesh", "data:2", "--strategy", "data")
CASES = {
    "data": Case(DATA),
    "2x2, data and microbatches": Case(
        ("--mesh", "data:2,row:2,col:2", "--accumulate"), ("--microbatches", 2)
    ),
}


def libraries(tools, folder, flags):
    for name, more in ("plain", ()), ("carried", NEXT):
        path = folder / (name + ".so")
        tools.run("optimus-compile", tools.program(MODEL), *flags, *more, "-o", path)
        yield path


@pytest.fixture(scope="module")
def compiled(tools, tmp_path_factory):
    made = {}

    def get(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("carried")
            made[name] = list(libraries(tools, folder, CASES[name].flags))
        return made[name]

    return get


def command(tools, library, text, folder, options=(), steps=3):
    folder.mkdir(exist_ok=True)
    saved = folder / "saved"
    flags = ["--seed", 1, "--lr", 1e-3, "--save", saved, *options]
    return tools.train_command(library, text, steps, *flags, log=folder / "log")


def saved(folder):
    checkpoint = Checkpoint(folder / "saved")
    values = [checkpoint.parameters, checkpoint.moments]
    return [{n: t.tobytes() for n, t in sorted(tensors.items())} for tensors in values]


def results(folder):
    """What training has printed and saved."""
    kept = ("step", "loss", "grad_norm")
    log = [([e[k] for k in kept], e.get("eval_loss")) for e in read_log(folder / "log")]
    return log, saved(folder)


def test_what_is_carried_is_in_the_table(tools, compiled):
    printed = tools.run("optimus-run", "inspect", compiled("data")[1], "--commands")
    started = re.findall(r"all_gather carried=(\d+)", printed)
    awaited = re.findall(r"wait carried (\d+)", printed)
    # All parameters are divided, each with a wait where it is read.
    assert sorted(started) == sorted(awaited) == sorted(set(started))
    assert len(started) == 16


def test_the_largest_are_carried(tools, tmp_path):
    """Behind all others, of which no more may start until their waits."""
    deep, plan = MODEL._replace(layers=6, hidden=4, sequence=4), tmp_path / "deep.plan"
    tools.run("optimus-compile", tools.program(deep), *DATA, *NEXT, "--plan", "-o", plan)
    printed = tools.run("optimus-run", "inspect", plan, "--commands", "--function", "train_step")
    gathers = re.findall(r"all_gather (carried=)?.* bytes=(\d+)", printed)
    carried = [int(size) for mark, size in gathers if mark]
    others = [int(size) for mark, size in gathers if not mark]
    assert len(carried) == 32 and len(others) == 12 * 6 + 4 - 32
    assert min(carried) >= max(others)
    assert [bool(mark) for mark, _ in gathers] == [False] * len(others) + [True] * 32


def test_the_report_says_what_is_hidden(tools, tmp_path):
    flags = [*DATA, *NEXT, "--report", "--plan", "-o", tmp_path / "carried.plan"]
    report = tools.run("optimus-compile", tools.program(MODEL), *flags)
    hidden = r"carried +16 collectives of .* ms, until .* ms behind the end; .* ms waiting for "
    assert len(re.findall(hidden + r"earlier ones: [0-9.]+ % hidden\n", report)) == 1


@pytest.mark.rotates
@pytest.mark.parametrize("name", CASES)
def test_threads_have_the_same_bits(tools, compiled, text, tmp_path, name):
    """Saved and evaluated in between, too."""
    options = [*CASES[name].options, "--save-every", 2, "--eval-every", 1, "--eval-data", text]
    found = []
    for library in compiled(name):
        folder = tmp_path / library.stem
        succeed(call(command(tools, library, text, folder, options)))
        found.append(results(folder))
    assert found[0] == found[1]


def test_the_hidden_device_has_the_same_bits(tools, compiled, text, tmp_path):
    device = tools.binaries.parent / "lib" / "liboptimus_device_hidden.so"
    hidden = dict(os.environ, OPTIMUS_DEVICE_CPU_LIBRARY=str(device), OPTIMUS_HIDDEN_SEED="1")
    found = []
    for library, environment in zip(compiled("data"), (None, hidden)):
        folder = tmp_path / library.stem
        succeed(call(command(tools, library, text, folder), env=environment))
        found.append(results(folder))
    assert found[0] == found[1]


@pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed")
def test_processes_of_mpi_have_the_same_bits(tools, compiled, text, tmp_path):
    plain, carried = compiled("data")
    succeed(call(command(tools, plain, text, tmp_path / "plain")))
    run = command(tools, carried, text, tmp_path / "carried", ["--backend", "mpi"])
    succeed(call([*mpirun(2), *run]))
    assert results(tmp_path / "plain") == results(tmp_path / "carried")


def test_processes_over_tcp_have_the_same_bits(tools, compiled, text, tmp_path):
    """The run goes on from a checkpoint that was saved between two steps."""
    plain, carried = compiled("data")
    succeed(call(command(tools, plain, text, tmp_path / "plain", steps=4)))
    folder = tmp_path / "carried"
    for steps, more in (2, []), (4, ["--load", folder / "saved"]):
        run = command(tools, carried, text, folder, ["--backend", "tcp", *more], steps)
        succeed(call([*over_tcp(2), *run]))
    assert saved(tmp_path / "plain") == saved(folder)


@pytest.mark.alone
def test_a_killed_run_leaves_a_whole_checkpoint(tools, compiled, text, tmp_path):
    """Between two steps gathers are always under way, whenever a run is killed: what it
    saved has the bits of a run without, and goes on to the same end."""
    plain, carried = compiled("data")
    steps, reached, killed = 400, 0, 0
    folder = tmp_path / "carried"
    for after, delay in (3, 0.0), (2, None), (3, 0.02):
        more = ["--save-every", 1, *(["--load", folder / "saved"] if reached else [])]
        run = command(tools, carried, text, folder, more, steps)
        killed += run_and_kill(run, folder / "saved", reached + after, delay)
        reached = saved_step(folder / "saved")
        whole = tmp_path / f"plain-{reached}"
        succeed(call(command(tools, plain, text, whole, steps=reached)))
        assert saved(whole) == saved(folder), reached
    assert killed == 3, "the runs ended before they could be killed"
    end = reached + 3
    succeed(call(command(tools, plain, text, tmp_path / "end", steps=end)))
    more = ["--load", folder / "saved"]
    succeed(call(command(tools, carried, text, folder, more, steps=end)))
    assert saved(tmp_path / "end") == saved(folder)


@pytest.mark.parametrize(
    "flags, expected",
    [
        (["--sync", "later"], "--sync: unknown time 'later'"),
        ([*NEXT, "--offload", "state"], "--sync sync(next): expected no --offload beside it"),
        ([*NEXT, "--target", "cuda"], "--sync sync(next): expected --target cpu beside it"),
        ([*NEXT, "--mesh", "row:2,col:2"], "--sync sync(next): expected a mesh with an axis data"),
    ],
)
def test_what_does_not_go_together_is_refused(tools, tmp_path, flags, expected):
    out = tmp_path / "out.so"
    mesh = [] if "--mesh" in flags else DATA
    result = tools.call("optimus-compile", tools.program(MODEL), *mesh, *flags, "-o", out)
    assert result.returncode == 1 and expected in result.stderr, result.stderr
    assert not out.exists()
