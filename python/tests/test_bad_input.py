# ===- test_bad_input.py - Wrong input ------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Wrong input gets one clear message and exit code 1."""

import json
import os
import re
import shlex
import shutil
import struct
from pathlib import Path

import pytest

from tools import Model, call, mpirun

MODEL = Model(layers=1, hidden=24, heads=3, sequence=16, vocabulary=256, batch=4)


def refuse(result, *words):
    """Asserts exit code 1 and a short message that names all `words`."""
    message = result.stderr
    assert result.returncode == 1, message
    assert message.strip(), "no message"
    for word in words:
        assert str(word).lower() in message.lower(), message
    # A diagnostic may quote the line it is about and carry a note.
    assert len(message.strip().splitlines()) <= 8, message
    for trace in ("Stack dump", "Assertion", "terminate called", "PLEASE submit"):
        assert trace not in message


@pytest.fixture(scope="module")
def library(tools):
    return tools.library(MODEL)


@pytest.fixture(scope="module")
def checkpoint(tools, library, text, tmp_path_factory):
    return tools.initial(library, text, tmp_path_factory.mktemp("good") / "ckpt")


@pytest.fixture
def damaged(checkpoint, tmp_path):
    """A copy of a good checkpoint, to be spoilt."""
    return shutil.copytree(checkpoint.folder, tmp_path / "damaged")


# ------------------------------------------------------------------- compiling


def compile(tools, program, tmp_path, *flags):
    output = tmp_path / "model.so"
    result = tools.call("optimus-compile", program, "-o", output, *flags)
    if result.returncode != 0:
        assert not output.exists(), "a failed compilation left its output"
    return result


