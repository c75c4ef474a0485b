# ===- contention - Flows that share links, beside SimGrid -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Random flows over random links, each beginning at a time of its own, by the simulator
of clusters and by SimGrid's model of max-min fair rates.

    bench/run contention                          # needs Debian's libsimgrid-dev
    bench/run contention --cases 20
    bench/run contention --write docs/what-if.md

Of each flow the time between its begin and its end is compared. It fails where one
differs by more than --most.
"""

import math
import random
import statistics
import subprocess

from harness import ROOT, fail, run, table

TARGETS = ["optimus-bench-contention"]
NUMBERS = dict(cases=200, most=2.0)


def draw(seed):
    """Links, and flows as (begin, bytes, links)."""
    drawn = random.Random(seed)
    links = [round(10 ** drawn.uniform(8, 11)) for _ in range(drawn.randint(1, 16))]
    span = 10 ** drawn.uniform(-3, 0)
    flows = []
    for _ in range(drawn.randint(2, 48)):
        count = drawn.randint(1, min(5, len(links)))
        flows.append((round(drawn.uniform(0, span), 9), round(10 ** drawn.uniform(4, 9)),
                      drawn.sample(range(len(links)), count)))
    return links, flows


def written(links, flows):
    lines = [len(links), *links, len(flows)]
    lines += [f"{begin} {size} {len(over)} {' '.join(map(str, over))}"
              for begin, size, over in flows]
    return "\n".join(map(str, lines)) + "\n"


def ask(program, text):
    """When flows end, in seconds, of each case."""
    found = subprocess.run([program], input=text, capture_output=True, text=True)
    if found.returncode:
        fail(f"{program} ended with {found.returncode}\n{found.stderr}")
    return [[float(end) for end in line.split()] for line in found.stdout.splitlines()]


def main(options, tools, folder):
    peer, source = folder / "simgrid", ROOT / "bench/peers/simgrid_contention.cpp"
    run(["g++", "-O1", "-std=c++17", source, "-o", peer, "-lsimgrid"])
    cases = [draw(seed) for seed in range(options.cases)]
    texts = [written(*case) for case in cases]
    ours = ask(tools.path("bench-contention"), "".join(texts))
    errors, slower = [], []
    for (links, flows), text, ends in zip(cases, texts, ours):
        [theirs] = ask(peer, text)
        for (begin, size, over), end, other in zip(flows, ends, theirs):
            errors.append(100 * abs((end - begin) / (other - begin) - 1))
            slower.append((end - begin) * min(links[one] for one in over) / size)
    most = max(errors)
    text = table(
        ["cases", "flows", "as long as alone, median", "median difference", "largest"],
        [[len(cases), len(errors), f"{statistics.median(slower):.1f} times",
          f"{statistics.median(errors):.1g} %", f"{most:.1g} %"]])
    if most <= options.most and not math.isnan(most):
        return {"contention": text}
    return {"contention": text}, [
        f"expected flows that differ by at most {options.most:g} %, found {most:.3g} %"]
