# ===- test_bench_gpu.py - What measures a GPU, without one -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""bench/gpu packs tiny models and runs all of its checks on the fake driver, and keeps
what it found whatever fails."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

import pytest

from tools import REPOSITORY, TIMEOUT_SECONDS, call, has_assembler, succeed


# The pack takes as long to make as all of them.
together = pytest.mark.rotates("pack")


@pytest.fixture(scope="module")
def pack(tools, session):
    """An unpacked pack, once for all workers."""

    def make(path):
        archive = path.with_suffix(".tar.gz")
        script = REPOSITORY / "bench/gpu/pack"
        flags = ["--fake", "--build", tools.binaries.resolve().parent, "-o", archive]
        # It compiles all that the checks run.
        patience = 5 * TIMEOUT_SECONDS
        succeed(call([str(part) for part in [sys.executable, script, *flags]], patience))
        assert archive.stat().st_size < 20 << 20
        path.mkdir()
        succeed(call(["tar", "xf", str(archive), "-C", str(path)]))

    return session.once("gpu-pack", make) / "optimus-gpu"


def results_of(folder):
    return json.loads((folder / "results.json").read_text())["checks"]


def kind_of(name):
    return name.partition("/")[0]


def run(pack, results, *flags):
    """The contents of the pack only, as on a machine without anything else of ours."""
    command = [sys.executable, pack / "run", "--results", results, *flags]
    return subprocess.run(
        [str(part) for part in command],
        cwd=pack,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT_SECONDS,
    )


# Of the first job, in the order in which they tell most.
ORDER = """properties clocks toy probe ceilings blocking eager recorded gradients steps kernels
    torch tuned gradients recorded gradients recorded alone memory largest torch""".split()
PROBES = """capture-thread capture-refusals unjoined-capture captured-event external-events
    memset-in-graph memset-host-in-graph write-value-in-graph odd-pitch-copy narrow-rows-copy
    parameters-4088 heuristic bias-gradient cudnn-plans graph-500""".split()


@together
def test_every_check_runs_to_its_end(pack, tools, tmp_path):
    results = tmp_path / "results"
    done = run(pack, results, "--job", "all")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((results / "results.json").read_text())
    checks = found["checks"]
    assert found["fake"] is True
    assert {check["job"] for check in checks.values()} == {1, 2, 3}
    skipped = {name for name, check in checks.items() if check["status"] == "skipped"}
    assert {check["status"] for check in checks.values()} <= {"passed", "skipped"}
    # What a fake driver cannot do, each with its reason.
    assert all(re.match("(clocks|torch|largest/torch|sanitizer|counters|machine)($|/|-)", name) for name in skipped)
    assert all(checks[name]["reason"] for name in skipped)

    first = [name for name, check in checks.items() if check["job"] == 1]
    kinds = [kind_of(name) for name in first]
    assert [kind for at, kind in enumerate(kinds) if at == 0 or kinds[at - 1] != kind] == ORDER
    assert [name for name in first if kind_of(name) == "probe"] == [f"probe/{name}" for name in PROBES]
    # Steps before peers, always.
    for job in (1, 2, 3):
        of_job = [kind_of(name) for name, check in checks.items() if check["job"] == job]
        if "steps" in of_job and "torch" in of_job:
            assert max(at for at, kind in enumerate(of_job) if kind == "steps") < of_job.index("torch")

    for name in PROBES:
        expected = "no" if name == "memset-host-in-graph" else "yes"
        assert checks[f"probe/{name}"]["figures"]["answer"] == expected, checks[f"probe/{name}"]
    assert len(checks["probe/heuristic"]["rows"]) >= 10
    assert {"plan", "bytes", "reserved"} <= set(checks["probe/cudnn-plans"]["rows"][0])
    assert checks["probe/graph-500"]["figures"]["instantiate_ms"] > 0

    kernels = checks["kernels/gpt2-124m-b2"]["rows"]
    assert sum(row["ms a step"] for row in kernels) > 0
    assert any(row["GB/s"] and row["of bandwidth"] and row["MB a step"] for row in kernels)
    assert any(row["TFLOP/s"] and row["of peak"] for row in kernels)
    memory = checks["memory/gpt2-124m-b2"]["figures"]
    assert {"planned, total", "after loading", "after the first step", "after recording"} <= set(memory)

    kernels = {row["kernel"] for name in checks if kind_of(name) == "alone" for row in checks[name]["rows"]}
    for part in ("attention_query_grad", "attention_key_grad", "layer_norm", "logits", "adamw", "embedding"):
        assert any(part in kernel for kernel in kernels), kernels

    (largest,) = (each for name, each in checks.items() if re.fullmatch("largest/.*-largest", name))
    assert largest["figures"]["is_last"] and largest["figures"]["batch"] >= 8

    page = (results / "results.md").read_text()
    assert "Fake driver, not a measurement" in page
    assert "## Steps of gpt2-124m" in page and "Best batch: " in page
    assert (tmp_path / "results.tar.gz").stat().st_size < 16 << 20

    # What passed is not done again, nor after it came by an archive.
    again = run(pack, tmp_path / "elsewhere", "--only", "gradients/*", "--from", tmp_path / "results.tar.gz")
    assert (again.returncode, len(again.stdout.splitlines())) == (0, 1), again.stdout + again.stderr

    roofline(tools, tmp_path / "results.tar.gz", checks)


