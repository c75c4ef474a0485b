# ===- checks.py - What is found out about a GPU ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The checks of `bench/gpu/run`, by jobs of less than ten minutes each. A check
returns what is to be recorded: `summary`, one line; `figures`; and `rows` of a
table with its `title`."""

import dataclasses
import json
import math
import sqlite3
import statistics
import sys
import threading
from typing import Callable

from driver import Driver
from plan import LARGEST, LARGEST_UNIT, operations_a_token
from session import Failed, Skipped

LEARNING_RATE = "3e-3"


@dataclasses.dataclass(frozen=True)
class Check:
    job: int
    name: str
    seconds: int
    """How long it may take."""
    run: Callable


# ---- The machine -----------------------------------------------------------


def properties(session):
    found = Driver().properties()
    session.write("properties.json", json.dumps(found, indent=1) + "\n")
    rows = [{"property": name, "value": value} for name, value in found.items()]
    return dict(summary=found["name"], title="The GPU", rows=rows, figures=found)


def toy(session):
    """Kernels of a few lines, before any of ours."""
    driver, ran = Driver(), []
    for image in session.toys():
        # PTX is text that ends with a zero.
        if not driver.run_toy(image.read_bytes() + b"\0"):
            raise Failed(f"{image.name} computed something else")
        ran.append(image.name)
    return dict(summary=" and ".join(ran))


def copies(session):
    driver = Driver()
    size = 1 << 16 if session.fake else 1 << 30
    seconds = statistics.median(driver.copy_seconds(size, 9))
    # Read once and written once. A fake clock may not move at all.
    rate = 2 * size / seconds if seconds else None
    return dict(
        summary=f"{rate / 1e9:.0f} GB/s read and written" if rate else "no time went by",
        figures={"bytes": size, "seconds": seconds, "bytes_per_s": rate},
    )


# ---- Right or wrong --------------------------------------------------------


def gradients(library, *flags):
    def run(session):
        reference = session.library(library.reference)
        command = ["verify", reference.file, library.file, "--data", session.data(library), "--json"]
        command += flags
        report = json.loads(session.optimus_run(*command))
        worst = max(report["tensors"], key=lambda tensor: tensor["of_bound"])
        return dict(
            summary=f"{len(report['tensors'])} tensors, at most {worst['of_bound']:.3f} of a bound: {worst['name']}",
            figures=report,
        )

    return run


def training_log(session, library, *flags):
    log = session.scratch(f"{library.name}.log")
    command = ["train", library.file, "--data", session.data(library), "--steps", session.steps]
    command += ["--lr", LEARNING_RATE, "--seed", 1, "--log-json", log, *flags]
    session.optimus_run(*command)
    return [json.loads(line) for line in log.read_text().splitlines()]


def training(library):
    """Recorded steps and steps without recording, beside the processor's."""

    def run(session):
        expected = training_log(session, session.library(library.reference))
        eager = training_log(session, library, "--eager")
        recorded = training_log(session, library)
        for one, other in zip(eager, recorded):
            if one["loss"] != other["loss"] or one["grad_norm"] != other["grad_norm"]:
                raise Failed(f"step {one['step']}: {one['loss']} put on queues, {other['loss']} recorded")
        # Those of f32 as meshes on processors agree (test_meshes.py); one of bf16 by
        # its rounding of every value, 2^-8 (docs/equivalence.md).
        allowed = 1e-4 if library.precision == "f32" else 2**-8
        apart = max(
            abs(one["loss"] - other["loss"]) / abs(other["loss"])
            for one, other in zip(recorded, expected)
        )
        if not apart <= allowed:
            raise Failed(f"a loss is {apart:.1e} away from the processor's, expected {allowed:.1e} at most")
        return dict(
            summary=f"{len(recorded)} steps, losses at most {apart:.1e} apart",
            figures={"expected": expected, "found": recorded},
        )

    return run


# ---- Speed -----------------------------------------------------------------


def steps(library):
    def run(session):
        count, warmup = (2, 2) if session.fake else (20, 5)
        command = ["bench", library.file, "--steps", count, "--warmup", warmup, "--json"]
        try:
            figures = json.loads(session.optimus_run(*command))
        except Failed as failure:
            if "cannot allocate" in str(failure):
                raise Skipped(f"does not fit: {failure}") from failure
            raise
        rate, batch = figures["tokens_per_s"], library.sizes["batch"]
        milliseconds = figures["ms"]["median"]
        return dict(
            summary=f"{milliseconds:.1f} ms, {rate:,.0f} tokens/s",
            figures={
                "model": library.timed,
                "batch": batch,
                "ms": milliseconds,
                "tokens_per_s": rate,
                "tflops": rate * operations_a_token(library.sizes) / 1e12,
                "bench": figures,
            },
        )

    return run


