# ===- test_gpu_instructions.py - What bench/gpu/instructions.py reads ------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""bench/gpu/instructions.py counts a loop's instructions, and attention has few."""

import json
import shutil
import subprocess
import sys

import pytest

from optimus.models import gpt2
from tools import REPOSITORY, has_assembler, load_script

SCRIPT = REPOSITORY / "bench/gpu/instructions.py"


@pytest.fixture(scope="module")
def instructions():
    return load_script(SCRIPT)


# As nvdisasm 13.2 prints it. The outer loop has two with products, of five
# instructions and of three, and one without.
LISTING = """
\t.section\t.nv.info,"",@"SHT_CUDA_INFO"
\t//----- nvinfo : EIATTR_REGCOUNT
\t.align\t\t4
        /*0000*/ \t.byte\t0x04, 0x2f
\t.align\t\t4
.L_2:
        /*0004*/ \t.word\tindex@(attention)
        /*0008*/ \t.word\t0x00000081
\t.section\t.nv.info.attention,"",@"SHT_CUDA_INFO"
\t//----- nvinfo : EIATTR_REQNTID
        /*0060*/ \t.byte\t0x04, 0x10
.L_9:
        /*0064*/ \t.word\t0x00000080
        /*0068*/ \t.word\t0x00000001
\t.section\t.text.attention,"ax",@progbits
.text.attention:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   S2R R2, SR_TID.X ;
.L_x_2:
        /*0020*/                   LDSM.16.M88.4 R4, [R2] ;
        /*0030*/                   HMMA.16816.F32.BF16 R8, R4, R6, R8 ;
        /*0040*/               @P0 BRA `(.L_x_3) ;
        /*0050*/              @!P1 LDGSTS.E.BYPASS.128 [R3], [R4.64] ;
.L_x_3:
        /*0060*/              @!P0 BRA `(.L_x_2) ;
.L_x_4:
        /*0070*/                   HMMA.16816.F32.BF16 R8, R4, R6, R8 ;
        /*0080*/                   HMMA.16816.F32.BF16 R8, R4, R6, R8 ;
        /*0090*/               @P2 BRA `(.L_x_4) ;
.L_x_5:
        /*00a0*/                   FADD R1, R1, R2 ;
        /*00b0*/               @P2 BRA `(.L_x_5) ;
        /*00c0*/               @P3 BRA `(.L_x_1) ;
        /*00d0*/                   EXIT ;
.L_x_6:
        /*00e0*/                   BRA `(.L_x_6) ;
\t.section\t.text.other,"ax",@progbits
.text.other:
        /*0000*/                   EXIT ;
\t.section\t.nv.shared.attention,"aw",@nobits
.nv.shared.attention:
\t.zero\t\t37888
"""


def test_inner_loops(instructions):
    (kernel,) = instructions.read_listing(LISTING, 90)
    loops = [(loop.products, loop.instructions) for loop in kernel.loops]
    assert loops == [(2, 3), (1, 5)]
    assert (kernel.name, kernel.registers, kernel.threads) == ("attention", 129, 128)
    # Since sm_90, 1 KiB of what stands there is the system's.
    assert (kernel.shared, kernel.blocks) == (36864, 3)
    (kernel,) = instructions.read_listing(LISTING, 80)
    assert (kernel.shared, kernel.blocks) == (37888, 3)


def test_mistakes(instructions, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NVDISASM", shutil.which("true"))
    assert instructions.main([str(tmp_path / "none.cubin")]) == 1
    assert capsys.readouterr().err == (
        f"error: expected a cubin, found no file '{tmp_path}/none.cubin'; write one with "
        "`optimus-compile --target cuda --gpu-arch sm_90 --cubins-to DIR`\n"
    )
    monkeypatch.setattr(instructions, "find_nvdisasm", lambda: None)
    assert instructions.main([str(SCRIPT)]) == 1
    assert "found none; install it" in capsys.readouterr().err


def has_tools(instructions):
    return has_assembler() and instructions.find_nvdisasm()


# Of each loop without a mask, at heads of 64: what a product costs beside
# itself. FlashAttention-2's ideas lead to about 4.5 forward and 3.5 backward.
MOST = {"attention_causal": 5.5, "attention_query_grad": 4, "attention_key_grad": 4}


def test_attention_issues_few(tools, instructions, tmp_path):
    if not has_tools(instructions):
        pytest.skip("no ptxas and nvdisasm of the CUDA toolkit are installed")
    model = tmp_path / "gpt2.mlir"
    config = gpt2.Config(
        layers=1, hidden=128, heads=2, sequence=1024, vocabulary=512, batch=1
    )
    model.write_text(gpt2.build(config).text())
    flags = "--target cuda --gpu-arch sm_80,sm_90,sm_100 --precision bf16 --attention builtin"
    tools.run(
        "optimus-compile", model, *flags.split(), "--cubins-to", tmp_path, "-o", tmp_path / "m.so"
    )
    cubins = sorted(str(path) for path in tmp_path.glob("*.cubin"))
    output = subprocess.run(
        [sys.executable, str(SCRIPT), "--json", *cubins], check=True, capture_output=True, text=True
    ).stdout
    kernels = [kernel for kernel in json.loads(output) if kernel["name"].startswith("attention")]
    assert len(kernels) == 9
    for kernel in kernels:
        most = next(most for name, most in MOST.items() if kernel["name"].startswith(name))
        loop = kernel["loops"][0]
        assert loop["instructions"] <= most * loop["products"], kernel
        assert kernel["blocks"] >= 2, kernel
