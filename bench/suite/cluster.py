# ===- cluster - Strategies on hosts with real links ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times training steps of each strategy on a cluster whose hosts are network
namespaces of this machine, with links of a limited rate and OpenMPI across them.

    bench/run cluster --ranks 4                   # as root; needs iproute2, OpenMPI
    bench/run cluster --ranks 16 --write bench/results/cluster.md
    bench/run cluster --ranks 4 --broadcast       # what the collectives take
    bench/run cluster --ranks 16 --function forward --ratios 4

With --function forward, or decode, that function is timed instead, compiled alone, by
`optimus-run bench`; decode takes one token for each of as many slots as a step has
sequences, and `auto` is what the compiler chooses for it by the link's profile.

The hosts share this machine's cores, so they compute slowly, and a link is given
the rate at which link time and compute time are in the proportion of a real
cluster (--like). A layer of width h computes in proportion to bs*h*h and moves
bs*h, so with e bytes an element, F operations a second on a device and a link of
B bytes a second the proportion is e*F/(h*B). F of the hosts is our serial step's
rate in this sitting, divided by their number; e is 4 here and 2 there, where
half of the peak rate is taken for F and 8192 for h.

Everything is compiled for the cluster that it runs on: --machine-profile has the link's
rate, half the time of a broadcast of 4 KiB among all hosts with fast links, and a
host's rate of computing, its share of the serial step's.

