# ===- probes.py - Questions to a driver, each yes or no ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What the runtime, or a fake of its libraries, believes of the real ones, asked of
the driver itself. `run` has each asked by a process of its own, which may crash
(child.py). docs/cuda-fakes.md names probes by the names in PROBES.
"""

import array
import ctypes
import dataclasses
import json
import os
import statistics
import subprocess
import threading
import time
from ctypes import byref, c_size_t, c_uint, c_ulonglong

import captures
from answers import No, Toy, replay_twice, replayed_twice
from cublaslt import CublasLt, read_products
from driver import RECORD_EXTERNAL, UNIFIED, Copy2D, Driver, DriverError


def capture_thread(pack):
    """May a capture that one thread began thread-local be forked to another stream by a
    second thread, and be ended by the first?"""
    driver = Driver()
    toy, other, problems = Toy(driver, pack), driver.new_stream(), []
    fork, join = driver.new_event(), driver.new_event()

    def work():
        try:
            driver.enter()
            driver.call("cuEventRecord", fork, driver.stream)
            driver.call("cuStreamWaitEvent", other, fork, c_uint(0))
            toy.add(2, other)
            driver.call("cuEventRecord", join, other)
            driver.call("cuStreamWaitEvent", driver.stream, join, c_uint(0))
        except DriverError as error:
            problems.append(error)

    def put():
        toy.add(1)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if problems:
            raise No(str(problems[0]))
        toy.add(3)

    replay_twice(driver, put)
    toy.expect(12)
    return "forked by another thread, ended by the first", {}


def external_events(pack):
    """Has an event, recorded as a node of a graph, the time of the last replay?"""
    driver = Driver()
    toy, begin, end = Toy(driver, pack), driver.new_event(), driver.new_event()

    def put():
        driver.call("cuEventRecordWithFlags", begin, driver.stream, c_uint(RECORD_EXTERNAL))
        toy.add(1)
        driver.call("cuEventRecordWithFlags", end, driver.stream, c_uint(RECORD_EXTERNAL))

    seconds = [driver.seconds_between(begin, end) for _ in replayed_twice(driver, put)]
    if min(seconds) < 0:
        raise No(f"the times are {seconds} s")
    return f"{1e6 * seconds[0]:.1f} and {1e6 * seconds[1]:.1f} us", {"seconds": seconds}


def memset_in_graph(pack):
    """Does a memset of the GPU's memory, recorded, come in its order each time?"""
    driver = Driver()
    toy = Toy(driver, pack)

    def put():
        driver.call("cuMemsetD32Async", toy.address, c_uint(0x40400000), c_size_t(toy.COUNT), driver.stream)
        toy.add(1)

    replay_twice(driver, put)
    toy.expect(4)
    return "3 was written before 1 was added, twice", {}


def host_word(write):
    """Whether a word of pinned memory that a graph writes is seen after each replay."""
    driver = Driver()
    word = driver.host(4096)
    ctypes.memset(word, 0, 4096)
    for _ in replayed_twice(driver, lambda: write(driver, c_ulonglong(word.value))):
        found = c_uint.from_address(word.value).value
        if found != 7:
            raise No(f"the word is {found}, expected 7")
        ctypes.memset(word, 0, 4)
    return "the host read it after each of two replays", {}


def memset_host_in_graph(_):
    """May a graph memset pinned memory of the host?"""

    def write(driver, address):
        driver.call("cuMemsetD32Async", address, c_uint(7), c_size_t(1), driver.stream)

    return host_word(write)


def write_value_in_graph(_):
    """May a graph write a word of pinned memory by cuStreamWriteValue32?"""

    def write(driver, address):
        driver.call("cuStreamWriteValue32_v2", driver.stream, address, c_uint(7), c_uint(0))

    return host_word(write)


