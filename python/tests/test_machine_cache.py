# ===- test_machine_cache.py - The profile of this machine -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Predictions without a named profile are of this machine, which the first of them has
measured. What measures it here is a stand-in beside a copy of the simulator, but for one
test."""

import json
import os
import re
import subprocess
import time

import pytest
from measuring import stand_in
from simulation import MODEL
from tools import call, succeed


class Machine:
    """A simulator with a measurement of its own, and a cache."""

    def __init__(self, tools, folder):
        self.bin, self.cache = stand_in(tools, folder, seconds=0.05), folder / "cache"
        self.program = self.bin / "optimus-simulate"
        self.library = tools.library(MODEL, "row:2,col:2", "summa")
        self.environment = dict(os.environ, OPTIMUS_MACHINE_CACHE=str(self.cache))

    def command(self, *flags):
        return [str(self.program), str(self.library), "--json", "-", *map(str, flags)]

    def start(self, *flags):
        return subprocess.Popen(
            self.command(*flags),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            text=True,
        )

    def ask(self, *flags):
        """The answer, and what was said beside it."""
        result = call(self.command(*flags), env=self.environment)
        return json.loads(succeed(result)), result.stderr

    def calls(self):
        path = self.bin / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def kept(self):
        (path,) = self.cache.iterdir()
        return path


@pytest.fixture
def machine(tools, tmp_path):
    return Machine(tools, tmp_path)


def test_predictions_at_once_measure_once(machine):
    """All have the same answer; none of them leaves anything but the profile."""
    asked = [machine.start() for _ in range(3)]
    outputs = [each.communicate(timeout=60) for each in asked]
    assert [each.returncode for each in asked] == [0, 0, 0], outputs
    answers = [json.loads(text) for text, _ in outputs]
    assert answers[0] == answers[1] == answers[2]
    said = [text for _, text in outputs if text]
    assert len(said) == 1 and said[0].count("\n") == 1
    assert "measured once, in up to 20 s, and kept in '%s'" % machine.kept() in said[0]
    first = machine.calls()
    assert len(first) == len(set(first)) and "--gemm" in first[0]
    again, said = machine.ask()
    assert again == answers[0] and not said and machine.calls() == first
    assert again["machine_profile"] == str(machine.kept())
    by_file, _ = machine.ask("--machine-profile", machine.kept())
    built_in, said = machine.ask("--machine-profile", "none")
    assert by_file["step_ms"] == again["step_ms"] > 2 * built_in["step_ms"] and not said
    machine.environment["OPTIMUS_MACHINE_CACHE"] = "none"
    assert machine.ask() == (built_in, "")


@pytest.mark.variants
@pytest.mark.parametrize("damage", ["another machine", "cut off", "of no use"])
def test_what_is_no_profile_of_this_machine_is_measured_again(machine, damage):
    answer, _ = machine.ask()
    path, count = machine.kept(), len(machine.calls())
    about = json.loads(path.read_text())["machine"]
    assert set(about) >= {"processor", "instructions", "cores", "optimus"}
    assert re.search(r"-%dc-(.*q-)?%s\.json$" % (about["cores"], about["instructions"]), path.name)
    text = path.read_text()
    wrong = {"version": 1, "gemm": [], "machine": about}
    path.write_text({
        "another machine": text.replace('"cores":', '"cores":1'),
        "cut off": text[:-20],
        "of no use": json.dumps(wrong),
    }[damage])
    again, said = machine.ask()
    assert again == answer and "measured once" in said
    assert len(machine.calls()) == 2 * count


def test_where_nothing_can_be_measured_the_built_in_machine_is_said(machine):
    built_in, _ = machine.ask("--machine-profile", "none")
    (machine.bin / "said").write_text("one line\nno processor\n")
    answer, said = machine.ask()
    assert answer == built_in and len(machine.calls()) == 1
    assert said.endswith(
        "predictions are of the built-in machine: this one is not measured: "
        "`optimus-run bench --gemm` failed: no processor\n"
    )
    assert not list(machine.cache.iterdir())
    machine.cache.rmdir()
    machine.cache.write_text("")
    answer, said = machine.ask()
    assert answer == built_in and "cannot make the folder '%s'" % machine.cache in said
    assert len(machine.calls()) == 1


def test_a_named_machine_or_cluster_asks_nobody(machine):
    for flags in (["--machine-profile", machine.bin / "profile.json"], ["--cluster", "h100"]):
        _, said = machine.ask(*flags)
        assert not said and not machine.calls() and not machine.cache.exists()


def test_a_library_does_not_know_the_machine(machine, tools, tmp_path):
    """Its bytes are those of any machine; the report alone has this one's times, those of
    the same commands by the same file."""
    machine.ask()
    program = tools.program(MODEL)
    reports = {}
    for name, cache in (("kept", machine.cache), ("none", "none")):
        reports[name] = succeed(
            call(
                tools.command(
                    *("optimus-compile", program, "--mesh", "row:2,col:2", "--accumulate"),
                    *("--recompute", "layer", "--report", "-o", tmp_path / (name + ".so")),
                ),
                env=dict(os.environ, OPTIMUS_MACHINE_CACHE=str(cache)),
            )
        )
    assert (tmp_path / "kept.so").read_bytes() == (tmp_path / "none.so").read_bytes()
    assert reports["kept"].startswith("times are of this machine, by %s\n" % machine.kept())
    assert "this machine, by" not in reports["none"]
    # Products start after a millisecond there.
    times = {
        name: float(re.search(r"predicted +([\d.]+) ms", text)[1])
        for name, text in reports.items()
    }
    assert times["kept"] > 2 * times["none"]
    # A report takes the prices for the commands as they are.
    same = ["--mesh", "row:2,col:2", "--schedule=none", "--tune-products=false", "--report"]
    same += ["--compile-to=place", "-o", os.devnull]
    by_cache, by_file = [
        succeed(call(tools.command("optimus-compile", program, *same, *flags), env=environment))
        for flags, environment in (
            ([], machine.environment),
            (["--machine-profile", machine.kept()], None),
        )
    ]
    assert by_cache.partition("\n\n")[2] == by_file


def test_a_timed_step_stands_beside_its_prediction(machine, tools):
    """Where this machine was measured already."""
    bench = tools.command("optimus-run", "bench", machine.library, "--steps", "1", "--json")
    before = json.loads(succeed(call(bench, env=machine.environment)))
    assert "predicted_here" not in before and not machine.calls()
    answer, _ = machine.ask("--function", "train_step")
    here = json.loads(succeed(call(bench, env=machine.environment)))["predicted_here"]
    assert here["step_ms"] == pytest.approx(answer["step_ms"], abs=1e-6)
    assert here["machine_profile"] == str(machine.kept())


@pytest.mark.long
@pytest.mark.alone
def test_this_machine_is_measured_within_20_seconds(tools, tmp_path):
    library = tools.library(MODEL, "row:2,col:2", "summa")
    begin = time.monotonic()
    result = call(
        tools.command("optimus-simulate", library),
        env=dict(os.environ, OPTIMUS_MACHINE_CACHE=str(tmp_path / "cache")),
    )
    seconds = time.monotonic() - begin
    assert "of this machine" in result.stderr and succeed(result)
    assert seconds < 20
