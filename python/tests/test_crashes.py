# ===- test_crashes.py - File operations that fail or kill ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Whichever file operation of a tool fails or is its last: the user's file is there,
whole, or its replacement is; and nothing else is left behind.

Each command runs once to list its file operations, then once for each of them
and each way in which it can go wrong (see unittests/FaultInjection/Faults.c).
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple

import pytest

import safetensors_file
from measuring import PROFILE, stand_in
from tools import EMULATED, call, prose, read_log, succeed

pytestmark = pytest.mark.rotates

# What compiles fastest: a table of tokens, and products with it.
PROGRAM = """\
module attributes {optimus.model = {kind = "bigram", batch = 2 : i64, sequence = 4 : i64, vocabulary = 256 : i64}} {
  func.func @loss(
      %table: tensor<256x4xf32> {optimus.param = "table", optimus.init = #optimus.init<normal, stddev = 0.02, stream = 0>},
      %tokens: tensor<2x4xi32> {optimus.binding = "tokens"},
      %targets: tensor<2x4xi32> {optimus.binding = "targets"}
  ) -> (tensor<f32>, tensor<f32>) {
    %x = optimus.embedding %table, %tokens : (tensor<256x4xf32>, tensor<2x4xi32>) -> tensor<2x4x4xf32>
    %loss, %count = optimus.head_loss %x, %table, %targets {chunk = 512 : i64} : (tensor<2x4x4xf32>, tensor<256x4xf32>, tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}
"""

RANGES = "id,lower,upper,size\n0,0,3,100\n1,1,2,50\n2,2,5,7\n"

Files = Dict[str, bytes]
# Looks at the visible files left by a run, with its error.
Check = Callable[[Files, str], None]


def snapshot(folder: Path) -> Files:
    """Every file and folder below a folder; folders have names only."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


def is_hidden(name: str) -> bool:
    """Whether tools call so what they make for a while."""
    return "optimus-" in name


class Operation(NamedTuple):
    number: int
    kind: str
    path: str

    def can_fail(self) -> bool:
        # A file that cannot be removed stays, and a file read can be closed.
        return self.kind not in ("unlink", "rmdir", "remove", "close")

    def needs_space(self) -> bool:
        return self.kind in ("open", "write", "mkdir", "mkdtemp", "posix_fallocate")

    def may_leave(self, work: Path) -> bool:
        """Whether the next run has to remove something: an old checkpoint stays
        until the disk has the new one's name, and where its folder cannot be
        looked through."""
        if self.kind == "open":
            return is_hidden(Path(self.path).name)
        return self.kind == "fsync" and self.path == str(work)


class Scenario:
    """A command that writes below `work`, in the state of `before` at its begin."""

    def __init__(self, tools, tmp_path: Path, tool: str, *arguments):
        self.command = tools.command(tool, *arguments)
        self.command[0] = os.path.abspath(self.command[0])
        self.tool = tool
        self.before = tmp_path / "before"
        self.work = tmp_path / "work"
        self.log = tmp_path / "operations"
        self.faults = tools.binaries.parent / "unittests" / "liboptimus_faults.so"
        assert self.faults.exists(), "%s is not built" % self.faults

    def run(self, at: int = 0, how: str = "") -> subprocess.CompletedProcess:
        """Operation `at` goes wrong; 0: none does."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.before, self.work, symlinks=True)
        return self.run_again(at, how)

    def run_again(self, at: int = 0, how: str = "") -> subprocess.CompletedProcess:
        environment = dict(
            os.environ,
            LD_PRELOAD=str(self.faults.resolve()),
            # It comes before AddressSanitizer, where a build has that.
            ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
            TMPDIR=str(self.work),
            OMP_NUM_THREADS="1",
            OPTIMUS_FAULTS_UNDER=str(self.work),
            OPTIMUS_FAULTS_PROGRAM=self.tool,
            OPTIMUS_FAULTS_AT=str(at),
            OPTIMUS_FAULTS_DO=how,
            OPTIMUS_FAULTS_LOG=str(self.log),
        )
        self.log.unlink(missing_ok=True)
        return call(self.command, env=environment, cwd=str(self.work))

    def age(self) -> None:
        """Makes what the last run left two minutes older."""
        for path in self.work.rglob("*"):
            if is_hidden(path.name):
                os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 120))

    def operations(self) -> List[Operation]:
        """What the last run did to files."""
        lines = [line.split(" ", 2) for line in self.log.read_text().splitlines()]
        return [Operation(int(number), *rest) for number, *rest in lines]