A round runs every strategy once at every rate, by turns; ratios are taken in
each round and their median counts. All strategies must print the same loss. A
strategy that this compiler does not know is left out, with its message.
"""

import itertools
import json
import os
import pathlib
import random
import statistics
import time

from harness import fail, integers, machine, one_of, spread, table
from namespaces import Cluster

TARGETS = ["optimus-compile", "optimus-run", "optimus_ccl_mpi"]
NUMBERS = dict(layers=1, rounds=3)
# Flags of optimus-compile. The mesh is square for 2D strategies, one row for
# 1D strategies; data parallelism (0) has an axis of its own, and with None the
# compiler chooses.
STRATEGIES = {
    "megatron": (["--strategy=megatron"], 1),
    "megatron-sp": (["--strategy=megatron-sp"], 1),
    "summa-paper": (["--strategy=summa-paper"], 2),
    "summa-no-overlap": (["--strategy=summa", "--schedule=none"], 2),
    "summa": (["--strategy=summa"], 2),
    "summa-panels-no-overlap": (
        ["--strategy=summa", "--move=panels", "--schedule=none"], 2),
    "summa-panels": (["--strategy=summa", "--move=panels"], 2),
    "data": (["--strategy=data"], 0),
    "data-next": (["--strategy=data", "--sync=sync(next)"], 0),
    "stationary": (["--strategy=summa,decode=stationary"], 2),
    "auto": (["--strategy=auto"], None),
}
# What each is compared with: the first of these that ran.
BASELINES = {"train": ["megatron-sp", "megatron"], "forward": ["megatron"],
             "decode": ["megatron"]}
# Others than all but the last two.
USUAL = {"forward": ["megatron", "megatron-sp", "summa-no-overlap", "summa"],
         "decode": ["megatron", "stationary", "auto"]}

# Operations a second of one device (half of its dense bf16 peak) and bits a
# second of the link that it has for itself.
REAL_WIDTH = 8192
REAL_CLUSTERS = {
    "h100": ("nodes of 8 H100 with a 400 Gb/s link for each", 989e12 / 2, 400e9),
    "a100": ("nodes of 8 A100 with 400 Gb/s for all", 312e12 / 2, 50e9),
}

# Links that take no time beside the rest. Without a rate at all, bursts overflow
# the bridge's queue, and TCP waits 200 ms for what was lost.
FAST, FAST_BITS = "fast", 10e9

# hidden, heads and batch at bs/h = 1: what the mesh and 1D both shard evenly.
SHAPES = {4: (768, 16, 4), 9: (756, 18, 3), 16: (768, 16, 4)}


def options(parser):
    parser.add_argument("--ranks", type=int, choices=sorted(SHAPES), default=4)
    parser.add_argument("--function", choices=list(BASELINES), default="train")
    parser.add_argument("--strategies", type=one_of(STRATEGIES),
                        help="default: those that differ in the function")
    parser.add_argument(
        "--like", default=",".join(REAL_CLUSTERS), type=one_of(REAL_CLUSTERS),
        help="real clusters, of "
        + "; ".join(f"{name}: {text}" for name, (text, _, _) in REAL_CLUSTERS.items()),
    )
    parser.add_argument("--rate", metavar="MBIT", help="rates of a link in Mbit/s, "
                        "with commas between, instead of --like")
    parser.add_argument("--ratios", default="1,4", type=integers,
                        help="batch times sequence over hidden; default: %(default)s")
    parser.add_argument("--steps", type=int, default=2,
                        help="timed steps of a run, after one that is not")
    parser.add_argument("--limit", type=int, default=540,
                        help="seconds after which no round begins")
    parser.add_argument("--hidden", type=int, help="instead of the usual width")
    parser.add_argument("--no-fast", action="store_true",
                        help="do not run with links of 10 Gbit/s too")
    parser.add_argument("--broadcast", action="store_true",
                        help="time the collectives on 4 MiB instead")
    parser.add_argument("--json", help="write every run to this file")


class Shape:
    """The model at one ratio of batch times sequence to hidden size."""

    def __init__(self, options, ratio):
        self.hidden, self.heads, base = SHAPES[options.ranks]
        self.hidden = options.hidden or self.hidden
        self.layers, self.ratio, self.function = options.layers, ratio, options.function
        self.seq, self.batch = self.hidden // base, base * ratio

    def sizes(self):
        functions = {"forward": {"functions": "forward"},
                     "decode": {"generate": f"slots={self.batch},context={self.seq},chunk=16"}}
        return {"layers": self.layers, "hidden": self.hidden, "heads": self.heads,
                "seq": self.seq, "batch": self.batch, "vocab": 256,
                **functions.get(self.function, {})}

    def operations(self):
        """Of the products of a call; a step has a forward and twice as many backward."""
        weights = 12 * self.hidden**2 * self.layers + 256 * self.hidden
        tokens = self.batch * (1 if self.function == "decode" else self.seq)
        return (6 if self.function == "train" else 2) * tokens * weights


def side(ranks):
    return round(ranks**0.5)


def mesh(ranks, dimensions):
    """As a flag of optimus-compile."""
    if dimensions is None:
        return f"--ranks={ranks}"
    rows = side(ranks) if dimensions == 2 else 1
    return "--mesh=" + (f"row:{rows},col:{ranks // rows}" if dimensions else f"data:{ranks}")


def summarize(steps):
    """The mean of the timed steps, and the loss of the last one."""
    result = {"loss": steps[-1]["loss"], "comm_bytes": steps[-1]["comm_bytes"]}
    for name in ["ms", "comm_ms", "comm_exposed_ms"]:
        if name in steps[-1]:
            result[name] = statistics.mean(step[name] for step in steps[1:])
    return result


def summarize_bench(report):
    """The same of what `optimus-run bench` says of another function."""
    times = report["communication_ms"]
    return {"ms": report["ms"]["median"], "comm_ms": times["in_flight"],
            "comm_exposed_ms": times["exposed"],
            "comm_bytes": sum(axis["bytes"] for axis in report["communication"])}


class Prepared:
    """What runs at one shape: the libraries, and the serial step's rate."""

    def __init__(self, options, tools, shape, folder):
        self._options, self._tools, self.shape, self._folder = options, tools, shape, folder
        self._source = tools.build_model(folder / "gpt.mlir", **shape.sizes())
        self._data, self._log = folder / "data.txt", folder / "log.json"
        draw = random.Random(shape.ratio)
        tokens = (options.steps + 1) * shape.batch * shape.seq + 1
        self._data.write_bytes(bytes(draw.randrange(256) for _ in range(tokens)))
        self.libraries, self._serial = {}, folder / "serial.so"
        self.chosen = {}  # by link: a mesh and a strategy
        tools.compile(self._source, self._serial, "--strategy=serial")

    def compile(self, link, profile):
        """Every strategy for a link, as libraries[link, strategy]."""
        path = self._folder / f"{link.replace('/', '-').replace(' ', '-')}.json"
        path.write_text(json.dumps(profile))
        for name in self._options.strategies:
            flags, dimensions = STRATEGIES[name]
            library = path.with_name(f"{path.stem}-{name}.so")
            result = self._tools.compile(
                self._source, library, *flags, mesh(self._options.ranks, dimensions),
                f"--machine-profile={path}", check=False)
            if result.returncode == 0:
                self.libraries[link, name] = library
                if dimensions is None:
                    self.chosen[link] = self._describe(library)
            else:
                message = result.stderr.strip() or result.stdout.strip()
                print(f"bs/h {self.shape.ratio}: left out: {name}: "
                      f"{message.splitlines()[0]}", flush=True)
        if not self.libraries:
            fail("this compiler knows none of the strategies")

    def _describe(self, library):
        manifest = self._tools.inspect(library)
        axes = ",".join(f"{axis['axis']}:{axis['size']}" for axis in manifest["mesh"])
        return f"{manifest['strategy']} on {axes}"

    def names(self):
        """The strategies that this compiler knows."""
        return list(dict.fromkeys(name for _, name in self.libraries))

    def serial_rate(self):
        """Operations a second of this machine's serial step, or call."""
        if self._options.function != "train":
            report = self._tools.bench(
                self._serial, *self._bench_flags(), "--threads-per-rank", os.cpu_count())
            return self.shape.operations() / (1e-3 * report["ms"]["median"])
        steps = self._tools.train(
            self._serial, self._data, self._log, "--order", "sequential", "--steps",
            self._options.steps + 1, "--threads-per-rank", os.cpu_count())
        return self.shape.operations() / (1e-3 * summarize(steps)["ms"])

    def _bench_flags(self):
        return ["--function", self._options.function, "--steps", self._options.steps]

    def step(self, cluster, link, name):
        if self._options.function != "train":
            return summarize_bench(cluster.bench(
                self._tools, self.libraries[link, name], *self._bench_flags()))
        return summarize(cluster.train(
            self._tools, self.libraries[link, name], self._data, self._log,
            "--steps", self._options.steps + 1))


