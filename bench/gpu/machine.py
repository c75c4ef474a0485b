# ===- machine.py - A GPU without our runtime --------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Properties, ceilings and free memory of a GPU, each asked by a process of its own
(`child.py`), so that no context stays behind in the script's."""

import json
import os
import statistics
import subprocess
import time

from cublaslt import WORKSPACE_BYTES, CublasLt, Product
from driver import Driver


def is_fake(pack):
    return json.loads((pack / "pack.json").read_text(encoding="utf-8"))["fake"]


def properties(_):
    found = Driver().properties()
    return found["name"], found


def memory(_):
    free, total = Driver().memory()
    return f"{free:,} of {total:,} bytes are free", {"free": free, "total": total}


def toy(pack):
    """Kernels of a few lines, before any of ours."""
    driver, ran = Driver(), []
    for image in sorted((pack / "toy").iterdir()):
        # PTX is text that ends with a zero.
        if not driver.run_toy(image.read_bytes() + b"\0"):
            raise ValueError(f"{image.name} computed something else")
        ran.append(image.name)
    return " and ".join(ran), {}


def copy(pack):
    """The rate of copies within the GPU's memory."""
    driver = Driver()
    size = 1 << 16 if is_fake(pack) else 1 << 30
    seconds = statistics.median(driver.copy_seconds(size, 9))
    # Read once and written once. A fake clock may not move at all.
    rate = 2 * size / seconds if seconds else None
    said = f"{rate / 1e9:.0f} GB/s read and written" if rate else "no time went by"
    return said, {"bytes": size, "seconds": seconds, "bytes_per_s": rate}


def gemm(pack):
    """The rate of one large product of bf16, by the best of cuBLASLt's algorithms, and the
    clock meanwhile."""
    driver = Driver()
    library = CublasLt(os.environ.get("OPTIMUS_CUBLASLT_LIBRARY") or "libcublasLt.so.13")
    size = 64 if is_fake(pack) else 8192
    product = Product(size, size, size, size, size, size)
    # Numbers in place of zeros, which need less power: 0x3f is the half of a bf16 near 1.
    operands = [driver.upload(bytes(b"\x3f" * (2 * size * size))).value for _ in range(3)]
    workspace = driver.allocate(WORKSPACE_BYTES).value
    described, best = library.describe(product), None
    for algorithm in library.algorithms(described):

        def put(algorithm=algorithm):
            library.run(described, algorithm, operands, workspace, driver.stream)

        seconds = statistics.median(driver.time(put, 5))
        if best is None or seconds < best[0]:
            best = seconds, put
    if not best:
        raise ValueError("cuBLASLt knows no algorithm")
    seconds, put = best
    for _ in range(1 if is_fake(pack) else 2000):
        put()
    clock = read_clock()
    driver.synchronize()
    rate = 2 * size**3 / seconds if seconds else None
    said = f"{rate / 1e12:.0f} TFLOP/s" if rate else "no time went by"
    figures = {"size": size, "seconds": seconds, "flops_per_s": rate, "clock_hz": clock}
    return said + (f" at {clock / 1e6:.0f} MHz" if clock else ""), figures


def read_clock():
    """That of SMs now, if there is an nvidia-smi."""
    command = ["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
        return 1e6 * float(done.stdout.splitlines()[0])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def watch(_):
    """Prints the free bytes again and again, until it is ended."""
    driver = Driver()
    while True:
        print(driver.memory()[0], flush=True)
        time.sleep(0.01)


MACHINE = {
    "properties": properties,
    "memory": memory,
    "toy": toy,
    "copy": copy,
    "gemm": gemm,
    "watch": watch,
}