def crash_everywhere(scenario: Scenario, how: str, check: Check, without: str = "") -> None:
    """Every operation goes wrong once, in one of the ways of Faults.c. `without`: the
    words of a command that goes on without its output."""
    succeed(scenario.run())
    operations = scenario.operations()
    before, after = snapshot(scenario.before), snapshot(scenario.work)
    assert any(operation.kind == "write" for operation in operations)
    assert not any(map(is_hidden, after)), after.keys()
    for operation in operations:
        if how == "EIO" and not operation.can_fail():
            continue
        # Without space, all goes well until some is needed.
        if how == "ENOSPC" and not operation.needs_space():
            continue
        where = "%s at %d of %d: %s %s" % (how, operation[0], len(operations), *operation[1:])
        result = scenario.run(operation.number, how)
        left = snapshot(scenario.work)
        visible = {name: data for name, data in left.items() if not is_hidden(name)}
        assert visible.keys() <= before.keys() | after.keys(), where
        check(visible, where)
        if how == "kill":
            assert result.returncode == -9, where
            # The next run finds its way, and leaves nothing of the last. What
            # may just have been begun by another process has to age first.
            scenario.age()
            succeed(scenario.run_again())
            assert not any(map(is_hidden, snapshot(scenario.work))), where
            continue
        if operation.may_leave(scenario.work):
            succeed(scenario.run_again())
            left = snapshot(scenario.work)
        assert not any(map(is_hidden, left)), where
        if result.returncode == 0 and without and without in result.stderr:
            continue
        if result.returncode == 0:
            # It has been said, and done again; or the search of a folder for leftovers
            # failed, which matters to nobody.
            assert operation.kind == "open" or "warning: " in result.stderr, where
            assert left.keys() == after.keys(), where
        else:
            assert result.returncode == 1, where + result.stderr
            assert "error: " in result.stderr, where
            assert len(result.stderr) < 2000, where + result.stderr


def whole(name: str, *versions: bytes) -> Check:
    """The file is one of these."""

    def check(files: Files, where: str) -> None:
        assert files[name] in versions, "%s: %s has changed" % (where, name)

    return check


@pytest.fixture(scope="module")
def model(tools, tmp_path_factory) -> Path:
    """A folder with a program, its library and text."""
    folder = tmp_path_factory.mktemp("crashes")
    (folder / "m.mlir").write_text(PROGRAM)
    tools.run("optimus-compile", folder / "m.mlir", "-o", folder / "m.so")
    (folder / "text.txt").write_bytes(prose(800))
    return folder


def start(scenario: Scenario, model: Path, *names: str) -> None:
    scenario.before.mkdir()
    for name in names:
        shutil.copy(model / name, scenario.before)


WAYS = pytest.mark.parametrize("how", ["kill", "EIO", "ENOSPC"])


def read_tensors(data: bytes) -> int:
    """How many tensors a safetensors file has, if it is whole."""
    header, body = safetensors_file.split(data)
    assert len(body) == max(tensor["data_offsets"][1] for tensor in header.values())
    return len(header)


def checkpoint_step(files: Files, where: str) -> int:
    """The step of the whole checkpoint `saved`; 0: there is none."""
    if "saved" not in files:
        assert not any(name.startswith("saved") for name in files), where
        return 0
    assert read_tensors(files["saved/model.safetensors"]) == 1, where
    assert read_tensors(files["saved/optimizer.safetensors"]) == 2, where
    return json.loads(files["saved/state.json"])["step"]


@WAYS
def test_a_checkpoint_is_the_old_one_or_the_new_one(tools, model, tmp_path, how):
    """Saving over a checkpoint, every step, with a log that goes on."""
    # By one thread, so that operations come in the same order every time.
    flags = "--steps 4 --save saved --save-every 1 --no-save-async --log-json log.jsonl"
    flags += " --load saved"
    scenario = Scenario(
        *(tools, tmp_path, "optimus-run", "train", "m.so", "--data", "text.txt"),
        *flags.split(),
    )
    start(scenario, model, "m.so", "text.txt")
    first = "--steps 2 --save saved --log-json log.jsonl".split()
    train = ["train", "m.so", "--data", "text.txt", *first]
    command = tools.command("optimus-run", *train)
    command[0] = os.path.abspath(command[0])
    succeed(call(command, cwd=str(scenario.before)))
    old_log = (scenario.before / "log.jsonl").read_bytes()
    succeed(scenario.run())
    # The run that goes on takes the end of the one before away.
    old_log = b"".join(line for line in old_log.splitlines(True) if b"ended" not in line)
    losses = [line["loss"] for line in read_log(scenario.work / "log.jsonl")]
    assert len(losses) == 4

    def check(files: Files, where: str) -> None:
        step = checkpoint_step(files, where)
        assert 2 <= step <= 4, where
        # Steps that were logged stay; a line that was being written may lack
        # its end.
        assert files["log.jsonl"].startswith(old_log), where
        lines = files["log.jsonl"].split(b"\n")
        logged = [line["loss"] for line in map(json.loads, lines[:-1]) if "loss" in line]
        assert logged == losses[: len(logged)], where

    # A run that was killed goes on from wherever it was.
    crash_everywhere(scenario, how, check)


