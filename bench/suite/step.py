# ===- step - The time of a training step, and where it goes --------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times a GPT training step: what share is products, attention and the rest,
beside the same products alone (plain oneDNN), and with --peer beside PyTorch.

    bench/run step                           # vocabularies 50304 and 256, 2 threads
    bench/run step --peer python3            # a Python that has PyTorch
    bench/run step --vocab 256 --mesh row:2,col:2 --threads-per-rank 1
    bench/run step --precision bf16 --vocab 50304 --peer python3
    bench/run step --prompt --precision bf16 --vocab 50257 --layers 12 --hidden 768 --heads 12 --seq 512

A round is one step of ours, its products alone and, with --peer, one step of
PyTorch, one after the other in one sitting, so that a busy machine disturbs all
alike; ratios are taken in each round, and their median counts. With --precision
bf16 the step beside ours is ours in f32, instead of the products, and PyTorch
computes under autocast. With --prompt a step is a prompt of --seq tokens, taken in
by one call of prefill, and its products are there in bf16, too. It builds what it needs in the build tree (`cmake
--preset release` first).
"""

import json
import os
import statistics

from harness import ROOT, Served, machine, serve_steps, spread

TARGETS = ["optimus-compile", "optimus-bench-step"]
SIZES = dict(layers=6, hidden=384, heads=6, seq=256, batch=8)
NUMBERS = dict(SIZES, rounds=15, warmup=3, threads_per_rank=2, top=12, mesh="", strategy="")


def options(parser):
    parser.add_argument(
        "--vocab", type=int, nargs="+", default=[50304, 256], help="vocabularies"
    )
    parser.add_argument(
        "--precision", choices=["f32", "bf16"], default="f32", help="of ours and the peer's"
    )
    parser.add_argument(
        "--peer", metavar="PYTHON", help="compare with PyTorch in this Python"
    )
    parser.add_argument(
        "--eager", action="store_true", help="do not compile the peer's model"
    )
    parser.add_argument(
        "--prompt", action="store_true", help="of --seq tokens, instead of a training step"
    )
    parser.add_argument("--json", help="write every round to this file")


def serve_ours(options, tools, vocab, folder, precision):
    source = folder / f"gpt-{vocab}.mlir"
    library = folder / f"gpt-{vocab}-{precision}.so"
    sizes = {name: getattr(options, name) for name in SIZES}
    if options.prompt:
        sizes["generate"] = f"slots=1,context={options.seq},chunk={options.seq}"
    tools.build_model(source, vocab=vocab, **sizes)
    tools.compile(source, library, f"--precision={precision}", *(
        f"--{name}={getattr(options, name)}" for name in ["mesh", "strategy"]
        if getattr(options, name)))
    alone = not options.mesh and (options.prompt or options.precision == "f32")
    return serve_steps(tools, library, "--threads-per-rank", options.threads_per_rank,
                       *(["--gemm"] if alone else []),
                       *(["--prompt"] if options.prompt else []))


def serve_peer(options, vocab, threads):
    command = [options.peer, str(ROOT / "bench/peers/torch_gpt2.py"), "--serve"]
    command += ["--vocab", str(vocab), "--threads", str(threads)]
    command += ["--precision", options.precision]
    for name in SIZES:
        command += [f"--{name}", str(getattr(options, name))]
    if not options.eager:
        command.append("--compile")
    return Served(command)


def family(command):
    kind, _, rest = command.partition(" ")
    if kind == "gemm":
        return "products"
    if kind.startswith("attention"):
        return "attention"
    if kind == "collective":
        return "collectives"
    if kind == "copy":
        return "copies"
    for name, parts in [
        ("head and loss", ("softmax", "logits", "token_loss", "row_max", "exp_sum")),
        ("optimizer", ("adamw", "sum_squares", "sum_partials", "clip")),
        ("normalisation", ("layer_norm", "norm", "row_moments", "merge_moments")),
        ("gelu", ("gelu",)),
        ("bias gradients", ("sum_leading",)),
        ("embedding", ("embedding",)),
        ("cache", ("slot_append", "cache_append", "take")),
    ]:
        if rest.startswith(parts):
            return name
    return "other"


def report_shares(rounds):
    """The median over rounds of each family's share and of each command."""
    shares, commands = {}, {}
    for entry in rounds:
        total, own = entry["ms"], {}
        for name, spent in entry["commands"].items():
            own[family(name)] = own.get(family(name), 0) + spent["ms"]
            commands.setdefault(name, []).append(spent)
        own["between commands"] = max(0, total - sum(own.values()))
        for name, ms in own.items():
            shares.setdefault(name, []).append((ms, 100 * ms / total))
    print(f"  {'share of the step':36} {'ms':>8} {'%':>6}")
    medians = {
        name: [statistics.median(column) for column in zip(*values)]
        for name, values in shares.items()
    }
    for name, (ms, percent) in sorted(medians.items(), key=lambda item: -item[1][0]):
        print(f"    {name:34} {ms:8.1f} {percent:6.1f}")
    return commands


