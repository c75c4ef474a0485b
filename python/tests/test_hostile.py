# ===- test_hostile.py - A hostile world, one command after another ---------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Whatever a user or a machine does to a command: it ends by itself, has one message
with the expected and the found value, and leaves every file as it was.

A walk through all kinds of mistakes, as a shell would see them. Each kind has
tests of its own besides: of runs in test_hostile_run and in
tools/optimus-run/unittests, of the compiler's tools in test_hostile_files and
test_hostile_tools, of
single file operations in test_crashes.
"""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tools import Model, call, default_signals, prose, read_log, succeed

pytestmark = pytest.mark.rotates

MODEL = Model(layers=2, hidden=16, heads=2, sequence=8, vocabulary=256, batch=4)
WIDE = Model(layers=1, hidden=512, heads=8, sequence=64, vocabulary=512, batch=4)
MANY = Model(layers=1, hidden=64, heads=8, sequence=8, vocabulary=256, batch=64)

OF_A_TOOL = re.compile(r"optimus[-.a-z]*: error: .*")

TRAIN = "optimus-run train tiny.so --data text.txt "
EVAL = "optimus-run eval tiny.so --data text.txt "
FORWARD = "optimus-run forward tiny.so --data text.txt "
COMPILE = "optimus-compile tiny.mlir "
# A launcher's processes but the first keep quiet, so that it is said once.
SLURM = dict(SLURM_PROCID="0", SLURM_NTASKS="4", SLURM_STEP_ID="0")
PMIX = dict(PMIX_RANK="0", PMIX_NAMESPACE="job", PMIX_SIZE="2")

# What is wrong: the command, and words of the message.
MISTAKES = {
    # An output that is an input.
    "log is data": (TRAIN + "--steps 1 --log-json text.txt", "same file"),
    "log is library": (TRAIN + "--steps 1 --log-json tiny.so", "same file"),
    "log is a hard link to data": (TRAIN + "--steps 1 --log-json hard.txt", "same file"),
    "save is data": (TRAIN + "--steps 1 --save text.txt", "same file"),
    "library is program": (COMPILE + "-o tiny.mlir", "same file"),
    "library is a link to the program": (COMPILE + "-o link.mlir", "same file"),
    "optimized is program": ("optimus-opt tiny.mlir --cse -o tiny.mlir", "same file"),
    "plan is ranges": ("optimus-plan ranges.csv -o ranges.csv", "same file"),
    # An output that cannot be one.
    "library is a folder": (COMPILE + "-o folder", "folder"),
    "library in no folder": (COMPILE + "-o nowhere/tiny.so", "nowhere"),
    "save to a folder of other things": (TRAIN + "--steps 1 --save folder", "notes"),
    "full device": (COMPILE + "-o /dev/full", "No space left"),
    "report on a full device": (COMPILE + "--report -o /dev/full", "No space left"),
    "profile of nothing": ("optimus-run bench --comm --ranks 2 --profile folder", "folder"),
    "logits in the checkpoint": (FORWARD + "--load good -o good/logits.npy", "good"),
    "logits of no format": (FORWARD + "-o q.txt", "*.npy or *.safetensors"),
    "logits of training alone": (FORWARD + "-o q.npy", "no function of the kind forward"),
    "time of an unknown kind": ("optimus-run bench tiny.so --function step", "nor a kind"),
    # Training that goes wrong.
    "diverges": (
        TRAIN + "--load good --steps 40 --lr 1e20 --save good --save-every 1",
        "go on from step 3 with --load good",
    ),
    "no checkpoint": (TRAIN + "--load nothing", "nothing"),
    "load is a file": (TRAIN + "--load text.txt", "found the file text.txt"),
    "no data": ("optimus-run train tiny.so --data nothing --steps 1", "nothing"),
    "too little data": ("optimus-run train tiny.so --data short.txt --steps 1", "9"),
    "no library": ("optimus-run train text.txt --data text.txt --steps 1", "text.txt"),
    "half a library": ("optimus-run inspect half.so", "half.so"),
    "simulation of half a library": ("optimus-simulate half.so", "half.so"),
    "simulation is library": ("optimus-simulate tiny.so --json tiny.so", "same file"),
    "simulation of a machine without end": (
        "optimus-simulate tiny.so --machine-profile /dev/zero",
        "not a regular file",
    ),
    "rate of nothing": (TRAIN + "--lr nan --steps 1", "nan"),
    "negative clip": (TRAIN + "--clip -1 --steps 1", "clip"),
    # Without end.
    "program that never begins": ("optimus-compile fifo -o q.so", "not a regular file"),
    "arguments that never begin": ("optimus-interpret fifo --function loss", "not a regular file"),
    "profile without end": (COMPILE + "--machine-profile /dev/zero -o q.so", "not a regular file"),
    "window of a gap": ("optimus-plan gaps.csv", "gaps.csv:2:11: gaps '1-2@0:64' is no list of gaps"),
    "ranges without end": ("optimus-plan /dev/zero", "not a regular file"),
    "profile too deep": (COMPILE + "--machine-profile deep.json -o q.so", "64 deep"),
    "profile of negative bytes": (COMPILE + "--machine-profile negative.json -o q.so", "bytes"),
    "tuned products that are data": (TRAIN + "--steps 1 --tune text.txt", "same file"),
    "tuned products of something else": (EVAL + "--tune negative.json", "optimus_tuning"),
    "tuned products too deep": (EVAL + "--tune deep.json", "expected a JSON object"),
    "tuned products without end": (EVAL + "--tune /dev/zero", "not a regular file"),
    "tuned products on a stream": (EVAL + "--tune -", "name a file"),
    "tuned products in no folder": (EVAL + "--tune nowhere/tuned.json", "nowhere"),
    "panels without measure": (
        COMPILE + "--mesh row:2,col:2 --strategy summa --panels 999999999999 -o q.so",
        "panels",
    ),
    "layers without measure": (
        "python3 -m optimus.models gpt2 --layers 100000 --hidden 16 --heads 2 --seq 8 --vocab 256 --batch 4 -o q.mlir",
        "4096",
    ),
    # Programs that a library would be wrong of.
    "no model": ("optimus-compile no-model.mlir -o q.so", "optimus.model"),
    "vocabulary beyond the table": ("optimus-compile vocabulary.mlir -o q.so", "512"),
    "vocabulary without measure": ("optimus-compile huge.mlir -o q.so", "vocabulary"),
    "shape of a checkpoint": ("optimus-compile shape.mlir -o q.so", "optimus.hf_shape"),
    "name that a checkpoint keeps": ("optimus-compile name.mlir -o q.so", "__metadata__"),
    "no initial values": ("optimus-compile init.mlir -o q.so", "optimus.init"),
    "role with a typo": (
        "optimus-compile role.mlir --mesh row:2,col:2 --strategy summa -o q.so",
        "did you mean 'first'?",
    ),
    "arena with another size": ("optimus-compile arena.mlir --compile-from place -o q.so", "arena"),
    "mesh of another program": (
        "optimus-compile placed.mlir --compile-from place --mesh row:4,col:1 -o q.so",
        "--mesh",
    ),
    # Wrong meshes.
    "mesh without ranks": (COMPILE + "--mesh row:0,col:2 -o q.so", "row"),
    "mesh without measure": (COMPILE + "--mesh row:99999999,col:2 -o q.so", "from 1 to"),
    "mesh of words": (COMPILE + "--mesh two:by:two -o q.so", "two"),
    "no ranks": (COMPILE + "--ranks 0 -o q.so", "ranks"),
    "unknown strategy": (COMPILE + "--mesh row:2,col:2 --strategy sumna -o q.so", "did you mean"),
    # Launchers whose processes would not find each other.
    "srun": (TRAIN + "--steps 1 --save q", "srun", SLURM),
    "PMIx": (TRAIN + "--steps 1 --save q", "mpirun", PMIX),
    # Spelling.
    "unknown option of train": ("optimus-run train tiny.so --dta text.txt", "did you mean '--data'"),
    "unknown subcommand": ("optimus-run trian tiny.so", "did you mean 'train'"),
    "unknown option of the compiler": (COMPILE + "--msh row:2", "did you mean '--mesh'"),
    "unknown option of the builder": ("python3 -m optimus.models gpt2 --layrs 2", "did you mean '--layers'"),
    "unknown option of the planner": ("optimus-plan ranges.csv --capcity 4", "did you mean"),
    "unknown pass": ("optimus-opt tiny.mlir --optimus-shrad", "did you mean"),
    "option given twice": (COMPILE + "-o a.so -o b.so", "twice"),
    # The machine lacks something.
    "no TMPDIR": (COMPILE + "-o q.so", "nowhere", dict(TMPDIR="/nowhere")),
    "no linker": (COMPILE + "-o q.so", "ld", dict(PATH="/nowhere")),
}  # fmt: skip


@pytest.fixture(scope="module")
def original(tools, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    shutil.copy(tools.program(MODEL), folder / "tiny.mlir")
    shutil.copy(tools.library(MODEL), folder / "tiny.so")
    (folder / "text.txt").write_bytes(prose(4000))
    (folder / "short.txt").write_text("eight ch")
    (folder / "half.so").write_bytes((folder / "tiny.so").read_bytes()[:3000])
    (folder / "gaps.csv").write_text("id,lower,upper,size,gaps\n0,0,3,100,1-2@0:64\n")
    (folder / "ranges.csv").write_text("id,lower,upper,size\n0,0,3,100\n1,1,2,50\n")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "negative.json").write_text(
        json.dumps(
            dict(
                version=1,
                comm=[
                    dict(
                        backend="local", ranks=2, collective="broadcast",
                        alpha_s=1e-5, beta_s_per_byte=0.0,
                        points=[dict(bytes=-5, seconds=1e-5)],
                    )
                ],
            )
        )  # fmt: skip
    )
    program = (folder / "tiny.mlir").read_text()
    flags = "--mesh row:2,col:2 --strategy summa --compile-to place "
    run(tools, folder, COMPILE + flags + "-o placed.mlir")
    placed = (folder / "placed.mlir").read_text()
    weight = 'optimus.param = "h.0.mlp.c_fc.weight", '
    for name, text, old, new in [
        ("no-model", program, "optimus.model = ", "builder.model = "),
        ("vocabulary", program, "vocabulary = 256", "vocabulary = 512"),
        ("huge", program, "256", str(2**60)),
        ("shape", program, "hf_shape = array<i64: 16,", "hf_shape = array<i64: 17,"),
        ("name", program, '"wte.weight"', '"__metadata__"'),
        ("init", program, "optimus.init = #optimus.init<zeros>, ", ""),
        ("role", program, weight, weight + 'optimus.role = "frist in.hidden,out.ffn", '),
        ("arena", placed, "exec.arena_bytes = ", "exec.arena_bytes = 1"),
    ]:
        assert old in text, name
        (folder / (name + ".mlir")).write_text(text.replace(old, new))
    (folder / "folder").mkdir()
    (folder / "folder" / "notes").write_text("a user's")
    run(tools, folder, TRAIN + "--steps 3 --save good")
    return folder


@pytest.fixture
def folder(original, tmp_path) -> Path:
    """The files that the commands refer to."""
    path = tmp_path / "work"
    shutil.copytree(original, path)
    os.link(path / "text.txt", path / "hard.txt")
    (path / "link.mlir").symlink_to("tiny.mlir")
    os.mkfifo(path / "fifo")
    return path


def snapshot(folder: Path) -> dict:
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_ino,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in folder.rglob("*")
    }


def command(tools, line: str) -> list:
    tool, *arguments = line.split()
    if tool == "python3":
        return [shutil.which("python3", path="/usr/bin:/bin"), *arguments]
    return [str(tools.binaries.resolve() / tool), *arguments]


def start(tools, folder: Path, line: str, **environment):
    return subprocess.Popen(
        command(tools, line),
        cwd=folder,
        env=dict(os.environ, **environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=default_signals,
    )


def attempt(tools, folder: Path, line: str, limit=None, **environment):
    builders = str(Path(__file__).resolve().parents[1])
    environment = dict(dict(os.environ, PYTHONPATH=builders), **environment)
    options = dict(cwd=str(folder), env=environment)
    if limit:
        options["preexec_fn"] = lambda: resource.setrlimit(*limit)
    return call(command(tools, line), **options)


def run(tools, folder: Path, line: str) -> str:
    return succeed(attempt(tools, folder, line))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_and_changes_nothing(tools, folder, mistake):
    line, word, *environment = MISTAKES[mistake]
    before = snapshot(folder)
    result = attempt(tools, folder, line, **dict(*environment))
    assert result.returncode == 1, result.stderr
    assert word in result.stderr
    # One of the tool's own, or of IR a diagnostic for every operation that is
    # wrong, and then perhaps the phase.
    said = [line for line in result.stderr.splitlines() if "error: " in line]
    of_tool = [line for line in said if OF_A_TOOL.match(line)]
    assert len(said) >= 1 >= len(of_tool), result.stderr
    assert len(result.stderr.splitlines()) < 12, result.stderr
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    "line",
    [
        TRAIN + "--steps 1",
        "optimus-run eval tiny.so --data text.txt --load good",
        "optimus-run verify tiny.so tiny.so --data text.txt",
        "optimus-run inspect tiny.so --json",
        "optimus-run bench tiny.so --steps 1 --warmup 0",
        "optimus-plan ranges.csv --report",
        "optimus-simulate tiny.so",
        COMPILE + "--report -o q.so",
        "optimus-interpret tiny.mlir --function loss --draw 256 --print",
        "optimus-opt tiny.mlir --cse",
        "optimus-compile --help",
    ],
)
def test_output_that_is_lost_is_no_success(tools, folder, line):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            command(tools, line), cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert result.returncode == 1
    assert "standard output" in result.stderr


def test_devices_stay_devices(tools, folder):
    run(tools, folder, COMPILE + "--report -o /dev/null")
    run(tools, folder, TRAIN + "--steps 1 --log-json /dev/null")
    assert Path("/dev/null").is_char_device()


def test_a_log_that_cannot_be_written_loses_no_training(tools, folder):
    result = attempt(tools, folder, TRAIN + "--steps 3 --save q --log-json /dev/full")
    assert result.returncode == 1
    assert "5 lines are missing" in result.stderr
    assert "going on after step 3" in run(tools, folder, TRAIN + "--load q --steps 4")


def begin_training(tools, folder: Path, flags: str) -> subprocess.Popen:
    """A run without end, after its first step."""
    process = start(tools, folder, TRAIN + "--steps 1000000 --log-json log " + flags)
    log = folder / "log"
    while not (log.exists() and log.stat().st_size) and process.poll() is None:
        time.sleep(0.005)
    assert process.poll() is None, process.stderr.read()
    return process


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2"])
def test_a_signal_loses_no_training(tools, folder, name):
    process = begin_training(tools, folder, "--save q")
    process.send_signal(getattr(signal, "SIG" + name))
    _, message = process.communicate(timeout=60)
    assert process.returncode == 128 + getattr(signal, "SIG" + name), message
    assert "SIG" + name in message
    step = int(re.search(r'"step":\s*(\d+)', (folder / "q" / "state.json").read_text())[1])
    assert len(read_log(folder / "log")) == step
    assert not list(folder.glob(".*optimus*"))


def test_data_that_shrinks_loses_no_training(tools, folder):
    process = begin_training(tools, folder, "--save q")
    os.truncate(folder / "text.txt", 100)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 1, message
    assert "changed while it was read" in message
    assert (folder / "q" / "state.json").exists()


def test_a_folder_has_one_writer(tools, folder):
    process = begin_training(tools, folder, "--save q")
    second = attempt(tools, folder, TRAIN + "--steps 1 --save q")
    process.kill()
    process.communicate()
    assert second.returncode == 1
    assert "process %d" % process.pid in second.stderr
    # What was killed holds nothing.
    run(tools, folder, TRAIN + "--steps 1 --save q")
    assert not list(folder.glob(".*optimus*"))


def test_files_may_not_grow(tools, folder):
    before = snapshot(folder)
    limit = resource.RLIMIT_FSIZE, (8192, 8192)
    for line in TRAIN + "--steps 1 --save q", COMPILE + "-o q.so":
        result = attempt(tools, folder, line, limit)
        assert result.returncode == 1
        assert "File too large" in result.stderr
        assert snapshot(folder) == before


@pytest.mark.parametrize("mebibytes", [100, 300, *range(570, 630, 6), 700])
def test_threads_and_memory_run_out(tools, folder, mebibytes, limits_addresses):
    """64 ranks as threads in little memory, and in almost enough."""
    library = tools.library(MANY, "data:64,row:1,col:1", "data")
    size = mebibytes << 20
    line = "optimus-run train %s --data text.txt --steps 1" % library
    result = attempt(tools, folder, line, (resource.RLIMIT_AS, (size, size)))
    assert result.returncode in (0, 1), result.stderr
    assert result.stderr.count("error: ") == result.returncode, result.stderr


def is_open_to_all(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o001)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(not is_open_to_all(Path("/")), reason="only root can enter /")
def test_threads_are_few(tools, folder):
    """As a user who may have 20 threads. What root may have has no limit."""
    library = tools.library(MANY, "data:64,row:1,col:1", "data")
    shutil.copy(library, folder / "many.so")
    # Where that user can read it.
    for name in "bin/optimus-run", "lib/optimus/liboptimus_device_cpu.so":
        (folder / name).parent.mkdir(parents=True)
        shutil.copy(tools.binaries.parent / name, folder / name)
    for path in [folder, *folder.parents][:-2]:
        path.chmod(path.stat().st_mode | 0o055)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    line = "bin/optimus-run train many.so --data text.txt --steps 1"
    limited = [*nobody, "prlimit", "--nproc=20", *line.split()]
    result = call(limited, cwd=str(folder))
    assert result.returncode == 1, result.stderr
    assert "cannot start thread" in result.stderr


def test_many_ranks_compile_in_seconds(tools, tmp_path):
    """A product in more panels than are worth it moves whole."""
    begin = time.monotonic()
    flags = ["--mesh", "row:1,col:1024", "--strategy", "summa"]
    tools.run("optimus-compile", tools.program(WIDE), *flags, "-o", tmp_path / "q.so")
    # Four seconds on an idle machine, over a minute before.
    assert time.monotonic() - begin < 40