@WAYS
def test_a_checkpoint_behind_steps_is_the_old_one_or_the_new_one(tools, model, tmp_path, how):
    """A thread writes it; nothing else is done to files meanwhile."""
    flags = "--steps 3 --save saved --save-every 1 --save-async --load saved"
    scenario = Scenario(
        *(tools, tmp_path, "optimus-run", "train", "m.so", "--data", "text.txt"),
        *flags.split(),
    )
    start(scenario, model, "m.so", "text.txt")
    train = ["train", "m.so", "--data", "text.txt", "--steps", 2, "--save", "saved"]
    command = tools.command("optimus-run", *train)
    command[0] = os.path.abspath(command[0])
    succeed(call(command, cwd=str(scenario.before)))

    def check(files: Files, where: str) -> None:
        assert checkpoint_step(files, where) in (2, 3), where

    crash_everywhere(scenario, how, check)


@WAYS
def test_a_first_checkpoint_is_whole_or_not_there(tools, model, tmp_path, how):
    scenario = Scenario(
        *(tools, tmp_path, "optimus-run", "train", "m.so", "--data", "text.txt"),
        *("--steps", 1, "--save", "saved", "--resume"),
    )
    start(scenario, model, "m.so", "text.txt")

    def check(files: Files, where: str) -> None:
        assert checkpoint_step(files, where) in (0, 1), where

    crash_everywhere(scenario, how, check)


@WAYS
def test_tuned_products_are_the_old_ones_or_the_new_ones(tools, model, tmp_path, how, monkeypatch):
    for name, value in tools.fake_gpu(product_ms="3000,1000,5000,2000").items():
        monkeypatch.setenv(name, value)
    scenario = Scenario(
        *(tools, tmp_path, "optimus-run", "eval", "gpu.so", "--data", "few.txt"),
        *("--tune", "tuned.json"),
    )
    start(scenario, model, "m.mlir")
    source, library = (scenario.before / name for name in ("m.mlir", "gpu.so"))
    tools.run("optimus-compile", source, *EMULATED, "-o", library)
    (scenario.before / "few.txt").write_text("A few words.")
    succeed(scenario.run())
    # One is missing.
    after = json.loads((scenario.work / "tuned.json").read_text())
    before = {**after, "products": after["products"][1:]}
    (scenario.before / "tuned.json").write_text(json.dumps(before))

    def algorithms(tuned):
        return {entry["product"]: entry["algorithm"] for entry in tuned["products"]}

    def check(files: Files, where: str) -> None:
        found = algorithms(json.loads(files["tuned.json"]))
        assert found in (algorithms(before), algorithms(after)), where

    crash_everywhere(scenario, how, check)


FORWARD = """
module attributes {optimus.model = {batch = 2 : i64, sequence = 4 : i64, vocabulary = 256 : i64}} {
  func.func @forward(
      %table: tensor<256x4xf32> {optimus.param = "table", optimus.init = #optimus.init<ones>},
      %tokens: tensor<2x4xi32> {optimus.binding = "tokens"}
  ) -> (tensor<2x4x256xf32> {optimus.binding = #optimus.buffer<role = "logits", lifetime = call>})
      attributes {optimus.entry = #optimus.entry<forward, batch = 2, sequence = 4>} {
    %x = optimus.embedding %table, %tokens : (tensor<256x4xf32>, tensor<2x4xi32>) -> tensor<2x4x4xf32>
    %logits = optimus.head %x, %table : (tensor<2x4x4xf32>, tensor<256x4xf32>) -> tensor<2x4x256xf32>
    return %logits : tensor<2x4x256xf32>
  }
}
"""