def like(cluster, shape, rate_of_host):
    """Bits a second of a link, from the proportion of link to compute time."""
    _, operations, bits = REAL_CLUSTERS[cluster]
    proportion = 2 * operations / (REAL_WIDTH * bits)
    return 4 * rate_of_host / (shape.hidden * proportion)


def rates(options, prepared, serial):
    """(name, bits a second) of the links, those that hardly take time first."""
    found = [] if options.no_fast else [(FAST, FAST_BITS)]
    if options.rate:
        return found + [
            (f"{float(mbit):g} Mbit/s", 1e6 * float(mbit))
            for mbit in options.rate.split(",")
        ]
    return found + [(name, like(name, prepared.shape, serial / options.ranks))
                    for name in options.like]


def collective_times(tools, cluster, size):
    """{collective: seconds} on tensors of so many bytes, among all hosts."""
    command = [tools.path("run"), "bench", "--comm"]
    command += ["--min-bytes", size, "--max-bytes", size]
    output = cluster.mpirun(command)
    found = {}
    for line in output.splitlines():
        fields = line.split()
        if len(fields) > 6 and fields[1] == str(size):
            found[fields[0]] = 1e-6 * float(fields[6])
    return found


def machine_profile(options, bits, latency, rate_of_host):
    """A machine profile of hosts with links of so many bits a second. A rank
    has its share of what the built-in profile lets one core stream, as of the
    products' rate."""
    ranks = side(options.ranks)
    part = (ranks - 1) / ranks
    link_times = {"broadcast": 1, "reduce": 1, "all_reduce": 2 * part,
                  "all_gather": part, "reduce_scatter": part}
    share = os.cpu_count() / options.ranks
    return {
        "version": 1,
        "axes_share_link": True,
        "gemm": [{"flops_per_s": rate_of_host, "bytes_per_s": 8e9 * share,
                  "attention_flops_per_s": 40e9 * share}],
        "comm": [{"backend": "mpi", "ranks": ranks, "collective": name,
                  "alpha_s": latency, "beta_s_per_byte": 8 * times / bits}
                 for name, times in link_times.items()],
    }


