#!/usr/bin/env python3
# ===- seeds.py - What the fuzzers begin with ------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes small inputs of every kind that the tools read, as the tools write them.

seeds.py BINARIES FOLDER: a folder a target, and `inputs` with what command
lines refer to.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

SHAPE = "--layers 1 --hidden 8 --heads 2 --seq 4 --vocab 16 --batch 4".split()
MODELS = {
    "gpt2": ["--dropout", "0.1"],
    "bert": [],
    "llama": ["--kv-heads", "1", "--ffn", "12"],
}
# The meshes, strategies and precisions that differ most in what they make of a program.
LAYOUTS = {
    "gpt2": [
        ("row:1,col:1", "serial", "f32"),
        ("row:2,col:2", "summa", "f32"),
        ("row:1,col:2", "summa", "bf16"),
    ],
    "bert": [("row:2,col:2", "megatron-sp", "f32")],
    "llama": [
        ("row:2,col:2", "summa-paper", "f32"),
        ("data:2,row:1,col:2", "summa", "f32"),
        ("row:1,col:2", "megatron", "bf16"),
    ],
}

CSV = {
    "plain": "id,lower,upper,size\n0,0,3,100\n1,1,2,50\n2,2,5,7\n3,4,9,1000\n",
    "aligned": "id,lower,upper,size,alignment\n0,0,3,100,64\n1,1,2,50,1\n2,2,5,7,256\n",
    "fixed": "id,lower,upper,size,gaps,offset\n0,0,9,100,2-4 5-6,\n1,1,4,50,,64\n2,2,5,7,3-4,\n",
}

CLUSTER = """\
{"version": 1, "nodes": {"devices": 4, "nics": 2},
 "device_link": {"bytes_per_s": 4e11, "latency_s": 5e-6},
 "nic": {"bytes_per_s": 5e10, "latency_s": 1e-5},
 "pcie": {"devices": 2, "bytes_per_s": 2e10, "nics": "root"},
 "switch": {"nodes": 4, "oversubscription": 2},
 "placement": {"tile": {"row": 2, "col": 2}}}
"""

# On the one axis of what the fuzzer simulates, of 16 ranks.
SOCKETS = """\
{"version": 1, "nodes": {"devices": 8, "nics": 1, "machine_profile": "h100x8"},
 "device_link": {"bytes_per_s": 4e11, "latency_s": 5e-6},
 "nic": {"bytes_per_s": 5e10, "latency_s": 1e-5},
 "sockets": {"devices": 4, "bytes_per_s": 2e10, "latency_s": 1e-6},
 "measured": [{"collective": "all_reduce", "ranks": 16, "nodes": 2,
               "points": [{"bytes": 1024, "seconds": 1e-5}, {"bytes": 4194304, "seconds": 1e-3}]}],
 "placement": {"devices": [0, 5, 10, 15, 4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11]}}
"""

# Of what the fuzzer simulates; `device` is of its machine alone.
ALL_CHANGES = """\
straggler spread=0.1,seed=7
bucket all_*=25MiB
priority all_*
device h200x8
remove all_reduce
fuse launch
overlap none
"""
CHANGES = "scale h.*=0.5\nstraggler 0=2\nnetwork latency=2\ninsert rank=0/gemm=20us\n"

