# ===- speed.py - How fast a GPU trains, beside PyTorch ------------------ ===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Checks that measure: steps, kernels, memory, and PyTorch's steps."""

import json
import re
import sqlite3
import statistics
import sys

from correctness import training_log
from plan import operations_a_token
from session import Failed, Skipped


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
                "sizes": library.sizes,
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
SELECT coalesce(commands.name, named(functions.name, commands.command), commands.kind) AS name,
       count(*) AS calls,
       sum(times.end - times.begin) AS ns, sum(commands.flops) AS flops,
       sum((SELECT sum(accesses.bytes) FROM accesses
            WHERE accesses.function = commands.function AND accesses.command = commands.command)) AS bytes
FROM times JOIN calls USING (call)
     JOIN commands ON commands.function = calls.function AND commands.command = times.command
     JOIN functions ON functions.function = calls.function
WHERE calls.step > (SELECT min(step) FROM calls) AND commands.kind != 'wait'
GROUP BY 1 ORDER BY ns DESC
"""


def product_names(session, library):
    """Products by function and number, as `inspect` and bench/gpu/roofline name them."""
    found, function = {}, None
    for line in session.optimus_run("inspect", library.file, "--commands").splitlines():
        if header := re.match(r"function (\w+):", line):
            function = header[1]
        elif product := re.match(r"(\d+) \w+: (gemm \d+x\d+x\d+)", line):
            found[function, int(product[1])] = product[2]
    return found


def share(work, ns, ceiling):
    """Of a ceiling that was measured, in a second."""
    return work / ns * 1e9 / ceiling if work and ns and ceiling else None


def kernels(library):
    """What each kernel takes, and how fast it goes through memory, when commands
    run one by one; and how much of a recorded step no command takes."""

    def run(session):
        profile, taken = session.scratch("kernels.profile"), session.steps - 1
        flags = ["--data", session.data(library), "--steps", session.steps, "--profile", profile]
        session.optimus_run("train", library.file, *flags)
        names = product_names(session, library)
        with sqlite3.connect(profile) as database:
            database.create_function("named", 2, lambda *key: names.get(key))
            found = database.execute(COMMANDS).fetchall()
        bandwidth = session.figures_of("ceilings/copy").get("bytes_per_s")
        peak = session.figures_of("ceilings/gemm").get("flops_per_s")
        rows = [
            {
                "command": name,
                "calls a step": calls / taken,
                "ms a step": ns / taken / 1e6,
                "MB a step": touched / taken / 1e6 if touched else None,
                "GB/s": touched / ns if touched and ns else None,
                "of bandwidth": share(touched, ns, bandwidth),
                "TFLOP/s": flops / ns / 1e3 if flops and ns else None,
                "of peak": share(flops, ns, peak),
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
    """The planned bytes beside those gone from the GPU after loading, the first step and
    recording; with context and code."""

    def run(session):
        planned = json.loads(session.optimus_run("bench", library.file, "--steps", 2, "--json"))["memory"]
        rows = [{"when": f"planned, {name}", "bytes": value} for name, value in planned.items()]
        train = ["train", library.file, "--data", session.data(library)]
        moments = {
            # No step is taken without a checkpoint of where the run begins.
            "after loading": [0, "--save", session.scratch_folder("loaded")],
            "after the first step": [1],
            "after recording": [session.steps],
        }
        for when, steps in moments.items():
            with session.watching_memory() as held:
                session.optimus_run(*train, "--steps", *steps)
            rows.append({"when": when, "bytes": held()})
        session.scratch_folder("loaded")
        taken = rows[-1]["bytes"]
        return dict(
            title=f"Memory of {library.name}",
            rows=rows,
            summary=f"planned {planned['total']:,} bytes, gone from the GPU {number_or_none(taken)}",
            figures={row["when"]: row["bytes"] for row in rows},
        )

    return run


def largest(fitting, beyond):
    """The largest batch that is predicted to fit, and whether the next one does."""

    def train(session, library):
        command = ["bench", library.file, "--steps", 3, "--json"]
        return json.loads(session.optimus_run(*command, gpu_bytes=fitting.gpu_bytes))

    def run(session):
        # Asked by a process of its own: a context takes half a GiB.
        there = session.child("memory")["total"]
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


def counters(library):
    """What `ncu` says of each kernel of one step."""

    def run(session):
        program = session.program("ncu")
        flags = ["--set", "basic", "--csv", "--target-processes", "all"]
        command = ["train", library.file, "--data", session.data(library), "--steps", 1, "--eager"]
        output = session.optimus_run(*command, under=[program, *flags])
        session.write(f"ncu-{library.name}.csv", output)
        return dict(summary=f"{len(output.splitlines())} lines in ncu-{library.name}.csv")

    return run
