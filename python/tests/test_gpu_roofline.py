# ===- test_gpu_roofline.py - A step's least time, kernel by kernel ----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""bench/gpu/roofline counts bytes, products and instructions, and takes over what
an archive has measured."""

import importlib
import json
import subprocess
import sys
import tarfile

import pytest

from tools import REPOSITORY, has_assembler

GPU = REPOSITORY / "bench/gpu"
CONSTANTS = json.loads((GPU / "constants.json").read_text())


@pytest.fixture(scope="module")
def predictions():
    sys.path.insert(0, str(GPU))
    try:
        yield importlib.import_module("predictions")
    finally:
        sys.path.remove(str(GPU))


# A loop of five instructions, which loads 16 bytes a thread and stores 2, within
# another loop; as nvdisasm prints it.
LISTING = """
\t.section\t.text.cast,"ax",@progbits
.text.cast:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   S2R R2, SR_TID.X ;
.L_x_2:
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0030*/                   FADD R4, R5, R6 ;
        /*0040*/                   FADD R4, R4, R7 ;
        /*0050*/                   STG.E.U16 desc[UR4][R2.64], R4 ;
        /*0060*/               @P0 BRA `(.L_x_2) ;
        /*0070*/               @P1 BRA `(.L_x_1) ;
        /*0080*/                   EXIT ;
