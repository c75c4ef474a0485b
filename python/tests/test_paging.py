# ===- test_paging.py - What lies in a file between its uses ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Training whose state, gradients and activations rest in a scratch file: to the
same bits as in memory, in less of it, and with nothing left behind."""

import os
import re
import resource
import signal
import subprocess
import time

import pytest

from tools import Checkpoint, Model, call, default_signals, read_log, succeed

ALL = ("--offload", "state,parameters,gradients,activations")
SHAPE = dict(hidden=64, heads=4, sequence=32, vocabulary=256, batch=8)
SMALL = Model(layers=3, **SHAPE)
STEPS = 3
CASES = {
    "serial": (None, "serial"),
    "2x2": ("row:2,col:2", "summa"),
    "data": ("data:2,row:1,col:2", "megatron"),
}


def train(tools, library, text, folder, *flags, environment=None, steps=STEPS):
    """What a run prints, and the numbers of its steps and its checkpoint."""
    folder.mkdir()
    log, saved = folder / "log", folder / "checkpoint"
    flags = ["--seed", 1, "--lr", 1e-3, "--save", saved, *flags]
    command = tools.train_command(library, text, steps, *flags, log=log)
    printed = succeed(call(command, env=environment))
    numbers = [(line["loss"], line["grad_norm"]) for line in read_log(log)]
    return printed, numbers, Checkpoint(saved)


def same(a, b) -> bool:
    return all(
        getattr(a, kind).keys() == getattr(b, kind).keys()
        and all((values == getattr(b, kind)[name]).all() for name, values in getattr(a, kind).items())
        for kind in ("parameters", "moments")
    )


@pytest.mark.rotates
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("space", ["file", "host"])
def test_bits_are_those_without(tools, text, tmp_path, case, space):
    mesh, strategy = CASES[case]
    plain = tools.library(SMALL, mesh, strategy)
    paged = tools.library(SMALL, mesh, strategy, *ALL, "--offload-to", space)
    _, numbers, kept = train(tools, plain, text, tmp_path / "plain")
    printed, found, saved = train(tools, paged, text, tmp_path / "paged", "--scratch", tmp_path)
    assert found == numbers and numbers[0] != numbers[-1]
    assert same(saved, kept)
    assert re.search(r"paging: \S+ \S+ fetched and \S+ \S+ stored a step; .*% hidden", printed)
    assert ("in scratch files" in printed) == (space == "file")
    where = {"file": "in a file", "host": "on the host"}[space]
    assert re.search(r"train_step +%s +\d" % where, tools.run("optimus-run", "inspect", paged))
    # Either goes on from where the other was.
    flags = ["--load", tmp_path / "plain" / "checkpoint", "--scratch", tmp_path]
    _, onward, _ = train(tools, paged, text, tmp_path / "on", *flags, steps=STEPS + 2)
    flags = ["--load", tmp_path / "paged" / "checkpoint"]
    _, expected, _ = train(tools, plain, text, tmp_path / "back", *flags, steps=STEPS + 2)
    assert onward == expected and len(onward) == 2


def test_microbatches(tools, text, tmp_path):
    flags = ["--microbatches", 2]
    runs = [
        train(tools, tools.library(SMALL, None, "serial", "--accumulate", *offload), text, tmp_path / name, *flags)[1]
        for name, offload in {"plain": (), "paged": ALL}.items()
    ]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_queues_that_run_late(tools, text, tmp_path, seed):
    device = tools.binaries.parent / "lib" / "liboptimus_device_hidden.so"
    hidden = dict(
        os.environ, OPTIMUS_DEVICE_CPU_LIBRARY=str(device), OPTIMUS_HIDDEN_SEED=str(seed)
    )
    mesh, strategy = CASES["2x2"]
    plain = train(tools, tools.library(SMALL, mesh, strategy), text, tmp_path / "plain")
    library = tools.library(SMALL, mesh, strategy, *ALL)
    paged = train(tools, library, text, tmp_path / "paged", environment=hidden)
    assert paged[1] == plain[1] and same(paged[2], plain[2])


# Of 25 million parameters with their moments in f32.
LARGE = Model(layers=8, hidden=512, heads=8, sequence=32, vocabulary=256, batch=2)
STATE = 3 * 4 * 25.3e6


def limited(command, limit):
    def prepare():
        default_signals()
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    return subprocess.run(command, capture_output=True, text=True, preexec_fn=prepare)


@pytest.mark.rotates
def test_state_of_twice_the_memory(tools, text, tmp_path):
    if tools.has_address_sanitizer:
        pytest.skip("its own memory exceeds the limit")
    limit = int(STATE / 2)
    plain, paged = tools.library(LARGE), tools.library(LARGE, None, "serial", *ALL)

    def command(library, name):
        flags = ["--seed", 1, "--lr", 1e-3, "--threads-per-rank", 1, "--scratch", tmp_path]
        log = tmp_path / name
        return tools.train_command(library, text, STEPS, *flags, log=log)

    succeed(call(command(plain, "plain")))
    refused = limited(command(plain, "refused"), limit)
    assert refused.returncode == 1 and "cannot allocate" in refused.stderr
    succeed(limited(command(paged, "paged"), limit))
    losses = [[line["loss"] for line in read_log(tmp_path / name)] for name in ("plain", "paged")]
    assert losses[0] == losses[1]


def test_a_killed_run_leaves_its_checkpoint_and_no_scratch(tools, text, tmp_path):
    library = tools.library(SMALL, None, "serial", *ALL)
    saved, scratch, log = (tmp_path / name for name in ("saved", "scratch", "log"))
    scratch.mkdir()
    flags = ["--seed", 1, "--save", saved, "--save-every", 1, "--scratch", scratch]
    run = subprocess.Popen(
        tools.train_command(library, text, 100000, *flags, log=log), stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not (saved / "state.json").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert not list(scratch.iterdir())
    step = Checkpoint(saved).state["step"]
    flags = ["--load", saved, "--scratch", scratch]
    succeed(call(tools.train_command(library, text, step + 1, *flags)))


def test_a_scratch_folder_that_is_not_there(tools, text):
    library = tools.library(SMALL, None, "serial", *ALL)
    result = call(tools.train_command(library, text, 1, "--scratch", "/nowhere"))
    assert result.returncode == 1
    assert "cannot make a scratch file in '/nowhere'" in result.stderr
    assert "--scratch" in result.stderr


@pytest.mark.variants
@pytest.mark.parametrize("part, state", [(0.7, None), (0.55, "state=SIZE"), (0.3, "state")])
def test_a_budget_may_offload(tools, text, tmp_path, part, state):
    """A fast scratch file beats recomputation, is used for as much of the state as
    needed, and reaches budgets beyond recomputation."""
    model = Model(layers=4, **SHAPE)
    plain = tools.library(model)
    flags = ["--compile-to", "place", "--report", "-o", "/dev/null"]
    report = tools.run("optimus-compile", tools.program(model), "--strategy", "serial", *flags)
    mib = float(re.search(r"^train_step.* ([\d.]+) MiB$", report, re.MULTILINE)[1])
    library = tmp_path / "paged.so"
    flags = ["--memory-budget", int(part * mib * 2**20), "--offload-bandwidth", "16GiB"]
    flags += ["--strategy", "serial", "--recompute", "budget", "-o", library]
    chosen = tools.run("optimus-compile", tools.program(model), *flags)
    offloaded = re.search(r"^\* .* --offload (\S+)$", chosen, re.MULTILINE)[1].split(",")
    kinds = [re.sub(r"\d+", "SIZE", entry) for entry in offloaded if entry.startswith("state")]
    assert kinds == ([state] if state else [])
    _, numbers, _ = train(tools, plain, text, tmp_path / "plain")
    _, found, _ = train(tools, library, text, tmp_path / "paged")
    assert found == numbers