# Each line is a command; it runs in `inputs`.
COMMANDS = """\
optimus-compile gpt2.mlir --mesh row:2,col:2 --strategy summa --report -o out.so
optimus-compile gpt2.mlir --mesh data:2,row:1,col:2 --optimizer lamb --accumulate -o out.so
optimus-compile gpt2.mlir --strategy auto --ranks 4 --memory-budget 16MiB -o out.so
optimus-compile gpt2.mlir --recompute layer --schedule none --mcpu native --no-pad -o out.so
optimus-compile llama.mlir --mesh row:2,col:2 --move panels --panels 4 --layout *.mlp.down_proj.weight=row,col -o out.so
optimus-compile gpt2.mlir --machine-profile profile.json --tune-products --extra-workspace 20% -o out.so
optimus-compile gpt2.mlir --lanes 3 --report -o out.so
optimus-compile gpt2.mlir --compile-to place --dump-phases-to dumps -o out.mlir
optimus-compile place.mlir --compile-from place --mesh row:2,col:2 --strategy summa -o out.so
optimus-opt gpt2.mlir --optimus-differentiate --optimus-shard='mesh=row:2,col:2 strategy=summa' --optimus-partition -o out.mlir
optimus-opt gpt2.mlir --optimus-build-step=optimizer=sgd --canonicalize --cse
optimus-opt gpt2.mlir --pass-pipeline='builtin.module(optimus-differentiate,cse)' --mlir-timing
optimus-interpret gpt2.mlir --function loss --draw 16 --seed 3 --print
optimus-interpret gpt2.mlir --function loss --inputs inputs --outputs outputs --set lr=0.5
optimus-interpret gpt2.mlir --gradcheck --gradcheck-limit 3 --draw 16
optimus-plan ranges.csv --capacity 4096 --good-enough 1.0 --node-limit 1000 -o plan.csv --report
optimus-plan ranges.csv --timeout 1
optimus-run train gpt2.so --data text.txt --steps 2 --lr 1e-3 --schedule cosine --warmup 1 --save saved --save-every 1 --overwrite
optimus-run train gpt2.so --data text.txt --steps 3 --load checkpoint --log-json log.jsonl --order sequential --seed 7
optimus-run train gpt2.so --data tokens.bin --steps 2 --weight-decay 0.1 --clip 1.0 --beta1 0.9 --beta2 0.95 --epsilon 1e-8
optimus-run train gpt2.so --data text.txt --steps 2 --eval-data text.txt --eval-every 1 --backend local --device cpu --threads-per-rank 1 --timeout 5
optimus-run train gpt2.so --data tokens.bin --token-type u16 --steps 3 --load checkpoint --restart-data
optimus-run eval gpt2.so --data text.txt --load checkpoint --json
optimus-run verify gpt2.so gpt2.so --data text.txt --step-index 1 --json
optimus-run inspect gpt2.so --json
optimus-simulate gpt2.so --straggler 0=1.5 --scale 'h.*=0.5' --network bandwidth=2,latency=0.5 --overlap none --json answer.json
optimus-simulate gpt2.so --what-if changes --remove gemm --sensitivity --slack --interval --machine-profile profile.json --fail mtbf=3h,checkpoint=30s,restart=5min
optimus-simulate gpt2.so --cluster cluster.json --machine-profile profile.json --function train
optimus-run bench gpt2.so --steps 1 --warmup 0
"""


class Tools:
    def __init__(self, binaries: Path):
        self.binaries = binaries

    def run(self, tool: str, *arguments) -> str:
        command = [str(self.binaries / tool), *map(str, arguments)]
        return subprocess.run(
            command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ).stdout.decode()