def check_losses(runs):
    """Those of one round, which all began alike."""
    losses = {name: entry["loss"] for name, entry in runs.items() if "loss" in entry}
    if not losses:
        return
    least, most = min(losses.values()), max(losses.values())
    if not most - least <= 1e-4 * least:
        fail(f"expected one loss of all strategies within 1e-4, found {losses}")


def measure(options, cluster, prepared, links, deadline):
    """{(rate, strategy): runs}, one run a round."""
    names = prepared.names()
    found = {(rate, name): [] for rate, _ in links for name in names}
    for number in range(options.rounds):
        if number > 0 and time.monotonic() > deadline:
            print(f"stopped by --limit after {number} rounds", flush=True)
            break
        for rate, bits in links:
            cluster.shape(bits)
            runs = {}
            for name in names:
                runs[name] = prepared.step(cluster, rate, name)
                found[rate, name].append(runs[name])
            check_losses(runs)
            print(f"bs/h {prepared.shape.ratio}, round {number + 1}, {rate}: "
                  + ", ".join(f"{name} {entry['ms']:.0f} ms"
                              for name, entry in runs.items()), flush=True)
    return found


def report(options, prepared, links, found):
    shape = prepared.shape
    names = prepared.names()
    baselines = BASELINES[options.function]
    baseline = next((name for name in baselines if name in names), names[0])
    rounds = len(found[links[0][0], names[0]])
    about = (
        f"p = {options.ranks}, bs/h = {shape.ratio}: {shape.layers} layer, hidden "
        f"{shape.hidden}, {shape.heads} heads, sequence {shape.seq}, batch "
        f"{shape.batch}, f32; {rounds} rounds; {machine()}")
    header = [
        "link", "strategy", f"{'step' if options.function == 'train' else options.function}, ms", "counted MB a rank", "link time of those, ms",
        "exposed, ms", "by the ranks' clocks: in collectives, exposed, ms",
        f"{baseline} takes, times this"]
    rows = []
    for rate, bits in links:
        link = f"{rate}, {bits / 1e6:.0f} Mbit/s"
        for name in names:
            runs, base = found[rate, name], found[rate, baseline]
            ms = [entry["ms"] for entry in runs]
            moved = runs[0]["comm_bytes"] / options.ranks
            ideal = f"{8e3 * moved / bits:.0f}"
            free = found.get((FAST, name))
            exposed = clocks = ""
            if free and rate != FAST:
                exposed = spread([a - b["ms"] for a, b in zip(ms, free)], 0)
            if "comm_exposed_ms" in runs[0]:
                clocks = ", ".join(
                    f"{statistics.median(entry[key] for entry in runs):.0f}"
                    for key in ["comm_ms", "comm_exposed_ms"])
            ratio = spread([b["ms"] / a for a, b in zip(ms, base)], 2)
            rows.append([link, name, spread(ms, 0), f"{moved / 1e6:.1f}", ideal, exposed,
                         clocks, ratio])
    chosen = [f"Links as {link}: `auto` takes {what}."
              for link, what in prepared.chosen.items()]
    return "\n".join([f"{about}\n\n{table(header, rows)}", *chosen,
                      *report_overlap(links, found),
                      *report_carried(options, shape, links, found)])


def report_overlap(links, found):
    """How much of what can be hidden the schedule hides. Without overlap a step
    is computing, its time on fast links, and then waiting for links; the
    shorter of the two could be hidden behind the other."""
    lines = [""]
    pairs = [("summa-no-overlap", "summa"), ("summa-panels-no-overlap", "summa-panels")]
    for (rate, _), (before, after) in itertools.product(links, pairs):
        if rate == FAST or not {(FAST, before), (FAST, after)} <= set(found):
            continue
        shares = []
        for plain, overlapped, free in zip(
            found[rate, before], found[rate, after], found[FAST, before]
        ):
            computing = free["ms"]
            waiting = plain["ms"] - computing
            hideable = min(computing, waiting)
            shares.append(100 * (plain["ms"] - overlapped["ms"]) / hideable)
        lines.append(f"Links as {rate}: `{after}` hides {spread(shares, 0)} % of what can "
                     f"be hidden of `{before}`.")
    return lines