def tuned(library):
    """Steps whose products go by the fastest algorithm, beside the heuristic's."""

    def run(session):
        count, warmup = (2, 2) if session.fake else (20, 5)
        command = ["bench", library.file, "--steps", count, "--warmup", warmup, "--json"]
        file = session.results / "tuned.json"
        heuristic, best = (
            json.loads(session.optimus_run(*command, *flags))["ms"]["median"]
            for flags in ([], ["--tune", file])
        )
        products = json.loads(file.read_text())["products"]
        return dict(
            summary=f"{best:.1f} ms, {heuristic:.1f} by the heuristic; {len(products)} products",
            figures={"ms": best, "heuristic_ms": heuristic, "products": products},
        )

    return run


def torch(session, sizes, *flags):
    """What torch_cuda_gpt2.py says."""
    if session.fake:
        raise Skipped("the fake driver runs no PyTorch")
    command = [sys.executable, "torch_cuda_gpt2.py", *flags]
    for name, value in sizes.items():
        command += [f"--{name}", value]
    found = json.loads(session.call(*command).splitlines()[-1])
    if "skipped" in found:
        raise Skipped(found["skipped"])
    return found


def torch_steps(library):
    def run(session):
        found = torch(session, library.sizes)
        best = found["best"]
        return dict(
            summary=f"{best['ms']:.1f} ms, {best['tokens_per_s']:,.0f} tokens/s with {best['attention']}",
            figures={"model": library.timed, **best, "all": found},
        )

    return run


def machine_rates(what):
    """What `optimus-run bench --gemm` and `--comm` say of the GPU."""

    def run(session):
        profile = session.results / "machine-profile.json"
        command = ["bench", what, "--device", "cuda", "--profile", profile]
        if what == "--comm":
            command += ["--ranks", 4, "--max-bytes", 1 << (12 if session.fake else 24)]
        elif session.fake:
            command += ["--largest", 64, "--rounds", 1]
        try:
            output = session.optimus_run(*command)
        except Failed as failure:
            if "expected --device cpu" in str(failure):
                raise Skipped(str(failure)) from failure
            raise
        session.write(f"bench{what}.txt", output)
        return dict(summary=f"in bench{what}.txt", figures={"output": output})

    return run


def nccl(session):
    """Its collectives and their results with one rank, all that one GPU has."""
    command = ["bench", "--comm", "--device", "cuda", "--backend", "nccl", "--ranks", 1]
    try:
        output = session.optimus_run(*command, "--max-bytes", 1 << (12 if session.fake else 24))
    except Failed as failure:
        if "cannot open NCCL" in str(failure):
            raise Skipped(str(failure)) from failure
        raise
    session.write("bench--comm-nccl.txt", output)
    return dict(summary="in bench--comm-nccl.txt", figures={"output": output})


COMMANDS = """
SELECT coalesce(commands.name, commands.kind) AS name, count(*) AS calls,
       sum(times.end - times.begin) AS ns, sum(commands.flops) AS flops,
       sum((SELECT sum(accesses.bytes) FROM accesses
            WHERE accesses.function = commands.function AND accesses.command = commands.command)) AS bytes
FROM times JOIN calls USING (call)
     JOIN commands ON commands.function = calls.function AND commands.command = times.command
WHERE calls.step > (SELECT min(step) FROM calls) AND commands.kind != 'wait'
GROUP BY 1 ORDER BY ns DESC
"""


def kernels(library):
    """What each kernel takes, and how fast it goes through memory, when commands
    run one by one; and how much of a recorded step no command takes."""

    def run(session):
        profile, taken = session.scratch("kernels.profile"), session.steps - 1
        flags = ["--data", session.data(library), "--steps", session.steps, "--profile", profile]
        session.optimus_run("train", library.file, *flags)
        with sqlite3.connect(profile) as database:
            found = database.execute(COMMANDS).fetchall()
        rows = [
            {
                "command": name,
                "calls a step": calls / taken,
                "ms a step": ns / taken / 1e6,
                "GB/s": touched / ns if touched and ns else None,
                "TFLOP/s": flops / ns / 1e3 if flops and ns else None,
            }
            for name, calls, ns, flops, touched in found
        ]
        commands = sum(row["ms a step"] for row in rows)
        log = training_log(session, library)
        recorded = statistics.median(line["ms"] for line in log[2:])
        return dict(
            title=f"Commands of {library.name}, one by one",
            summary=f"commands {commands:.2f} ms, a recorded step {recorded:.2f} ms, {recorded - commands:.2f} ms between",
            rows=rows,
            figures={"commands_ms": commands, "recorded_ms": recorded, "between_ms": recorded - commands},
        )

    return run