def roofline(tools, archive, checks):
    """The archive, read by bench/gpu/roofline."""
    if not has_assembler():
        return
    script, build = REPOSITORY / "bench/gpu/roofline", tools.binaries.resolve().parent
    flags = ["--archive", archive, "--build", build, "--attention", "cudnn", "--json"]
    (step,) = json.loads(succeed(call([str(part) for part in [sys.executable, script, *flags]])))
    assert step["fake"] and step["sizes"]["hidden"] == 32
    assert step["measured_ms"] == checks["steps/gpt2-124m-b2-cudnn"]["figures"]["ms"]
    copied = checks["ceilings/copy"]["figures"]["bytes_per_s"]
    assert step["constants"]["memory_bytes_per_s"] == copied or not copied
    measured = [row["name"] for row in step["rows"] if row["measured"]]
    assert {"attention", "attention_grad"} <= set(measured)
    # All but what no launch of a profile names.
    assert len(measured) >= len(step["rows"]) - 1, {row["name"] for row in step["rows"]} - set(measured)
    assert any(name.startswith("gemm 16x") for name in measured)


@together
def test_what_takes_too_long_is_ended_and_left_for_later(pack, tmp_path):
    check = "recorded/gpt2-f32-2x2"
    late = run(pack, tmp_path, "--only", check, "--minutes", 0.005)
    assert late.returncode == 1
    assert results_of(tmp_path)[check]["status"] == "timed out"
    none = run(pack, tmp_path / "none", "--minutes", 0)
    assert none.returncode == 2
    assert re.search(r"^\d+ checks are left", none.stdout, re.M)


@together
def test_after_two_time_outs_the_rest_of_a_kind_is_skipped(pack, tmp_path):
    done = run(pack, tmp_path / "results", "--only", "probe/*", "--seed", "probe=hang")
    assert done.returncode == 1
    checks = list(results_of(tmp_path / "results").values())
    assert [check["status"] for check in checks] == ["timed out"] * 2 + ["skipped"] * 13
    assert checks[2]["reason"] == "2 checks of its kind were not done in time"


def seeds(kinds, how):
    return [part for kind in kinds for part in ("--seed", f"{kind}={how}")]


ALL = sorted({*ORDER, "nccl", "microbatches", "checkpoints", "tf32", "machine"})


