# ===- dimensions - Where 2D sharding wins, and where 1D ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Simulates `summa` on squares and `megatron-sp` on rows of as many GPUs, replicated over
1,024 to 16,384: by tokens of a replica over the hidden size, by links, and by the part of
the square on a node.

    bench/run dimensions
    bench/run dimensions --devices 1024 --replica 64
    bench/run dimensions --write docs/what-if.md

Layers of a GPT-2 in bf16, each layer recomputed, on nodes of eight as `--cluster h100`
describes them, and with links between nodes of a quarter of the rate. A step has one
batch for each replica. Times are of plans; nothing runs.
"""

import json
import math

from harness import integers, run, table

TARGETS = ["optimus-compile", "optimus-simulate"]
NUMBERS = dict(layers=4, hidden=8192, heads=128, seq=2048, vocab=8192)

RATIOS = (1, 4, 16)
TILES = {"2×4": "row:2,col:4", "1×8": "row:1,col:8"}
LINKS = {"50 GB/s": 1.0, "12.5 GB/s": 0.25}


def options(parser):
    parser.add_argument("--devices", default="1024,4096,16384", type=integers)
    parser.add_argument("--replica", default="64", type=integers,
                        help="devices of a replica; default: %(default)s")


class Plans:
    def __init__(self, options, tools, folder):
        self.options, self.tools, self.folder = options, tools, folder
        self.known = json.loads(run(
            [tools.path("simulate"), "--print-cluster", "h100"]))

    def make(self, devices, replica, ratio, strategy):
        sizes = self.options
        batch = ratio * sizes.hidden // sizes.seq
        side = math.isqrt(replica)
        mesh = f"row:{side},col:{side}" if strategy == "summa" else f"row:1,col:{replica}"
        replicas = devices // replica
        program, plan = self.folder / "program.mlir", self.folder / "program.plan"
        self.tools.build_model(
            program, layers=sizes.layers, hidden=sizes.hidden, heads=sizes.heads,
            seq=sizes.seq, vocab=sizes.vocab, batch=batch * replicas)
        self.tools.compile(
            program, plan, "--plan", "--target", "cuda", "--gpu-arch", "sm_90",
            "--precision", "bf16", "--recompute", "layer", "--machine-profile", "h100x8",
            "--strategy", strategy, "--mesh", f"data:{replicas},{mesh}")
        return plan

    def simulate(self, plan, rate, tile):
        """Milliseconds of a step."""
        nic = {**self.known["nic"], "bytes_per_s": rate * self.known["nic"]["bytes_per_s"]}
        cluster = self.folder / "cluster.json"
        cluster.write_text(json.dumps({**self.known, "nic": nic}))
        return json.loads(run(
            [self.tools.path("simulate"), plan, "--machine-profile", "h100x8", "--cluster",
             cluster, "--placement", tile, "--json", "-"]))["step_ms"]


def main(options, tools, folder):
    plans = Plans(options, tools, folder)
    rows = []
    for replica in options.replica:
        for devices in options.devices:
            for ratio in RATIOS:
                one = plans.make(devices, replica, ratio, "megatron-sp")
                times = {rate: plans.simulate(one, part, "col:8")
                         for rate, part in LINKS.items()}
                two = plans.make(devices, replica, ratio, "summa")
                for rate, part in LINKS.items():
                    found = {name: plans.simulate(two, part, tile)
                             for name, tile in TILES.items()}
                    best = times[rate] / min(found.values())
                    rows.append([
                        f"{devices:,}", replica, ratio, rate, f"{times[rate]:.1f}",
                        *(f"{found[name]:.1f}" for name in TILES),
                        f"{'2D' if best > 1 else '1D'}, {max(best, 1 / best):.2f} times"])
    return {"dimensions": table(
        ["GPUs", "of a replica", "bs/h", "links between nodes", "1D, ms",
         *(f"2D, {name} a node, ms" for name in TILES), "faster"], rows)}