def rows_copy(width, height, source, target):
    """A driver's copy of rows; source and target are an address and a pitch each."""
    copy = Copy2D(width=width, height=height)
    for side, (address, pitch) in (("from", source), ("to", target)):
        setattr(copy, f"{side}_memory", UNIFIED)
        setattr(copy, f"{side}_device", address.value)
        setattr(copy, f"{side}_pitch", pitch)
    return copy


def narrow_rows_copy(_):
    """At which share of a stretch's rate does the driver copy a panel, half of each row of
    an activation?"""
    driver = Driver()
    width, height = 768, 65536
    size, pitch = width * height, 2 * width
    source, target = driver.allocate(pitch * height), driver.allocate(size)
    panel = rows_copy(width, height, (source, pitch), (target, width))
    whole = ("cuMemcpyAsync", target, source, c_size_t(size), driver.stream)
    rows = statistics.median(driver.time(lambda: driver.call("cuMemcpy2DAsync_v2", byref(panel), driver.stream), 5))
    stretch = statistics.median(driver.time(lambda: driver.call(*whole), 5))
    share = stretch / max(rows, 1e-9)
    return f"{share:.0%} of it", {"rows_seconds": rows, "stretch_seconds": stretch, "bytes": size}


def odd_pitch_copy(_):
    """Are rows of odd distances and an odd width copied, byte by byte, and how fast?"""
    driver = Driver()
    width, height, pitches = 13, 300, (37, 41)
    data = bytes(number * 7 % 251 for number in range(pitches[0] * height))
    source, target = driver.upload(data), driver.upload(bytes(pitches[1] * height))
    copy = rows_copy(width, height, (source, pitches[0]), (target, pitches[1]))
    seconds = driver.time(lambda: driver.call("cuMemcpy2DAsync_v2", byref(copy), driver.stream), 5)
    found = driver.download(target, pitches[1] * height)
    for row in range(height):
        copied, rest = found[row * pitches[1] :][:width], found[row * pitches[1] + width :][: pitches[1] - width]
        if copied != data[row * pitches[0] :][:width] or any(rest):
            raise No(f"row {row} has other bytes")
    middle = statistics.median(seconds)
    return f"{height} rows of {width} bytes in {1e6 * middle:.1f} us", {"seconds": middle}


def parameters_4088(pack):
    """May a kernel have 4,088 bytes of parameters, as a grouped launch has?"""
    driver = Driver()
    toy = Toy(driver, pack)
    words = [c_ulonglong(number) for number in range(511)]
    words[510] = c_ulonglong(toy.address.value)
    # One after the other: the real kernel takes them as one parameter, and so by the first address.
    block = (c_ulonglong * 511)(*(word.value for word in words))
    parameters = [c_ulonglong.from_buffer(block, 8 * number) for number in range(511)]
    driver.launch(toy.large, 1, parameters)
    (found,) = array.array("Q", driver.download(toy.address, 8))
    if found != 509:
        raise No(f"the kernel added up {found}, expected 509")
    return "the last of them arrived", {}


def ask_heuristic(pack, choose):
    """How many algorithms cuBLASLt names for each product of a step, as `choose` changes
    it, or leaves it out by None. No where it names none."""
    # It runs in a context of the driver's.
    Driver()
    library = CublasLt(os.environ.get("OPTIMUS_CUBLASLT_LIBRARY") or "libcublasLt.so.13")
    version, rows = library.version(), []
    for model in step_libraries(pack):
        for product in filter(None, map(choose, read_products(commands_of(pack, model)))):
            began = time.perf_counter()
            found = library.algorithms(library.describe(product))
            took = time.perf_counter() - began
            workspace = found[0].workspace if found else None
            rows.append(
                {
                    "model": model["name"],
                    "product": product.name,
                    "algorithms": len(found),
                    "workspace, bytes": workspace,
                    "waves": found[0].waves if found else None,
                    "ms to ask": 1e3 * took,
                }
            )
    without = [row["product"] for row in rows if not row["algorithms"]]
    if without:
        raise No(f"cuBLASLt {version} names none for {', '.join(without)}")
    return f"cuBLASLt {version}: for all {len(rows)} products", {"rows": rows, "version": version}


