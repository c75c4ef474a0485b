# ===- alone.py - Every kernel of a model library, launched alone ------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Launches each kernel of a library once, on numbers drawn by its name, and compares
its results with those of its emulation by `pack`. Tests hold emulated kernels to their
formulas in f64 (unittests/Kernels)."""

import array
import ctypes
import json
import math
import random
import re
import subprocess
from ctypes import POINTER, c_char_p, c_longlong, c_uint32, c_uint64, c_ulonglong, c_void_p

from driver import Driver

ABI_VERSION = 8
OPERAND = re.compile(r" (read|write|update) \w+\[\d+\]:(?:(\d+)x\d+/)?(\d+)([a-z]+\d+)(?= )")
BYTES = {"f64": 8, "f32": 4, "i32": 4, "bf16": 2}
CODES = {"f64": "d", "f32": "f", "i32": "i"}
# What is compared of an operand: elements evenly apart.
SAMPLES = 256
# Half of the significand's bits, of the operand's largest number: a kernel that is wrong
# is farther away, and roundings are nearer. `verify` has derived bounds for a whole step.
# Those of f64 are sums of f32.
ALLOWED = {"f64": 2.0**-12, "f32": 2.0**-12, "bf16": 2.0**-4}


class Kernel(ctypes.Structure):
    """optimus_kernel of model_abi.h."""

    _fields_ = [
        ("name", c_char_p),
        ("run", c_void_p),
        ("signature", c_uint64),
        ("device_name", c_char_p),
        ("block_threads", c_uint32),
        ("block_iterations", c_uint32),
    ]


class Image(ctypes.Structure):
    _fields_ = [("architecture", c_char_p), ("data", c_void_p), ("size", c_uint64)]


class Model(ctypes.Structure):
    _fields_ = [
        ("version", c_uint32),
        ("manifest", c_void_p),
        ("manifest_size", c_uint64),
        ("programs", c_void_p),
        ("programs_size", c_uint64),
        ("num_kernels", c_uint32),
        ("kernels", POINTER(Kernel)),
        ("num_images", c_uint32),
        ("images", POINTER(Image)),
    ]


def read_launches(text):
    """The first launch of each kernel in what `optimus-run inspect --commands` prints: its
    extent, operands as access, elements and type, and scalars."""
    found = {}
    for line in text.splitlines():
        launch = re.match(r"\d+ \w+: (\w+) extent=(\d+) ", line)
        if launch and launch[1] not in found:
            operands = [
                (access, int(rows or 1) * int(count), kind)
                for access, rows, count, kind in OPERAND.findall(line)
            ]
            scalars = [int(each) for each in re.findall(r" scalar=(\d+)", line)]
            found[launch[1]] = (int(launch[2]), operands, scalars)
    return found


def draw(name, number, elements, kind):
    """The bytes of an operand: small integers, for tokens and positions of any model, and
    positive floats, for sums without cancellation."""
    drawn = random.Random(f"{name} {number}")
    if kind == "i32":
        return array.array("i", (drawn.randrange(8) for _ in range(elements))).tobytes()
    values = (drawn.uniform(0.25, 1) for _ in range(elements))
    return narrow(array.array("f", values)) if kind == "bf16" else array.array(CODES[kind], values).tobytes()


def narrow(values):
    """bf16 of f32, by cutting off."""
    words = array.array("H", values.tobytes())
    return words[1::2].tobytes()


def widen(data, kind):
    if kind != "bf16":
        return array.array(CODES[kind], data)
    words = array.array("H", bytes(2 * len(data)))
    words[1::2] = array.array("H", data)
    return array.array("f", words.tobytes())


def choose_image(model, driver):
    """That of the GPU's architecture, or an emulated one."""
    images = {
        model.images[at].architecture.decode(): model.images[at] for at in range(model.num_images)
    }
    major, minor = driver.attribute(75), driver.attribute(76)
    names = ["emulated", *(f"sm_{major}{each}" for each in range(minor, -1, -1)), "ptx"]
    return next(images[name] for name in names if name in images)


def run_all(pack, file):
    """By kernel and operand, the largest number and samples of what it writes."""
    driver = Driver()
    command = [pack / "bin/optimus-run", "inspect", file, "--commands"]
    text = subprocess.run(command, cwd=pack, check=True, capture_output=True, text=True).stdout
    library = ctypes.CDLL(str(pack / file))
    library.optimus_model_query.restype = POINTER(Model)
    model = library.optimus_model_query(c_uint32(ABI_VERSION)).contents
    image = choose_image(model, driver)
    module = driver.load(ctypes.string_at(image.data, image.size) + b"\0")
    kernels = {kernel.name.decode(): kernel for kernel in model.kernels[: model.num_kernels]}
    results = {}
    for name, (extent, operands, scalars) in read_launches(text).items():
        kernel = kernels[name]
        function = driver.function(module, kernel.device_name.decode())
        buffers = [
            driver.upload(draw(name, number, elements, kind))
            for number, (_, elements, kind) in enumerate(operands)
        ]
        parameters = [c_longlong(extent), *(c_ulonglong(buffer.value) for buffer in buffers)]
        parameters += [c_longlong(scalar) for scalar in scalars]
        blocks = (extent - 1) // kernel.block_iterations + 1
        driver.launch(function, blocks, parameters, threads=kernel.block_threads)
        results[name] = {}
        for number, (access, elements, kind) in enumerate(operands):
            if access != "read":
                values = widen(driver.download(buffers[number], elements * BYTES[kind]), kind)
                step = max(1, elements // SAMPLES)
                largest = max(map(abs, values))
                results[name][str(number)] = {"kind": kind, "largest": largest, "samples": list(values[::step])}
        for buffer in buffers:
            driver.free(buffer)
    return results


def distance(found, expected):
    """How far an operand is from its emulation, as a part of its largest number."""
    worst = 0.0
    for one, other in zip(found["samples"], expected["samples"]):
        if one != other and not (math.isnan(one) and math.isnan(other)):
            apart = abs(one - other) / (expected["largest"] or 1)
            # What is infinite or no number on one side alone is infinitely far.
            worst = max(worst, apart if math.isfinite(apart) else math.inf)
    return worst


def alone(pack, library):
    """Does each kernel write what its emulation writes?"""
    expected = json.loads((pack / "alone" / f"{library}.json").read_text(encoding="utf-8"))
    found = run_all(pack, f"models/{library}.so")
    rows = []
    for name, operands in found.items():
        for number, operand in operands.items():
            apart = distance(operand, expected[name][number])
            rows.append({"kernel": name, "operand": int(number), "apart": apart, "allowed": ALLOWED.get(operand["kind"], 0)})
    rows.sort(key=lambda row: row["apart"] - row["allowed"], reverse=True)
    wrong = [row for row in rows if not row["apart"] <= row["allowed"]]
    if wrong:
        names = ", ".join(f"{row['kernel']}, operand {row['operand']} ({row['apart']:.1e})" for row in wrong)
        raise ValueError(f"{len(wrong)} results are not their emulation's: {names}")
    return f"{len(found)} kernels, {len(rows)} results", {"rows": rows}