@pytest.mark.parametrize(
    "spoil, word",
    [
        (lambda text: text[: len(text) // 2], "gpt.mlir"),
        (lambda text: text.replace("optimus.gelu", "optimus.jelu"), "optimus.jelu"),
        (lambda text: text.replace("epsilon = ", "epsilom = "), "epsilon"),
        (lambda text: text.replace("@loss", "@lost"), "loss"),
        (lambda text: text.replace("tensor<24x3x3x8xf32>", "tensor<24xf32>"), "argument"),
        (lambda text: "not a program", "gpt.mlir"),
        (lambda text: "", "loss"),
    ],
    ids=["cut", "operation", "attribute", "entry", "shapes", "prose", "empty"],
)
def test_malformed_program(tools, tmp_path, spoil, word):
    program = tmp_path / "gpt.mlir"
    program.write_text(spoil(tools.program(MODEL).read_text()))
    refuse(compile(tools, program, tmp_path), word)


def test_missing_program(tools, tmp_path):
    refuse(compile(tools, tmp_path / "absent.mlir", tmp_path), "absent.mlir")


def test_unknown_strategy(tools, tmp_path):
    flags = ["--mesh", "row:2,col:2", "--strategy", "sumo"]
    refuse(compile(tools, tools.program(MODEL), tmp_path, *flags), "sumo", "summa")


@pytest.mark.parametrize(
    "mesh",
    ["row:0,col:2", "row:-1", "row:2,row:2", "row", "row:x", "row:2,,col:2", "row:2;"],
)
def test_bad_mesh(tools, tmp_path, mesh):
    flags = ["--mesh", mesh, "--strategy", "summa"]
    refuse(compile(tools, tools.program(MODEL), tmp_path, *flags), "mesh")


def test_no_pad_names_what_does_not_divide(tools, tmp_path):
    flags = ["--mesh", "row:1,col:4", "--strategy", "summa", "--no-pad"]
    result = compile(tools, tools.program(MODEL), tmp_path, *flags)
    refuse(result, "heads", "3", "col", "4")


def test_no_pad_accepts_what_divides(tools, tmp_path):
    model = MODEL._replace(heads=4)
    flags = ["--mesh", "row:2,col:2", "--strategy", "summa", "--no-pad"]
    result = compile(tools, tools.program(model), tmp_path, *flags)
    assert result.returncode == 0, result.stderr


def test_more_ranks_than_the_profile_has_links_for(tools, tmp_path):
    links = [{"ranks": ranks, "alpha_s": 1e-5, "beta_s_per_byte": 1e-11} for ranks in (8, 1024)]
    gpu = {"name": "a GPU", "memory_bytes": 1 << 36}
    profile = tmp_path / "links.json"
    profile.write_text(json.dumps({"version": 1, "gpu": gpu, "links": links}))
    flags = ["--target", "cuda", "--machine-profile", profile, "--compile-to=input"]
    accepted = compile(tools, tools.program(MODEL), tmp_path, *flags, "--mesh", "row:1024,col:1")
    assert accepted.returncode == 0, accepted.stderr
    (tmp_path / "model.so").unlink()
    result = compile(tools, tools.program(MODEL), tmp_path, *flags, "--mesh", "row:1025,col:1")
    refuse(result, "--machine-profile: expected links for 1025 ranks", "1024", profile)


@pytest.mark.parametrize("policy", [(), ("--recompute", "budget"), ("--recompute", "layer")])
def test_a_budget_below_the_parameters(tools, tmp_path, policy):
    """No values are listed: they make no difference."""
    flags = ["--mesh", "row:2,col:2", "--strategy", "summa", "--memory-budget", "4KiB"]
    result = compile(tools, tools.program(MODEL), tmp_path, *flags, *policy)
    expected = "of 4.00 KiB: parameters, the optimizer's state and inputs alone take"
    refuse(result, expected, "the least that was found is", "a rank, with --mesh row:2,col:2")
    # Nor does the batch.
    for word in "is alive at", "a smaller batch":
        assert word not in result.stderr


def test_unwritable_library(tools, tmp_path):
    output = tmp_path / "absent" / "model.so"
    result = tools.call("optimus-compile", tools.program(MODEL), "-o", output)
    refuse(result, output)


def test_unknown_compiler_flag(tools, tmp_path):
    refuse(compile(tools, tools.program(MODEL), tmp_path, "--colour=red"), "colour")


# --------------------------------------------------------------------- running


def train(tools, library, data, *flags, steps=1, prefix=()):
    return call([*prefix, *tools.train_command(library, data, steps, *flags)])


def test_missing_data(tools, library, tmp_path):
    refuse(train(tools, library, tmp_path / "absent.txt"), "absent.txt")


def test_no_data_given(tools, library):
    refuse(tools.call("optimus-run", "train", library), "--data")


@pytest.mark.parametrize(
    "name, content, word",
    [
        ("short.txt", b"x" * 16, "17"),
        ("empty.txt", b"", "17"),
        ("odd.bin", b"\0" * 101, "odd.bin"),
        ("tokens.csv", b"x" * 100, "tokens.csv"),
        ("large.bin", struct.pack("<40H", *[7] * 39, 256), "256"),
    ],
    ids=["short", "empty", "odd", "ending", "token"],
)
def test_bad_data(tools, library, tmp_path, name, content, word):
    (tmp_path / name).write_bytes(content)
    refuse(train(tools, library, tmp_path / name), name, word)
    result = tools.call("optimus-run", "eval", library, "--data", tmp_path / name)
    refuse(result, name, word)


def test_byte_beyond_the_vocabulary(tools, tmp_path):
    library = tools.library(MODEL._replace(vocabulary=100))
    data = tmp_path / "text.txt"
    data.write_bytes(b"A" * 50 + b"z" + b"A" * 50)
    refuse(train(tools, library, data), "text.txt", "122", "100")


def test_mesh_needs_as_many_processes(tools, text):
    library = tools.library(MODEL, "row:2,col:2", "summa")
    result = train(tools, library, text, prefix=mpirun(2))
    # mpirun adds its own words on a process that failed.
    assert result.returncode == 1
    (message,) = re.findall("optimus-run: error: (.*)", result.stderr)
    assert re.search(r"\b4 ranks", message), message
    assert re.search(r"started 2\b", message), message


@pytest.mark.parametrize(
    "flags, word",
    [
        (["--lr", "fast"], "--lr"),
        (["--lr", "nan"], "--lr"),
        (["--steps", "-1"], "--steps"),
        (["--clip", "0"], "--clip"),
        (["--order", "random"], "random"),
        (["--schedule", "quadratic"], "quadratic"),
        (["--backend", "pigeon"], "pigeon"),
        (["--device", "abacus"], "abacus"),
        (["--threads-per-rank", "0"], "--threads-per-rank"),
        (["--save-every", "2"], "--save"),
        (["--colour", "red"], "--colour"),
        (["--save", ""], "--save: expected a value"),
        (["--load="], "--load: expected a value"),
        (["--save=", "--seed=3"], "--save: expected a value"),
        (["--scratch", ""], "--scratch: expected a value"),
        (["--ranks", "2"], "--ranks requires --rank"),
    ],
)
def test_bad_flag(tools, library, text, flags, word):
    refuse(train(tools, library, text, *flags), word)


def test_no_subcommand(tools):
    commands = "train, eval, forward, generate, score, verify, inspect, convert or bench"
    refuse(tools.call("optimus-run"), "expected " + commands)


def test_unknown_subcommand(tools):
    refuse(tools.call("optimus-run", "trian"), "trian", "train", "verify")


def test_library_is_not_a_library(tools, text, tmp_path):
    (tmp_path / "text.so").write_text("not a library")
    refuse(train(tools, tmp_path / "text.so", text), "text.so")


def test_library_is_missing(tools, text, tmp_path):
    refuse(train(tools, tmp_path / "absent.so", text), "absent.so")


@pytest.mark.parametrize("keep", [0, 3, 100, 0.1, 0.5, 0.9, -1])
def test_library_is_cut_short(tools, library, text, tmp_path, keep):
    content = library.read_bytes()
    keep = int(keep * len(content)) if isinstance(keep, float) else keep
    (tmp_path / "cut.so").write_bytes(content[:keep])
    refuse(train(tools, tmp_path / "cut.so", text), "cut.so")


def test_library_is_not_a_model(tools, text, tmp_path):
    # This process's C library loads anywhere, but has no model's entry.
    maps = Path("/proc/self/maps").read_text()
    path = re.search(r"/\S*/libc[.-]\S*", maps)[0]
    shutil.copy(path, tmp_path / "other.so")
    refuse(train(tools, tmp_path / "other.so", text), "other.so")


@pytest.mark.parametrize("flag", ["--save", "--log-json"])
def test_unwritable_output(tools, library, text, tmp_path, flag):
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "below"
    refuse(train(tools, library, text, flag, target), flag, tmp_path / "file")


def test_full_disk_under_the_log(tools, library, text):
    refuse(train(tools, library, text, "--log-json", "/dev/full"), "--log-json")


def test_load_of_a_folder_of_other_files(tools, library, text, tmp_path):
    (tmp_path / "notes.txt").write_text("not a checkpoint")
    refuse(load(tools, library, text, tmp_path), tmp_path, "not a checkpoint")


def test_data_is_a_folder(tools, library, tmp_path):
    (tmp_path / "data.txt").mkdir()
    refuse(train(tools, library, tmp_path / "data.txt"), "data.txt", "folder")


def test_save_does_not_replace_a_folder_of_other_files(tools, library, text, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    refuse(train(tools, library, text, "--save", tmp_path / "thesis"), "thesis")
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"


# ----------------------------------------------------------------- checkpoints


def load(tools, library, text, folder):
    return train(tools, library, text, "--load", folder)


def test_missing_checkpoint(tools, library, text, tmp_path):
    refuse(load(tools, library, text, tmp_path / "absent"), "absent")


@pytest.mark.parametrize(
    "name", ["model.safetensors", "optimizer.safetensors", "state.json"]
)
def test_missing_file_of_a_checkpoint(tools, library, text, damaged, name):
    (damaged / name).unlink()
    refuse(load(tools, library, text, damaged), name)


@pytest.mark.parametrize("keep", [0, 4, 200, -1])
@pytest.mark.parametrize("name", ["model.safetensors", "state.json"])
def test_truncated_checkpoint(tools, library, text, damaged, name, keep):
    # A newline at the end of a JSON file is no loss.
    content = (damaged / name).read_bytes().rstrip(b"\n")
    (damaged / name).write_bytes(content[:keep])
    refuse(load(tools, library, text, damaged), name)


def test_a_full_disk_is_told_of_the_folder(tools, checkpoint, tmp_path):
    """Without room for its weights, and without room for its lock."""
    disk = tmp_path / "disk"
    disk.mkdir()
    fill = "head -c %d /dev/zero >disk/rest 2>/dev/null"
    mount = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=64k none disk && " + fill]
    if call([*mount[:-1], "mount -t tmpfs none disk"], cwd=tmp_path).returncode != 0:
        pytest.skip("this machine lets nobody mount a disk (unshare --mount)")
    save = ["--load", checkpoint.folder, "--save", "disk/weights"]
    command = tools.command("optimus-run", "convert", *save)
    for rest, said in (
        (
            48 << 10,
            "error: cannot save to .*/weights: it has [0-9]+ bytes, and the disk has room for "
            "[0-9]+; make room",
        ),
        (80 << 10, "disk/weights: cannot write '.*': No space left on device"),
    ):
        script = "%s; %s; code=$?; ls -A disk; exit $code" % (
            mount[-1] % rest, shlex.join(command))
        result = call([*mount[:-1], script], cwd=tmp_path)
        assert (result.returncode, result.stdout) == (1, "rest\n")
        assert re.search(said, result.stderr) and len(result.stderr.splitlines()) == 1


def test_indexes_of_weights_that_lie(tools, library, text, checkpoint, tmp_path):
    folder = tmp_path / "weights"
    tools.run("optimus-run", "convert", "--load", checkpoint.folder, "--save", folder)
    (folder / "model.safetensors").rename(folder / "one.safetensors")
    index = folder / "model.safetensors.index.json"

    def evaluate(content=None):
        if content is not None:
            index.write_text(content if isinstance(content, str) else json.dumps(content))
        return tools.call("optimus-run", "eval", library, "--data", text, "--load", folder)

    files = lambda name: {"weight_map": {key: name for key in checkpoint.parameters}}
    assert evaluate(files("one.safetensors")).returncode == 0
    for name in ("../one.safetensors", "/etc/passwd", index.name, "a/one.safetensors"):
        refuse(evaluate(files(name)), "expected the name of a file in the same folder", name)
    (folder / "link.safetensors").symlink_to("link.safetensors")
    refuse(evaluate(files("link.safetensors")), "link.safetensors", "symbolic links")
    many = {"weight_map": {str(i): "%d.safetensors" % i for i in range(600)}}
    refuse(evaluate(many), "it names more than 512 files")
    twice = json.dumps(files("one.safetensors")).replace("{", '{"weight_map": {}, ', 1)
    refuse(evaluate(twice), 'an object has the key "weight_map" twice')
    refuse(evaluate("[" * 10_000 + "]" * 10_000), "values lie more than 64 deep")
    # As many as of 10^6 files: they are not looked at.
    os.truncate(index, 40_000_000)
    refuse(evaluate(), "more than the 33554432 bytes")


@pytest.mark.parametrize("where", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize(
    "name", ["model.safetensors", "optimizer.safetensors", "state.json"]
)
def test_flipped_bit(tools, library, text, damaged, name, where):
    content = bytearray((damaged / name).read_bytes())
    content[int(where * (len(content) - 1))] ^= 0x10
    (damaged / name).write_bytes(content)
    refuse(load(tools, library, text, damaged), name)


def test_checkpoint_of_another_model(tools, text, checkpoint):
    other = tools.library(MODEL._replace(hidden=36))
    refuse(load(tools, other, text, checkpoint.folder), "model")


def test_evaluation_checks_what_it_loads(tools, library, text, damaged):
    content = bytearray((damaged / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (damaged / "model.safetensors").write_bytes(content)
    flags = ["--data", text, "--load", damaged]
    result = tools.call("optimus-run", "eval", library, *flags)
    refuse(result, "model.safetensors")


def test_good_checkpoint_is_accepted(tools, library, text, damaged):
    # The copy itself spoils nothing: what the tests above refuse is the damage.
    assert load(tools, library, text, damaged).returncode == 0