@WAYS
def test_logits_are_the_old_ones_or_the_new_ones(tools, model, tmp_path, how):
    """Of two batches, the last of which is not full."""
    scenario = Scenario(
        *(tools, tmp_path, "optimus-run", "forward", "f.so", "--data", "text.txt"),
        *("--windows", 3, "-o", "logits.npy"),
    )
    start(scenario, model, "text.txt")
    (tmp_path / "f.mlir").write_text(FORWARD)
    tools.run("optimus-compile", tmp_path / "f.mlir", "-o", scenario.before / "f.so")
    (scenario.before / "logits.npy").write_bytes(b"the old ones")
    succeed(scenario.run())
    check = whole("logits.npy", b"the old ones", (scenario.work / "logits.npy").read_bytes())
    crash_everywhere(scenario, how, check)


@pytest.mark.parametrize(
    "how", [pytest.param("kill", marks=pytest.mark.long), "EIO", "ENOSPC"]
)
def test_a_library_is_the_old_one_or_the_new_one(tools, model, tmp_path, how):
    scenario = Scenario(tools, tmp_path, "optimus-compile", "m.mlir", "-o", "m.so")
    start(scenario, model, "m.mlir")
    (scenario.before / "m.so").write_bytes(b"the old one")
    check = whole("m.so", b"the old one", (model / "m.so").read_bytes())
    crash_everywhere(scenario, how, check)


def whole_or_missing(after: Files) -> Check:
    """Each file that is there is the one of a run to its end."""

    def check(files: Files, where: str) -> None:
        for name, data in files.items():
            assert data == after[name], "%s: %s is not whole" % (where, name)

    return check


@pytest.mark.long
@WAYS
def test_kept_kernels_are_whole_or_not_there(tools, model, tmp_path, how):
    """The library is the same whichever were there."""
    scenario = Scenario(
        *(tools, tmp_path, "optimus-compile", "m.mlir"),
        *("--kernel-cache", "kernels", "-o", "m.so"),
    )
    start(scenario, model, "m.mlir")
    succeed(scenario.run())
    crash_everywhere(scenario, how, whole_or_missing(snapshot(scenario.work)))


@WAYS
def test_dumps_of_phases_are_whole_or_not_there(tools, model, tmp_path, how):
    scenario = Scenario(
        *(tools, tmp_path, "optimus-compile", "m.mlir", "--compile-to", "shard"),
        *("--dump-phases-to", "dumps", "-o", "m.shard.mlir"),
    )
    start(scenario, model, "m.mlir")
    succeed(scenario.run())
    crash_everywhere(scenario, how, whole_or_missing(snapshot(scenario.work)))


@WAYS
@pytest.mark.parametrize(
    "tool, arguments",
    [
        ("optimus-plan", "ranges.csv -o out"),
        ("optimus-opt", "m.mlir --canonicalize -o out"),
        ("optimus-interpret", "m.mlir --function loss --draw 256 --outputs ."),
        ("optimus-compile", "m.mlir --compile-to place --report-json out -o /dev/null"),
        ("optimus-run", "bench --comm --ranks 1 --max-bytes 64 --profile out"),
    ],
)
def test_an_output_is_the_old_one_or_the_new_one(
    tools, model, tmp_path, how, tool, arguments
):
    scenario = Scenario(tools, tmp_path, tool, *arguments.split())
    start(scenario, model, "m.mlir", "m.so")
    (scenario.before / "ranges.csv").write_text(RANGES)
    outputs = ["result0.npy", "result1.npy"] if "--outputs" in arguments else ["out"]
    is_profile = "--profile" in arguments
    if not is_profile:
        for output in outputs:
            (scenario.before / output).write_bytes(b"the old one")
    succeed(scenario.run())
    after = snapshot(scenario.work)
    if is_profile:
        shutil.copy(scenario.work / "out", scenario.before)

    def check(files: Files, where: str) -> None:
        for output in outputs:
            if is_profile:
                # The times in it differ.
                assert json.loads(files[output])["version"] == 1, where
            else:
                assert files[output] in (b"the old one", after[output]), where

    crash_everywhere(scenario, how, check)


@WAYS
def test_the_profile_of_this_machine_is_whole_or_not_there(
    tools, model, tmp_path, how, monkeypatch
):
    """Predictions go on without it. Its measurement takes no time here."""
    binaries = stand_in(tools, tmp_path)
    scenario = Scenario(tools, tmp_path, "optimus-simulate", "m.so", "--json", os.devnull)
    scenario.command[0] = str(binaries / "optimus-simulate")
    start(scenario, model, "m.so")
    monkeypatch.setenv("OPTIMUS_MACHINE_CACHE", str(scenario.work / "cache"))

    def check(files: Files, where: str) -> None:
        for name, data in files.items():
            if name.endswith(".json"):
                assert json.loads(data)["gemm"] == PROFILE["gemm"], where

    crash_everywhere(scenario, how, check, without="predictions are of the built-in machine")
