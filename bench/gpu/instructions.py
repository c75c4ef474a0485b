#!/usr/bin/env python3
# ===- instructions.py - What tensor cores' loops issue ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The instructions that kernels issue beside a product of tensor cores.

Reads cubins, as `optimus-compile --cubins-to DIR` writes them, through NVIDIA's
nvdisasm: of $NVDISASM, PATH, $CUDA_HOME or /usr/local/cuda, or of the wheel
`nvidia-cuda-nvdisasm`.  A kernel's inner loops are those with a product (HMMA)
and without a loop that has one; all their instructions count, predicated ones
and branches that are not taken, too.  The first column is of the loop with the
fewest for each product, which most turns go through; the second of the others,
as those of diagonals.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

# Shared memory of an SM and what each block of it costs beside its own.
SHARED_BYTES = {80: (164 << 10, 1 << 10), 90: (228 << 10, 1 << 10), 100: (228 << 10, 1 << 10)}
REGISTERS, THREADS, BLOCKS = 65536, 2048, 32


@dataclasses.dataclass
class Loop:
    """An inner loop."""

    products: int
    instructions: int

    @property
    def ratio(self):
        return self.instructions / self.products


@dataclasses.dataclass
class Kernel:
    """What is read of one kernel."""

    name: str
    loops: list
    registers: int = 0
    threads: int = 0
    shared: int = 0
    blocks: int = 0


def find_nvdisasm():
    """The path of nvdisasm, or None."""
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    candidates = [os.environ.get("NVDISASM"), shutil.which("nvdisasm")]
    candidates += [f"{home}/bin/nvdisasm" for home in homes if home]
    for folder in sys.path:
        candidates.append(f"{folder}/nvidia/cu13/bin/nvdisasm")
    return next((path for path in candidates if path and os.access(path, os.X_OK)), None)


def read_code(lines):
    """The opcodes of a kernel's lines of code, and its loops: of each the numbers of
    its first and its last instruction."""
    opcodes, labels, branches = [], {}, []
    for line in lines:
        if label := re.match(r"\s*(\.L_\w+):", line):
            labels[label[1]] = len(opcodes)
        elif code := re.match(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\d+\s+)?([A-Z][\w.]*)(.*)", line):
            if code[1].startswith("BRA") and (target := re.search(r"`\((\.L_\w+)\)", code[2])):
                branches.append((len(opcodes), target[1]))
            opcodes.append(code[1])
    spans = sorted(
        {
            (labels[target], at)
            for at, target in branches
            # A kernel ends with a branch to itself.
            if labels.get(target, at) < at
        }
    )
    return opcodes, spans


def find_loops(lines):
    """The inner loops with products of a kernel's lines of code."""
    code, spans = read_code(lines)
    opcodes = [opcode.split(".")[0] for opcode in code]
    loops = [
        (begin, end, Loop(opcodes[begin : end + 1].count("HMMA"), end + 1 - begin))
        for begin, end in spans
    ]
    loops = [loop for loop in loops if loop[2].products]
    inner = [
        loop
        for begin, end, loop in loops
        if not any(
            begin <= other[0] and other[1] <= end and (begin, end) != other[:2] for other in loops
        )
    ]
    return sorted(inner, key=lambda loop: loop.ratio)


def get_blocks(kernel, architecture):
    """How many blocks of the kernel an SM holds."""
    registers = -(-kernel.registers // 8) * 8 * kernel.threads
    total, reserved = SHARED_BYTES[architecture]
    return min(
        REGISTERS // registers,
        THREADS // kernel.threads,
        BLOCKS,
        total // (kernel.shared + reserved),
    )


def read_words(text, attribute):
    """The words that follow an attribute of .nv.info, for each time it is there."""
    for part in text.split(f"EIATTR_{attribute}\n")[1:]:
        part = part.split("//-----")[0]
        yield re.findall(r"\.word\s+(\S+)", part)


def split_sections(text):
    """The sections of what nvdisasm prints of a cubin, by name."""
    return dict(re.findall(r"\n\t\.section\t([^,\n]+),([^\x00]*?)(?=\n\t\.section\t|\Z)", text))


def read_listing(text, architecture):
    """The kernels with products in what nvdisasm prints of a cubin."""
    sections = split_sections(text)
    registers = {
        re.search(r"@\((.*)\)", words[0])[1]: int(words[1], 0)
        for words in read_words(sections.get(".nv.info", ""), "REGCOUNT")
    }
    kernels = []
    for section, body in sections.items():
        if not section.startswith(".text."):
            continue
        name = section.removeprefix(".text.")
        loops = find_loops(body.splitlines())
        if not loops:
            continue
        kernel = Kernel(name, loops, registers[name])
        words = next(read_words(sections[f".nv.info.{name}"], "REQNTID"))
        kernel.threads = int(words[0], 0)
        shared = re.search(r"\.zero\s+(\d+)", sections.get(f".nv.shared.{name}", ""))
        # Since sm_90, what the system takes of a block counts as its own.
        taken = 0 if architecture < 90 else SHARED_BYTES[architecture][1]
        kernel.shared = int(shared[1]) - taken if shared else 0
        kernel.blocks = get_blocks(kernel, architecture)
        kernels.append(kernel)
    return sorted(kernels, key=lambda kernel: kernel.name)


def disassemble(path, nvdisasm):
    return subprocess.run([nvdisasm, path], check=True, capture_output=True, text=True).stdout


def read_cubin(path, nvdisasm):
    """The architecture of a cubin, and its kernels with products."""
    text = disassemble(path, nvdisasm)
    architecture = int(re.search(r"sm_?(\d+)", text.split("\n\t.section", 1)[0] + path.name)[1])
    return architecture, read_listing(text, architecture)


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cubins", nargs="+", type=pathlib.Path, metavar="CUBIN")
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    options = parser.parse_args(arguments)
    nvdisasm = find_nvdisasm()
    if not nvdisasm:
        print(
            "error: expected NVIDIA's nvdisasm in $NVDISASM, PATH, $CUDA_HOME/bin or "
            "/usr/local/cuda/bin, found none; install it with CUDA's toolkit, or with "
            "`pip install nvidia-cuda-nvdisasm`",
            file=sys.stderr,
        )
        return 1
    for path in options.cubins:
        if not path.is_file():
            print(
                f"error: expected a cubin, found no file '{path}'; write one with "
                "`optimus-compile --target cuda --gpu-arch sm_90 --cubins-to DIR`",
                file=sys.stderr,
            )
            return 1
    read = {path: read_cubin(path, nvdisasm) for path in options.cubins}
    if options.json:
        rows = [
            {"architecture": architecture, **dataclasses.asdict(kernel)}
            for architecture, kernels in read.values()
            for kernel in kernels
        ]
        print(json.dumps(rows, indent=1))
        return 0
    print("instructions of inner loops for each HMMA, itself counted")
    print(f"{'':8}{'fewest':>7} {'others':>13} {'HMMA':>5} {'registers':>9} {'shared':>7} {'blocks':>6}")
    for architecture, kernels in read.values():
        for kernel in kernels:
            first, *others = kernel.loops
            rest = " ".join(f"{loop.ratio:.1f}" for loop in others)
            print(
                f"sm_{architecture:<5}{first.ratio:7.2f} {rest:>13} {first.products:5} "
                f"{kernel.registers:9} {kernel.shared:7} {kernel.blocks:6}  {kernel.name}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