def safetensors_header(path: Path) -> dict:
    """A header like that of the file, with tensors that fill 4,096 bytes."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = {}
    begin = 0
    for name in list(json.loads(data[8 : 8 + size]))[:5]:
        if name != "__metadata__":
            offsets = [begin, begin + 16]
            header[name] = dict(dtype="F32", shape=[2, 2], data_offsets=offsets)
            begin += 16
    rest = dict(
        dtype="F32", shape=[(4096 - begin) // 4], data_offsets=[begin, 4096]
    )
    return {**header, "rest": rest}


def configs():
    """A config.json of each family, with the name of a file."""
    sys.path.insert(0, str(REPOSITORY / "python"))
    from optimus.models import bert, gpt2, gpt_neox, llama, phi, published, rope

    shape = dict(layers=1, hidden=8, heads=2, sequence=4, vocabulary=16, batch=4)
    llamas = dict(shape, kv_heads=1, ffn=12)
    scaling = rope.Scaling("llama3", 8.0)
    known = [
        ("gpt2", gpt2.Config(**shape)),
        ("bert", bert.Config(**shape)),
        ("llama", llama.Config(**llamas, rope_scaling=scaling)),
        ("llama", llama.Config(**llamas, window=2)),
        ("llama", llama.Config(**llamas, qkv_bias=True)),
        ("llama", llama.Config(**llamas, qk_norm=True, head_width=6)),
        ("phi", phi.Config(**shape, rotary_dim=2)),
        ("gpt_neox", gpt_neox.Config(**shape, rotary_dim=2)),
    ]
    found = [published.config_of(kind, config) for kind, config in known]
    return [(fields["model_type"], fields) for fields in found]


def store_index(width: int, has_labels: bool = False) -> dict:
    """Of StoreFuzzer's shards, with tokens of so many bytes."""
    from optimus.data.store import Description, Shard, index_of

    known = {"<|endoftext|>": 1}
    most = min(60000, 1 << 8 * width)
    described = (*("u%d" % (8 * width), most), "tokenizer.json", "0123456789abcdef")
    hashes = "0" * 16, "0" * 16 if has_labels else None
    shards = lambda *sizes: [Shard(size // width, 1, "%016x" % size, *hashes) for size in sizes]
    return index_of(
        Description(*described, known, 1, 0.01, has_labels),
        {"train": shards(8, 24, 16), "held-out": shards(8)},
    )


def greetings():
    """Of GreetingFuzzer: the end that hears it, then what it hears."""
    digits = "0123456789abcdef" * 4
    greeting = "optimus-run 0.1\njob\n4 1\nprocess 1 on here\nnet:1\nnet:1 %s 4711 10.0.0.1\n"
    framed = lambda text: "OPTIMUS\n%08x%s" % (len(text), text)
    introduction = framed(digits + "\n" + greeting % digits)
    yield "hello", "1" + framed(digits)
    yield "introduction", "1" + introduction
    yield "whole", "1" + framed(digits) + introduction
    yield "challenge", "0" + digits + "\nprocess 1 on here"
    yield "answer", "0" + digits + "\n\n" + "here\nnet:1\nnet:1 10.0.0.1\n" * 4
    yield "refusal", "0secret"


def main() -> None:
    tools, folder = Tools(Path(sys.argv[1])), Path(sys.argv[2])
    inputs = folder / "inputs"
    targets = "programs", "tables", "csv", "profiles", "manifests", "checkpoints", "clusters"
    targets += "config", "folder", "store", "whatifs"
    for target in (*targets, "greeting", "commands", "inputs"):
        (folder / target).mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = str(REPOSITORY / "python")

    for model, flags in MODELS.items():
        program = inputs / (model + ".mlir")
        builder = [sys.executable, "-m", "optimus.models", model, *SHAPE, *flags]
        subprocess.run([*builder, "-o", str(program)], check=True)
        for mesh, strategy, precision in LAYOUTS[model]:
            options = ["--mesh", mesh, "--strategy", strategy, "--precision", precision]
            library = inputs / (model + ".so")
            dumps = inputs / "dumps"
            tools.run(
                "optimus-compile", program, *options, "--accumulate",
                *("--dump-phases-to", dumps, "-o", library),
            )
            name = "%s-%s-%s" % (model, strategy, precision)
            shutil.copy(library, folder / "tables" / (name + ".so"))
            for dump in sorted(dumps.iterdir()):
                phase = dump.stem[3:]
                first = "// %s %s %s %s\n" % (mesh, strategy, precision, phase)
                seed = folder / "programs" / ("%s-%s.mlir" % (name, phase))
                seed.write_text(first + dump.read_text())
                if phase == "place":
                    (inputs / "place.mlir").write_text(dump.read_text())
                dump.unlink()
            dumps.rmdir()
            manifest = tools.run("optimus-run", "inspect", library, "--json")
            (folder / "manifests" / (name + ".json")).write_text(manifest)
        if model == "gpt2":
            tools.run("optimus-compile", program, "-o", library)

    (inputs / "text.txt").write_bytes(bytes(i * 7 % 16 for i in range(400)))
    (inputs / "tokens.bin").write_bytes(bytes(i % 3 for i in range(400) for _ in "ab"))
    profile = inputs / "profile.json"
    if not profile.exists():
        for what in (["--comm", "--ranks", 2, "--max-bytes", 4096], ["--gemm"]):
            tools.run("optimus-run", "bench", *what, "--profile", profile)
    (folder / "profiles" / "measured").write_text(profile.read_text())
    (inputs / "cluster.json").write_text(CLUSTER)
    (inputs / "changes").write_text(CHANGES)
    (folder / "whatifs" / "whole").write_text(CHANGES)
    (folder / "whatifs" / "others").write_text(ALL_CHANGES)
    (folder / "clusters" / "sockets").write_text(SOCKETS)
    tiled = CLUSTER.replace('"row": 2, "col": 2', '"ranks": 4')
    (folder / "clusters" / "whole").write_text(tiled)
    known = tools.run("optimus-simulate", "--print-cluster", "h100")
    (folder / "clusters" / "h100").write_text(known)
    checkpoint = inputs / "checkpoint"
    tools.run(
        "optimus-run", "train", inputs / "gpt2.so", "--data", inputs / "text.txt",
        *("--steps", 1, "--save", checkpoint),
    )
    parts = [json.loads((checkpoint / "state.json").read_text())]
    for name in "model.safetensors", "optimizer.safetensors":
        parts.append(safetensors_header(checkpoint / name))
    text = "\n====\n".join(json.dumps(part, indent=1) for part in parts)
    (folder / "checkpoints" / "gpt2").write_text(text)
    for name, config in configs():
        (folder / "config" / name).write_text(json.dumps(config, indent=1))
    header = safetensors_header(checkpoint / "model.safetensors")
    names = [name for name in header if name != "__metadata__"]
    other = {"x." + name: header[name] for name in names}
    files = {name: "ab"[name in other] + ".safetensors" for name in [*names, *other]}
    parts = [configs()[0][1], header, other, {"weight_map": files}]
    for name, some in ("one", parts[:2]), ("two", parts):
        text = "\n====\n".join(json.dumps(part, indent=1) for part in some)
        (folder / "folder" / name).write_text(text)
    for width in 2, 4:
        text = json.dumps(store_index(width), indent=1)
        (folder / "store" / ("u%d" % (8 * width))).write_text(text)
    text = json.dumps(store_index(1, has_labels=True), indent=1)
    (folder / "store" / "labels").write_text(text)
    for name, text in CSV.items():
        (folder / "csv" / name).write_text(text)
    for name, text in greetings():
        (folder / "greeting" / name).write_text(text)
    (inputs / "ranges.csv").write_text(CSV["plain"])
    (folder / "commands" / "all").write_text(COMMANDS)


if __name__ == "__main__":
    main()