def memory(library):
    """The planned bytes, the bytes reported by the run, and the GPU's loss meanwhile:
    its context and code, too."""

    def run(session):
        driver = Driver()
        before, least, over = driver.memory()[0], [math.inf], threading.Event()

        def watch():
            # The context is one of this process, whatever the thread.
            driver.call("cuCtxSetCurrent", driver.context)
            while not over.wait(0.01):
                least[0] = min(least[0], driver.memory()[0])

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            figures = json.loads(session.optimus_run("bench", library.file, "--steps", 3, "--json"))
        finally:
            over.set()
            watching.join()
        planned = figures["memory"]
        held = None if session.fake else before - least[0]
        row = {"model": library.name, **{f"{name}, bytes": value for name, value in planned.items()}}
        row["gone from the GPU, bytes"] = held
        return dict(
            title=f"Memory of {library.name}",
            rows=[row],
            summary=f"planned {planned['total']:,} bytes, gone from the GPU {number_or_none(held)}",
            figures=row,
        )

    return run


def largest(fitting, beyond):
    """The largest batch that is predicted to fit, and whether the next one does."""

    def train(session, library):
        command = ["bench", library.file, "--steps", 3, "--json"]
        return json.loads(session.optimus_run(*command, gpu_bytes=fitting.gpu_bytes))

    def run(session):
        there = Driver().memory()[1]
        if there < fitting.gpu_bytes:
            raise Skipped(f"it is of a GPU with {fitting.gpu_bytes:,} bytes, this one has {there:,}")
        figures = train(session, fitting)
        try:
            train(session, beyond)
            is_last = False
        except Failed as failure:
            if "cannot allocate" not in str(failure):
                raise
            is_last = True
        # What a driver takes of a GPU is an estimate; of a fake one it is nothing.
        if session.fake and not is_last:
            raise Failed(f"a batch of {beyond.sizes['batch']} trains, too")
        rate = figures["tokens_per_s"]
        return dict(
            summary=f"batch {fitting.sizes['batch']} trains, {rate:,.0f} tokens/s; "
            f"{beyond.sizes['batch']} {'does not' if is_last else 'does, too'}",
            figures={"batch": fitting.sizes["batch"], "is_last": is_last, "bench": figures},
        )

    return run


def torch_largest(library, unit):
    """PyTorch's largest batch, by trying."""

    def run(session):
        found = torch(session, {**library.sizes, "batch": unit}, "--largest")["largest"]
        peak = number_or_none(found["peak_bytes"])
        return dict(summary=f"batch {found['batch']}, at most {peak}", figures=found)

    return run


def number_or_none(value):
    return "nothing that a fake one shows" if value is None else f"{value:,} bytes"


def sanitizer(library, tool):
    def run(session):
        program = session.program("compute-sanitizer")
        flags = ["--tool", tool, "--error-exitcode", 9]
        command = ["train", library.file, "--data", session.data(library), "--steps", 2]
        output = session.optimus_run(*command, under=[program, *flags])
        return dict(summary=output.strip().splitlines()[-1])

    return run


def all_checks(libraries):
    checks = [
        Check(1, "properties", 30, properties),
        Check(1, "toy", 30, toy),
        Check(1, "copies", 30, copies),
    ]
    checked = [library for library in libraries if library.reference]
    for library in checked:
        checks.append(Check(1, f"gradients/{library.name}", 60, gradients(library)))
        checks.append(Check(1, f"training/{library.name}", 60, training(library)))
    timed = [library for library in libraries if library.timed]
    for library in timed:
        job = 1 if library.timed.startswith(timed[0].timed) else 3
        limit = 60 if job == 1 else 120
        checks.append(Check(job, f"steps/{library.name}", limit, steps(library)))
        # PyTorch chooses its attention itself.
        if "cudnn" not in library.flags:
            checks.append(Check(job, f"torch/{library.name}", 3 * limit, torch_steps(library)))
    first = [library for library in timed if library.timed == timed[0].timed]
    checks += [
        Check(2, "machine/gemm", 120, machine_rates("--gemm")),
        Check(2, "machine/comm", 120, machine_rates("--comm")),
    ]
    checks += [
        Check(2, f"tf32/{library.name}", 60, gradients(library, "--tf32"))
        for library in checked
        if library.precision == "f32" and not library.mesh
    ]
    checks += [Check(2, f"tuned/{library.name}", 120, tuned(library)) for library in first[:1]]
    checks += [Check(2, f"kernels/{library.name}", 60, kernels(library)) for library in first]
    checks += [Check(2, f"memory/{library.name}", 60, memory(library)) for library in first]
    fitting, beyond = (library for library in libraries if library.gpu_bytes)
    checks += [
        Check(2, f"largest/{fitting.name}", 60, largest(fitting, beyond)),
        Check(2, f"largest/torch-{LARGEST}", 240, torch_largest(fitting, LARGEST_UNIT)),
    ]
    # Of those that have one rank, since it slows a kernel a hundred times.
    for tool in ("memcheck", "racecheck", "synccheck"):
        for library in checked:
            if not library.mesh:
                name = f"sanitizer/{tool}/{library.name}"
                checks.append(Check(2, name, 120, sanitizer(library, tool)))
    checks.append(Check(3, "nccl", 60, nccl))
    return checks