@together
def test_whatever_fails_the_others_are_kept(pack, tmp_path):
    results = tmp_path / "results"
    done = run(pack, results, "--job", "all", *seeds(set(ALL) - {"properties"}, "fail"))
    assert done.returncode == 1
    checks = results_of(results)
    assert checks.pop("properties")["status"] == "passed"
    assert {kind_of(name) for name, each in checks.items() if each["status"] == "failed"} == set(ALL) - {
        "properties",
        "clocks",
        "torch",
    }
    for check in checks.values():
        if check["status"] == "failed":
            assert [each["how"] for each in check["again"]] == ["blocking", "compute-sanitizer"]
    with tarfile.open(tmp_path / "results.tar.gz") as archive:
        kept = json.loads(archive.extractfile("results/results.json").read())
    assert len(kept["checks"]) == len(checks) + 1


@together
@pytest.mark.parametrize("kind", ["probe", "ceilings", "steps", "kernels", "largest"])
def test_what_came_before_an_end_is_kept(pack, tmp_path, kind):
    """The script itself is killed in a stage; an earlier one passed and others failed."""
    results = tmp_path / "results"
    rest = set(ALL) - {"properties", kind}
    done = run(pack, results, *seeds(rest, "fail"), "--seed", f"{kind}=crash")
    assert done.returncode == -9
    checks = results_of(results)
    assert checks["properties"]["status"] == "passed"
    before = ORDER[: ORDER.index(kind)]
    assert [each for each in dict.fromkeys(kind_of(name) for name in checks)] == list(dict.fromkeys(before))
    # Another run goes on from the archive, elsewhere.
    flags = ["--only", f"{kind}/*", *seeds([kind], "fail"), "--from", tmp_path / "results.tar.gz"]
    assert run(pack, tmp_path / "next", *flags).returncode == 1
    checks = results_of(tmp_path / "next")
    assert checks["properties"]["status"] == "passed"
    assert kind in {kind_of(name) for name in checks}


@together
def test_what_is_no_archive_is_refused(pack, tmp_path):
    path = tmp_path / "results.tar.gz"
    path.write_text("no archive")
    done = run(pack, tmp_path / "results", "--from", path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"run: error: expected the archive of an earlier run, found '{path}'")


@together
def test_wrong_gradients_fail(pack, tmp_path):
    """The library of another model in the place of three right ones: what optimus-run says
    is kept, with the libraries' logs, of the first at once."""
    broken = tmp_path / "optimus-gpu"
    shutil.copytree(pack, broken)
    names = ["gpt2-bf16", "gpt2-bf16-cudnn", "gpt2-f32"]
    for name in names:
        shutil.copy(pack / "models/llama-f32.so", broken / f"models/{name}.so")
    result = run(broken, tmp_path / "results", "--only", "gradients/gpt2-*")
    assert result.returncode == 1
    checks = results_of(tmp_path / "results")
    assert checks.pop("gradients/gpt2-f32-2x2")["status"] == "passed"
    assert list(checks) == [f"gradients/{name}" for name in names]
    for check in checks.values():
        assert check["status"] == "failed"
        assert [each["status"] for each in check["again"]] == ["failed", "skipped"]
    outputs = sorted((tmp_path / "results/output").iterdir(), key=lambda path: path.stem.rpartition("-")[2])
    first, *others = names
    assert [path.stem for path in outputs] == [
        f"gradients-{first}-1",
        f"gradients-{first}-blocking-2",
        *(f"gradients-{name}-{number}" for number, name in enumerate(others, start=3)),
        *(f"gradients-{name}-blocking-{number}" for number, name in enumerate(others, start=5)),
    ]
    text = outputs[1].read_text()
    assert " --eager\nexit code 1\n" in text and "error: " in text
    with tarfile.open(tmp_path / "results.tar.gz") as archive:
        assert f"results/output/{outputs[-1].name}" in archive.getnames()


@together
def test_a_kernel_with_other_results_is_named(pack, tmp_path):
    changed = tmp_path / "optimus-gpu"
    shutil.copytree(pack, changed)
    path = changed / "alone/gpt2-bf16.json"
    expected = json.loads(path.read_text())
    (name,) = (name for name in expected if name.startswith("attention_causal"))
    (number,) = (number for number, each in expected[name].items() if each["kind"] == "bf16")
    # By four times what halves of significands differ.
    operand = expected[name][number]
    operand["samples"][3] += operand["largest"] / 4
    path.write_text(json.dumps(expected))
    result = run(changed, tmp_path / "results", "--only", "alone/gpt2-bf16")
    assert result.returncode == 1
    reason = results_of(tmp_path / "results")["alone/gpt2-bf16"]["reason"]
    assert reason == f"1 results are not their emulation's: {name}, operand {number} (2.5e-01)"


