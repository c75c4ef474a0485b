# ===- lanes - Trainings side by side in one program ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times trainings of a GPT-2 as lanes of one program, one after the other, and two
at a time, each on a thread: in turn, from the start of the first to the end of the
last.

    bench/run lanes
    bench/run lanes --widths 64,256 --rounds 5 --at-least 1.3

Prints the median ratio of the times, with its interval of 95 %, for each width.
Exits with 1 where a lane's checkpoint is not that of its own run, and where the
first width is less than --at-least times as fast as one after the other.
"""

import concurrent.futures
import time

from harness import Ratios, integers, run, table, take_turns, write_text

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(layers=2, heads=4, seq=64, batch=4, vocab=256, lanes=8, steps=100,
               threads=2, rounds=3)
WAYS = ["lanes", "after another", "at a time"]


def options(parser):
    parser.add_argument("--widths", type=integers, default=[64, 128, 256],
                        help="hidden; default: 64,128,256")
    parser.add_argument("--at-least", type=float, default=0.0,
                        help="times one after the other; default: no limit")


def flags_of(lane, folder):
    return ["--seed", str(lane), "--lr", f"{lane + 1}e-3", "--save", str(folder / f"{lane}"),
            "--overwrite"]


def timed(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measure(options, tools, folder, hidden, text):
    """Seconds of each way, round by round, and whether bits differ."""
    sizes = {name: getattr(options, name) for name in ("layers", "heads", "seq", "batch", "vocab")}
    source = tools.build_model(folder / f"{hidden}.mlir", hidden=hidden, **sizes)
    library = folder / f"{hidden}.so"
    tools.compile(source, library, f"--lanes={options.lanes}")
    common = [tools.path("run"), "train", library, "--data", text, "--steps", options.steps]
    folders = {way: folder / way for way in WAYS}
    for place in folders.values():
        place.mkdir(exist_ok=True)
    rows = folder / "rows"
    every = range(options.lanes)
    rows.write_text("\n".join(" ".join(flags_of(lane, folders["lanes"])) for lane in every))

    def lanes():
        run([*common, "--threads-per-rank", options.threads, "--lanes", rows])

    def one(lane, way, threads):
        run([*common, "--threads-per-rank", threads, *flags_of(lane, folders[way])])

    def after_another():
        for lane in every:
            one(lane, "after another", options.threads)

    def at_a_time():
        with concurrent.futures.ThreadPoolExecutor(options.threads) as pool:
            list(pool.map(lambda lane: one(lane, "at a time", 1), every))

    works = dict(zip(WAYS, (lanes, after_another, at_a_time)))
    jobs = {way: lambda work=work: timed(work) for way, work in works.items()}
    seconds = [found for _, found in take_turns(jobs, options.rounds)]
    files = [f"{lane}/{name}.safetensors" for lane in every for name in ("model", "optimizer")]
    differ = any((folders["lanes"] / name).read_bytes() != (folders["at a time"] / name).read_bytes()
                 for name in files)
    return seconds, differ


def main(options, tools, folder):
    text = folder / "text.txt"
    write_text(text)
    wrong, lines = [], []
    for hidden in options.widths:
        seconds, differ = measure(options, tools, folder, hidden, text)
        ratios = [Ratios([(found["lanes"], found[way]) for found in seconds]) for way in WAYS[1:]]
        lines.append([hidden, f"{min(found['lanes'] for found in seconds):.2f} s",
                      *(f"{r.median:.2f} ({r.low:.2f} to {r.high:.2f})" for r in ratios)])
        if differ:
            wrong.append(f"hidden {hidden}: a lane's checkpoint is not that of its own run")
        if hidden == options.widths[0] and ratios[0].median < options.at_least:
            wrong.append(f"hidden {hidden}: lanes are {ratios[0].median:.2f} times as fast as "
                         f"one after the other, of {options.at_least:g}")
    header = ["hidden", f"{options.lanes} lanes, {options.steps} steps",
              f"one after the other, {options.threads} threads",
              f"{options.threads} at a time, a thread each"]
    return {"lanes": table(header, lines)}, wrong