def report_commands(commands, top):
    print(f"  {'longest commands':44} {'ms':>8} {'calls':>6} {'GFLOP/s':>8}")
    median = {
        name: statistics.median(spent["ms"] for spent in values)
        for name, values in commands.items()
    }
    for name in sorted(median, key=lambda name: -median[name])[:top]:
        spent = commands[name][0]
        rate = f"{1e3 * spent['gflop'] / median[name]:8.1f}" if spent["gflop"] else ""
        print(f"    {name:42} {median[name]:8.2f} {spent['calls']:6} {rate}")


def report_products(rounds):
    gflop = sum(spent["gflop"] for spent in rounds[0]["commands"].values())
    step = [entry["ms"] for entry in rounds]
    print(f"  {'products, ' + format(gflop, '.0f') + ' GFLOP':36} {'GFLOP/s':>24}")
    print(f"    {'in the step: products / step':34} "
          f"{spread([1e3 * gflop / ms for ms in step])}")
    for name, key in [("alone: sgemm", "sgemm_ms"), ("alone: matmul, packed",
                      "packed_ms"), ("alone: the faster for each", "best_ms")]:
        if key not in rounds[0]["plain"]:
            continue
        alone = [entry["plain"][key] for entry in rounds]
        print(f"    {name:34} {spread([1e3 * gflop / ms for ms in alone])}")
        ratios = [100 * a / ms for a, ms in zip(alone, step)]
        print(f"    {'  the step reaches, %':34} {spread(ratios)}")


def bench(options, tools, vocab, folder, log):
    ours = serve_ours(options, tools, vocab, folder, options.precision)
    wide = None
    if options.precision != "f32" and not options.prompt:
        wide = serve_ours(options, tools, vocab, folder, "f32")
    threads = ours.about["ranks"] * ours.about["threads"]
    peer = None
    if options.peer:
        peer = serve_peer(options, vocab, min(threads, os.cpu_count()))
    rounds, peers = [], []
    for number in range(-options.warmup, options.rounds):
        entry = ours.round()
        if wide:
            entry["f32_ms"] = wide.round()["ms"]
        other = peer.round() if peer else None
        if number < 0:
            continue
        rounds.append(entry)
        if other:
            peers.append(other["ms"])
            ratio = other["ms"] / entry["ms"]
            print(f"  round {number + 1}: {entry['ms']:.1f} ms, PyTorch "
                  f"{other['ms']:.1f} ms, {ratio:.2f} times as long", flush=True)
    ours.close()
    if wide:
        wide.close()
    tokens = options.seq * (1 if options.prompt else options.batch)
    step = [entry["ms"] for entry in rounds]
    print(f"vocabulary {vocab}: {ours.about['parameters'] / 1e6:.1f} M parameters, "
          f"{ours.about['ranks']} x {ours.about['threads']} threads, "
          f"{len(rounds)} rounds, median (least to most)")
    print(f"  step: {spread(step)} ms, "
          f"{1e3 * tokens / statistics.median(step):.0f} tokens/s")
    commands = report_shares(rounds)
    if "plain" in rounds[0]:
        report_products(rounds)
    report_commands(commands, options.top)
    if wide:
        wides = [entry["f32_ms"] for entry in rounds]
        print(f"  ours in f32: {spread(wides)} ms; takes "
              f"{spread([w / o for w, o in zip(wides, step)], 2)} times as long")
    if peer:
        peer.close()
        how = "compiled" if peer.about["compiled"] else "eager"
        print(f"  PyTorch {peer.about['torch']}, {options.precision}, {how}, {peer.about['threads']} "
              f"threads: {spread(peers)} ms; takes "
              f"{spread([p / o for p, o in zip(peers, step)], 2)} times as long")
    print(flush=True)
    for entry, peer_ms in zip(rounds, peers or [None] * len(rounds)):
        log.write(json.dumps(dict(entry, vocab=vocab, peer_ms=peer_ms)) + "\n")


def main(options, tools, folder):
    print(f"{machine()}\n{options.layers} layers, hidden {options.hidden}, "
          f"{options.heads} heads, sequence {options.seq}, batch {options.batch}, "
          f"{options.precision}{', mesh ' + options.mesh if options.mesh else ''}\n",
          flush=True)
    with open(options.json or os.devnull, "w", encoding="utf-8") as log:
        for vocab in options.vocab:
            bench(options, tools, vocab, folder, log)