"""

COMMANDS = """function train_step: arena0 of 4096 bytes (device)
0 compute: cast extent=64 grain=1 read arena0[0]:512f32 write arena0[2048]:64bf16 bytes=2176 a (gpt2.py:1)
1 compute: cast extent=64 grain=1 read arena0[0]:512f32 write arena0[2048]:512bf16 bytes=3072 b (gpt2.py:2)
2 compute: gemm 64x32x16 read a=arena0[0]:1024bf16 read b=arena0[0]:512bf16 write c=arena0[0]:2048bf16 flops=65536 bytes=7168 c (gpt2.py:3)
3 compute: attention batch=1 seq=8 heads=2 kv_heads=2 head_dim=8 causal read q=arena0[0]:8x16/48bf16 flops=4000 bytes=2000 d (gpt2.py:4)
4 compute: attention_causal_q_bf16_k_bf16_v_bf16_out_bf16_2x128_3x3_64_576x576 extent=6 grain=1 read arena0[0]:1000bf16 read arena0[400]:1000bf16 write arena0[8192]:10bf16 bytes=4020 e (gpt2.py:5)
arena0[0]: 4096 bytes alive from 0 to 2 activation = a:0 of a (gpt2.py:1)
"""


def test_a_step_is_counted(predictions):
    commands = predictions.read_commands(COMMANDS)
    ours = "attention_causal_q_bf16_k_bf16_v_bf16_out_bf16_2x128_3x3_64_576x576"
    assert list(commands) == ["cast", "gemm 64x32x16", "attention", ours]
    cast = commands["cast"]
    assert (cast.calls, cast.bytes, cast.stored) == (2, 2176 + 3072, 128 + 1024)
    assert (commands["gemm 64x32x16"].flops, commands["gemm 64x32x16"].kind) == (65536, "gemm")
    # What two operands share is read once; two tiles of 64 rows meet three.
    assert commands[ours].bytes == 2400 + 20
    assert commands[ours].flops == 2 * (2 * 2 * 3 * 128 * 128 * 64) * 3 // 4

    predictions.count_instructions(commands, LISTING, {"cast": 2.0})
    # Five for each 2 bytes of a thread that are stored.
    assert cast.instructions == cast.stored * 5 / (32 * 2)
    cast.stored = 0
    predictions.count_instructions(commands, LISTING, {"cast": 2.0})
    assert cast.instructions == 2 * cast.bytes * 5 / (32 * 18)

    predictions.predict(commands, CONSTANTS)
    issued = 132 * 4 * 1.7e9 / 2
    assert cast.milliseconds == pytest.approx(1e3 * max(5248 / 3e12, cast.instructions / issued))
    rate = CONSTANTS["cudnn_attention_flops"] / 15
    assert commands["attention"].milliseconds == pytest.approx(4000 / rate)
    assert commands["attention"].bound == "cuDNN"


FUSED = """function train_step: arena0 of 4096 bytes (device)
0 compute: gelu_with_slope_bf16_100 extent=100 grain=1 read arena0[0]:100bf16 write arena0[256]:100bf16 write arena0[512]:100bf16 bytes=600 a (gpt2.py:1)
1 compute: gemm 8x16x32 trans_a bias_grad read a=arena0[0]:256bf16 read b=arena0[512]:512bf16 write c=arena0[2048]:128f32 write bias=arena0[3072]:16f32 flops=8192 bytes=2112 b (gpt2.py:2)
2 compute: gemm 8x16x32 trans_a read a=arena0[0]:256bf16 read b=arena0[512]:512bf16 write c=arena0[2048]:128f32 flops=8192 bytes=2048 c (gpt2.py:3)
3 compute: cast_f32_to_bf16_64 extent=64 grain=1 read arena0[0]:64f32 write arena0[256]:64bf16 bytes=384 d (gpt2.py:4)
4 compute: sum_leading_512x8 extent=8 grain=1 read arena0[0]:4096f32 write arena0[0]:8f32 bytes=16416 e (gpt2.py:5)
5 compute: embedding_grad_8 extent=8 grain=1 read arena0[0]:64f32 write arena0[512]:64f32 bytes=512 f (gpt2.py:6)
"""


def test_fusions_are_weighed_by_their_bytes(predictions):
    decisions = importlib.import_module("decisions")
    commands = predictions.read_commands(FUSED)
    # Bound by its instructions.
    commands["embedding_grad_8"].instructions = 1e6
    predictions.predict(commands, CONSTANTS)
    fusions = {fusion.name: fusion for fusion in decisions.weigh(FUSED, commands, CONSTANTS)}
    saved = {name: fusion.bytes for name, fusion in fusions.items() if fusion.bytes}
    assert saved == {
        "GELU keeps its input alone": 200,
        "a bias's gradient in its weight's product": 16 * 32 * 2,
        "narrow weights written by the optimizer": 256,
        "parts of column sums added in place": 2 * 4096 * 4,
    }
    assert fusions["GELU keeps its input alone"].milliseconds == pytest.approx(1e3 * 200 / 3e12)
    beyond = 1e3 * (1e6 / (132 * 4 * 1.7e9 / 2) - 512 / 3e12)
    assert fusions["the embedding's gradient from sorted tokens"].milliseconds == pytest.approx(beyond)
    # Those that are not made.
    least = 100_000 - 200 - 256 - 2 * 4096 * 4
    assert f"{100_000 / least:.3f} of the least" in decisions.show(fusions.values(), 100_000, 1.0)


def test_all_constants_stand_in_one_file():
    assert {name: value for name, value in CONSTANTS.items() if name != "peers"} == {
        "memory_bytes_per_s": 3.0e12,
        "product_flops_per_s": 670e12,
        "multiprocessors": 132,
        "issue_slots": 4,
        "clock_hz": 1.7e9,
        "issued_share": 0.5,
        "cudnn_attention_ms": 15,
        # Of GPT-2 124M on 64 sequences of 1024, forward and backward.
        "cudnn_attention_flops": 12 * (103179878400 + 257949696000),
    }


def roofline(tools, *flags):
    command = [sys.executable, GPU / "roofline", "--build", tools.binaries.resolve().parent, *flags]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


def passed(**figures):
    return {"job": 1, "status": "passed", "seconds": 1, "figures": figures}


SIZES = dict(layers=1, hidden=64, heads=1, seq=128, vocab=512)


@pytest.fixture
def archive(tmp_path):
    """Of a run that has measured some of it."""
    kernels = {**passed(), "rows": [{"command": "attention", "ms a step": 3.5}]}
    checks = {
        "ceilings/copy": passed(bytes_per_s=1.5e12),
        "ceilings/gemm": {**passed(flops_per_s=1e12), "status": "failed"},
        "properties": passed(multiprocessors=66),
        "steps/gpt2-124m-b4-cudnn": passed(model="gpt2-124m with cuDNN's attention", batch=4, ms=7.25, sizes=SIZES),
        "steps/gpt2-124m-b4": passed(model="gpt2-124m", batch=4, ms=8.5, sizes=SIZES),
        "torch/gpt2-124m-b4": passed(model="gpt2-124m", batch=4, ms=9.5),
        "kernels/gpt2-124m-b4-cudnn": kernels,
    }
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"format": 2, "pack": "0", "fake": False, "checks": checks}))
    with tarfile.open(tmp_path / "results.tar.gz", "w:gz") as out:
        out.add(results, "results/results.json")
    return tmp_path / "results.tar.gz"


@pytest.mark.rotates
def test_measured_figures_take_the_place_of_constants(tools, archive):
    if not has_assembler():
        pytest.skip("no ptxas of the CUDA toolkit is installed")
    done = roofline(tools, "--archive", archive, "--json")
    assert done.returncode == 0, done.stderr
    cudnn, ours = json.loads(done.stdout)
    assert (cudnn["attention"], ours["attention"]) == ("cudnn", "builtin")
    used = cudnn["constants"]
    assert (used["memory_bytes_per_s"], used["multiprocessors"]) == (1.5e12, 66)
    # A check that failed measures nothing.
    assert used["product_flops_per_s"] == 670e12
    assert (cudnn["measured_ms"], ours["measured_ms"], ours["peer_ms"]) == (7.25, 8.5, 9.5)
    rows = {row["name"]: row for row in cudnn["rows"]}
    assert rows["attention"]["measured"] == 3.5
    attention = rows["attention"]["milliseconds"] + rows["attention_grad"]["milliseconds"]
    assert attention == pytest.approx(3.5)
    assert ours["sizes"]["batch"] == 4
    # Each kernel of ours is a launch of the step, with bytes.
    names = [row["name"] for row in ours["rows"] if row["name"].startswith("attention_")]
    assert len(names) == 3
    assert all(row["bytes"] and row["milliseconds"] for row in ours["rows"])

    page = roofline(tools, "--archive", archive, "--attention", "cudnn").stdout
    assert "7.25 ms measured" in page and "9.50 ms of PyTorch compiled, measured" in page
    assert "constants measured by the archive: cudnn_attention_flops, cudnn_attention_ms, mem" in page


def test_what_is_no_archive_is_refused(tools, tmp_path):
    path = tmp_path / "results.tar.gz"
    path.write_text("no archive")
    done = roofline(tools, "--archive", path)
    assert done.returncode == 1
    assert done.stderr.startswith("bench/gpu/roofline: error: expected an archive of bench/gpu/run with a results.json")