def report_carried(options, shape, links, found):
    """How much the next step hides of a step's gathers: at most their time on a
    link, and at most the forward, a third of the step's products."""
    lines = []
    parameters = 12 * shape.hidden**2 * shape.layers + 256 * shape.hidden
    parts = (options.ranks - 1) / options.ranks
    for rate, bits in links:
        plain, carried, free = (found.get(key) for key in (
            (rate, "data"), (rate, "data-next"), (FAST, "data")))
        if rate == FAST or not (plain and carried and free):
            continue
        gathers = 8e3 * 4 * parameters * parts / bits
        rounds = list(zip(plain, carried, free))
        exchange = [100 * (1 - f["ms"] / p["ms"]) for p, _, f in rounds]
        hidden = [100 * (p["ms"] - c["ms"]) / min(gathers, f["ms"] / 3) for p, c, f in rounds]
        lines.append(f"Links as {rate}: exchange takes {spread(exchange, 0)} % of a step of "
                     f"`data`; `data-next` hides {spread(hidden, 0)} % of the lesser of its "
                     f"gathers, {gathers:.0f} ms, and the forward.")
    return lines


def time_collectives(options, tools, cluster):
    """4 MiB in link times: the time of a link at its rate for that many bytes."""
    size, bits = 4 << 20, 400e6
    cluster.shape(bits)
    rows = [[name, f"{1e3 * seconds:.0f}", f"{seconds * bits / 8 / size:.2f}"]
            for name, seconds in collective_times(tools, cluster, size).items()]
    return (f"4 MiB among {options.ranks} hosts with links of {bits / 1e6:.0f} Mbit/s, "
            f"{8e3 * size / bits:.0f} ms a link time.\n\n"
            + table(["collective", "ms", "link times"], rows))


def prepare(options, tools, cluster, everything):
    """Compiles for all links, and returns (name, bits a second) of each. They
    are the same for all shapes, from the largest products."""
    serial = statistics.median(everything[-1].serial_rate() for _ in range(3))
    cluster.shape(FAST_BITS)
    # Along a mesh axis a tree has half as many levels as among all hosts, which
    # are as busy meanwhile as in a step.
    latency = collective_times(tools, cluster, 4096)["broadcast"] / 2
    print(f"serial step: {serial / 1e9:.0f} GFLOP/s; a host's part "
          f"{serial / options.ranks / 1e9:.1f}; half a broadcast of 4 KiB: "
          f"{1e3 * latency:.2f} ms", flush=True)
    links = rates(options, everything[-1], serial)
    for name, bits in links:
        profile = machine_profile(options, bits, latency, serial / options.ranks)
        for prepared in everything:
            prepared.compile(name, profile)
    return links


def main(options, tools, folder):
    if options.strategies is None:
        options.strategies = USUAL.get(options.function, list(STRATEGIES)[:-2])
    deadline = time.monotonic() + options.limit
    entries, blocks, everything = [], {}, []
    with Cluster(options.ranks) as cluster:
        if options.broadcast:
            blocks[f"collectives-{options.ranks}"] = time_collectives(options, tools, cluster)
        for ratio in [] if options.broadcast else options.ratios:
            place = folder / str(ratio)
            place.mkdir()
            everything.append(Prepared(options, tools, Shape(options, ratio), place))
        links = prepare(options, tools, cluster, everything) if everything else []
        for prepared in everything:
            ratio = prepared.shape.ratio
            found = measure(options, cluster, prepared, links, deadline)
            suffix = "" if options.function == "train" else f"-{options.function}"
            blocks[f"p{options.ranks}-{ratio}{suffix}"] = report(
                options, prepared, links, found)
            for (rate, name), runs in found.items():
                entries += [dict(run, rate=rate, strategy=name, ratio=ratio,
                                 ranks=options.ranks) for run in runs]
    if options.json:
        lines = [json.dumps(entry) for entry in entries]
        pathlib.Path(options.json).write_text("\n".join(lines) + "\n")
    return blocks
