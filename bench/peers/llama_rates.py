#!/usr/bin/env python3
# ===- llama_rates.py - Tokens a second beside llama.cpp and PyTorch --------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Prompts of 512 tokens and 128 new ones in `optimus-run bench --generate`, in
llama-bench and in PyTorch, in turn, by as many threads, with weights of equal width: GPT-2
124M and, without PyTorch, a Llama of 1.1 billion parameters.

    python=$(bench/peers/setup)
    $python bench/peers/llama_rates.py --llama "$(bench/peers/setup-llama)" --build build
    $python bench/peers/llama_rates.py --torch $python --model "GPT-2 124M" --width f32

With --folder what is made stays there, for the next time: --prepare makes it and times
nothing, so that a quiet machine is needed for the rounds alone.
Caches are f16 in llama-bench, which knows no wider ones; here they are f32, and bf16
beside weights in bf16. Q8_0 and Q4_0 are llama-quantize's, --pure. PyTorch has f32 and
bf16, compiled with a static cache (torch_rates.py). Prints a row of a table for each model,
width and test.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import shlex
import statistics
import struct
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import ROOT, Served, machine, run, table, take_turns  # noqa: E402

CONTEXT = 1024
WIDTHS = {
    "f32": ([], "F32"),
    "bf16": (["--precision", "bf16"], "BF16"),
    "int8": (["--weights", "int8"], "Q8_0"),
    "int4": (["--weights", "int4"], "Q4_0"),
}
"""Our flags, and llama.cpp's type."""
OF_TORCH = ("GPT-2 124M", "f32"), ("GPT-2 124M", "bf16")
TESTS = "pp512", "tg128"


def gpt2():
    layers, hidden, vocabulary = 12, 768, 50257
    shape = f"--layers {layers} --hidden {hidden} --heads 12 --vocab {vocabulary}"
    config = dict(
        model_type="gpt2",
        n_layer=layers,
        n_embd=hidden,
        n_head=12,
        n_positions=CONTEXT,
        vocab_size=vocabulary,
    )
    tensors = {"wte.weight": [vocabulary, hidden], "wpe.weight": [CONTEXT, hidden]}
    norms = ["ln_f"]
    for layer in range(layers):
        block = f"h.{layer}."
        norms += [block + "ln_1", block + "ln_2"]
        for name, inputs, outputs in [
            ("attn.c_attn", hidden, 3 * hidden),
            ("attn.c_proj", hidden, hidden),
            ("mlp.c_fc", hidden, 4 * hidden),
            ("mlp.c_proj", 4 * hidden, hidden),
        ]:
            tensors[block + name + ".weight"] = [inputs, outputs]
            tensors[block + name + ".bias"] = [outputs]
    for name in norms:
        tensors[name + ".weight"] = tensors[name + ".bias"] = [hidden]
    return "gpt2 " + shape, config, tensors


def llama():
    layers, hidden, heads, shared, inner, vocabulary = 22, 2048, 32, 4, 5632, 32000
    shape = f"--layers {layers} --hidden {hidden} --heads {heads} --kv-heads {shared}"
    shape += f" --ffn {inner} --vocab {vocabulary}"
    config = dict(
        model_type="llama",
        hidden_act="silu",
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=shared,
        intermediate_size=inner,
        max_position_embeddings=CONTEXT,
        vocab_size=vocabulary,
        rms_norm_eps=1e-6,
        rope_theta=10000.0,
        tie_word_embeddings=False,
    )
    narrow = hidden // heads * shared
    tensors = {
        "model.embed_tokens.weight": [vocabulary, hidden],
        "lm_head.weight": [vocabulary, hidden],
        "model.norm.weight": [hidden],
    }
    for layer in range(layers):
        for name, extents in {
            "self_attn.q_proj": [hidden, hidden],
            "self_attn.k_proj": [narrow, hidden],
            "self_attn.v_proj": [narrow, hidden],
            "self_attn.o_proj": [hidden, hidden],
            "mlp.gate_proj": [inner, hidden],
            "mlp.up_proj": [inner, hidden],
            "mlp.down_proj": [hidden, inner],
            "input_layernorm": [hidden],
            "post_attention_layernorm": [hidden],
        }.items():
            tensors[f"model.layers.{layer}.{name}.weight"] = extents
    return "llama " + shape, config, tensors


MODELS = {"GPT-2 124M": gpt2, "Llama 1.1B": llama}