@together
def test_a_machine_without_a_driver_says_so(pack, tmp_path):
    broken = tmp_path / "optimus-gpu"
    shutil.copytree(pack, broken)
    (broken / "lib/libfake_cuda.so").unlink()
    (broken / "lib/libfake_cublaslt.so").unlink()
    result = run(broken, tmp_path / "results", "--only", "properties")
    assert result.returncode == 1
    assert "cannot open CUDA's driver" in result.stdout
    # No probe has an answer then; without a library, that is one.
    result = run(broken, tmp_path / "results", "--only", "probe/odd-pitch-copy")
    assert result.returncode == 1
    assert "failed" in result.stdout
    shutil.copy(pack / "lib/libfake_cuda.so", broken / "lib")
    for _ in range(2):
        result = run(broken, tmp_path / "results", "--only", "probe/heuristic")
        assert result.returncode == 0
        assert "probe/heuristic: no: cannot open cuBLASLt" in result.stdout


def in_scripts(code, *folders):
    """Runs code where the modules of bench/gpu, one of which is named as one of ours, are found."""
    path = os.pathsep.join(str(folder) for folder in (REPOSITORY / "bench/gpu", *folders))
    return succeed(call([sys.executable, "-c", code], env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"}))


def test_the_libraries_of_pytorch_come_before_the_systems(tmp_path):
    folder = tmp_path / "nvidia/cu13/lib"
    folder.mkdir(parents=True)
    (folder / "libcublasLt.so.12").touch()
    # An older one, where the system may have a newer one.
    code = """
from session import find_library
print(find_library(("libcublasLt.so.13", "libcublasLt.so.12")))
print(repr(find_library(("libnone.so.1",))))
"""
    assert in_scripts(code, tmp_path) == f"{folder}/libcublasLt.so.12\n''\n"


def test_products_of_a_table():
    code = '''
from cublaslt import Product, read_products
text = """function train_step: arena0 of 4096 bytes (device)
5 compute: gemm 64x32x16 add read a=arena0[0]:1024bf16 read b=arena0[0]:512bf16 write c=arena0[0]:2048bf16 read bias=arena0[0]:32bf16 read extra=arena0[0]:64x32/40bf16 flops=1 bytes=2 x
6 compute: gemm 64x32x16 trans_a trans_b read a=arena0[0]:16x64/96bf16 read b=arena0[0]:512bf16 write c=arena0[0]:2048f32 flops=1 bytes=2 x
7 compute: gemm 64x32x16 trans_a trans_b read a=arena0[0]:16x64/96bf16 read b=arena0[8]:512bf16 write c=arena0[0]:2048f32 flops=1 bytes=2 y
"""
one, other = read_products(text)
assert one == Product(64, 32, 16, 16, 32, 32, bias=True, ld_added=40), one
assert one.name == "64x32x16 bias add bf16 to bf16", one.name
assert other == Product(64, 32, 16, 96, 16, 32, trans_a=True, trans_b=True, result="f32"), other
'''
    assert in_scripts(code) == ""


def test_what_fakes_believe_has_a_source_and_a_probe():
    """The probe that asks a real GPU, or none."""
    page = (REPOSITORY / "docs/cuda-fakes.md").read_text()
    section = page.partition("### What the fakes believe")[2].partition("\n#")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", section, re.M)[1:]
    probes = set(in_scripts("import probes; print(*probes.PROBES)").split())
    assert len(rows) > 10
    for belief, source, probe in rows:
        assert belief and source and (probe == "none" or probe.strip("`") in probes), belief
    assert probes <= {probe.strip("`") for _, _, probe in rows}