def heuristic(pack):
    """Does cuBLASLt name an algorithm for every product of a step, in 32 MiB, with sums
    added in f32?"""
    # Without the gradient of a bias, for which a kernel of ours may stand.
    return ask_heuristic(
        pack, lambda product: dataclasses.replace(product, bias=product.bias and not product.bias_grad, bias_grad=False)
    )


def bias_gradient(pack):
    """Does it name one with the gradient of a bias, for every such product?"""
    return ask_heuristic(pack, lambda product: product if product.bias_grad else None)


def step_libraries(pack):
    """The model libraries whose steps are timed first."""
    libraries = json.loads((pack / "pack.json").read_text(encoding="utf-8"))["libraries"]
    timed = [each for each in libraries if each["timed"]]
    first = timed[0]["timed"].split()[0]
    return [each for each in timed if each["timed"].split()[0] == first]


def commands_of(pack, model):
    command = [pack / "bin/optimus-run", "inspect", f"models/{model['name']}.so", "--commands"]
    command += ["--function", "train_step"]
    done = subprocess.run(command, cwd=pack, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise DriverError(done.stderr)
    return done.stdout


def cudnn_plans(pack):
    """Has cuDNN a plan for every attention of a step, within the workspace that programs
    reserve?"""
    rows = []
    for model in step_libraries(pack):
        sizes = model["sizes"]
        command = [pack / "bin/optimus-bench-cudnn-plans", *(str(sizes[name]) for name in ("batch", "seq", "heads"))]
        command.append(str(sizes["hidden"] // sizes["heads"]))
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise No((done.stderr or f"exit code {done.returncode}").strip())
        rows += [{"batch": sizes["batch"], **row} for row in json.loads(done.stdout)]
    most = max(row["bytes"] for row in rows)
    return f"{len(rows)} plans, at most {most:,} bytes of workspace", {"rows": rows}


def graph_500(pack):
    """Can a graph of 500 nodes be made and replayed; what does it take?"""
    driver = Driver()
    toy = Toy(driver, pack)
    toy.add(0)
    driver.synchronize()
    free = driver.memory()[0]
    began = time.perf_counter()
    driver.call("cuStreamBeginCapture_v2", driver.stream, c_uint(1))
    for _ in range(500):
        toy.add(1)
    graph = driver.end_capture()
    captured = time.perf_counter()
    executable = driver.instantiate(graph)
    instantiated = time.perf_counter()
    driver.replay(executable)
    driver.synchronize()
    first = time.perf_counter()
    taken = free - driver.memory()[0]
    replays = driver.time(lambda: driver.replay(executable), 3)
    toy.expect(500 * 5)
    figures = {
        "capture_ms": 1e3 * (captured - began),
        "instantiate_ms": 1e3 * (instantiated - captured),
        "first_replay_ms": 1e3 * (first - instantiated),
        "replay_ms": 1e3 * statistics.median(replays),
        "bytes": taken,
    }
    said = (
        f"{figures['instantiate_ms']:.2f} ms to instantiate, {figures['replay_ms']:.3f} ms a replay, {taken:,} bytes"
    )
    return said, figures


PROBES = {
    "capture-thread": capture_thread,
    **captures.PROBES,
    "external-events": external_events,
    "memset-in-graph": memset_in_graph,
    "memset-host-in-graph": memset_host_in_graph,
    "write-value-in-graph": write_value_in_graph,
    "odd-pitch-copy": odd_pitch_copy,
    "narrow-rows-copy": narrow_rows_copy,
    "parameters-4088": parameters_4088,
    "heuristic": heuristic,
    "bias-gradient": bias_gradient,
    "cudnn-plans": cudnn_plans,
    "graph-500": graph_500,
}