def write_folder(folder, config, tensors, is_wide=False):
    """Drawn weights in bf16 or f32; times do not depend on them."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    width, kind = (4, "F32") if is_wide else (2, "BF16")
    entries, end = {}, 0
    for name, extents in tensors.items():
        begin, end = end, end + width * math.prod(extents)
        entries[name] = dict(dtype=kind, shape=extents, data_offsets=[begin, end])
    header = json.dumps(entries).encode()
    numbers = np.random.default_rng(1)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for extents in tensors.values():
            values = numbers.standard_normal(extents, np.float32) * np.float32(0.02)
            words = values if is_wide else (values.view(np.uint32) >> 16).astype("<u2")
            file.write(words.tobytes())


class Model:
    """What both programs read, each made once in the folder."""

    def __init__(self, options, folder, shape, config, tensors):
        self.options, self.folder = options, folder
        environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
        models = [sys.executable, "-m", "optimus.models"]
        weights = folder / "weights"

        def write_program(path):
            generation = ["--generate", f"slots=1,context={CONTEXT},chunk=512"]
            flags = ["--seq", CONTEXT, "--batch", 1, *generation, "-o", path]
            run([*models, *shape.split(), *flags], env=environment)

        def write_wide(path):
            write_folder(weights, config, tensors)
            gguf = ["to-gguf", weights, "--type", "f32", "-o", path]
            run([*models, *gguf], env=environment)

        self.program = self._make("m.mlir", write_program)
        if options.llama:
            self.wide = self._make("F32.gguf", write_wide)

    def _make(self, name, write):
        """A file of the folder, which is whole if it is there."""
        path, part = self.folder / name, self.folder / ("part-" + name)
        if not path.exists():
            write(part)
            part.rename(path)
        return path

    def library(self, width):
        compiler, (flags, _) = self.options.build / "bin/optimus-compile", WIDTHS[width]
        return self._make(
            width + ".so", lambda path: run([compiler, self.program, *flags, "-o", path])
        )

    def quantized(self, width):
        """llama.cpp's file; the wide one is there already."""
        kind, threads = WIDTHS[width][1], self.options.threads
        quantize = [self.options.llama / "llama-quantize", "--pure", self.wide]
        return self._make(
            kind + ".gguf", lambda path: run([*quantize, path, kind, threads])
        )

    def jobs(self, width, torch):
        """Tokens a second of each test, by all; PyTorch where it is there."""
        build, threads = self.options.build, self.options.threads
        library = self.library(width)

        def optimus():
            flags = ["--generate", "--rounds", 1, "--json"]
            flags += ["--threads-per-rank", threads]
            found = json.loads(run([build / "bin/optimus-run", "bench", library, *flags]))
            return [found["tests"][test]["median"] for test in TESTS]

        def llama_cpp():
            flags = ["-m", file, "-t", threads, "-r", 1, "-o", "json"]
            flags += self.options.llama_flags
            found = json.loads(run([self.options.llama / "llama-bench", *flags]))
            return [one["avg_ts"] for one in sorted(found, key=lambda one: one["n_gen"])]

        def pytorch():
            found = torch.round()
            return [found[test] for test in TESTS]

        jobs = {"optimus": optimus}
        if self.options.llama:
            file = self.quantized(width)
            jobs["llama.cpp"] = llama_cpp
        if torch:
            jobs["PyTorch"] = pytorch
        return jobs


@contextlib.contextmanager
def served_torch(options, name, width):
    """PyTorch's side, where it has one."""
    if not options.torch or (name, width) not in OF_TORCH:
        yield None
        return
    command = [options.torch, pathlib.Path(__file__).with_name("torch_rates.py")]
    flags = ["--precision", width, "--threads", options.threads, "--mode", options.torch_mode]
    served = Served([*command, *flags])
    try:
        yield served
    finally:
        served.close()


@contextlib.contextmanager
def folder_for(kept, name):
    """A folder for a model, in one to keep or else for this time alone."""
    if kept is None:
        with tempfile.TemporaryDirectory() as folder:
            yield pathlib.Path(folder)
    else:
        (kept / name).mkdir(parents=True, exist_ok=True)
        yield kept / name


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--llama", type=pathlib.Path, help="the folder of setup-llama")
    parser.add_argument("--torch", metavar="PYTHON", help="one with PyTorch")
    parser.add_argument("--torch-mode", default="freezing", help="see torch_rates.py")
    parser.add_argument(
        "--llama-flags",
        type=shlex.split,
        default=[],
        help="to llama-bench; '--repack 0' where its AMX kernels do not run",
    )
    parser.add_argument("--model", choices=list(MODELS), action="append")
    parser.add_argument("--width", choices=list(WIDTHS), action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--folder", type=pathlib.Path, help="keeps what is made there")
    parser.add_argument("--prepare", action="store_true", help="with --folder: times nothing")
    options = parser.parse_args()
    if options.prepare and options.folder is None:
        parser.error("--prepare makes what --folder keeps; expected both")
    print(machine())
    rows = []
    peers = [peer for peer, there in (("llama.cpp", options.llama), ("PyTorch", options.torch))
             if there]
    for name in options.model or MODELS:
        shape, *others = MODELS[name]()
        with folder_for(options.folder, shape.split()[0]) as folder:
            model = Model(options, folder, shape, *others)
            for width in options.width or WIDTHS:
                if options.prepare:
                    model.library(width)
                    if options.llama:
                        model.quantized(width)
                    continue
                with served_torch(options, name, width) as torch:
                    turns = take_turns(model.jobs(width, torch), options.rounds)
                    rounds = [found for _, found in turns]
                for number, test in enumerate(TESTS):
                    rates = {peer: [found[peer][number] for found in rounds]
                             for peer in rounds[0]}
                    cells = [name, width, test, f"{statistics.median(rates['optimus']):.1f}"]
                    for peer in peers:
                        if peer not in rates:
                            cells += ["", ""]
                            continue
                        cells.append(f"{statistics.median(rates[peer]):.1f}")
                        ratios = [a / b for a, b in zip(rates["optimus"], rates[peer])]
                        cells.append(f"{statistics.median(ratios):.2f}")
                    rows.append(cells)
                    print(rows[-1], file=sys.stderr, flush=True)
    if not rows:
        return
    header = ["model", "weights", "test", "tokens a second"]
    for peer in peers:
        header += [peer, "ratio"]
    print(table(header, rows))


if __name__ == "__main__":
    main()
