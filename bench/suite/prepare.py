# ===- prepare - How fast text becomes tokens -------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Prepares stores of the Bible's verses in random orders, and encodes the same documents
by PyPI's tokenizers alone, in turn and on the same cores:

    bench/run prepare
    bench/run prepare --megabytes 500 --rounds 5

The library encodes its own batches (encode_batch_fast, all threads) of documents in
memory, and writes nothing. Preparing reads, splits, chooses what is held out, encodes,
hashes and writes; its time includes the start of the program. The best round of each
counts, by the clock and by seconds of the processors; other programs disturb these less.
It fails where preparing has less than 80 % of the library's rate by both, bytes less
than 300 MB/s, or a process more than 1 GB. In Markdown.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import time

from harness import ROOT, fail, table
from verses import verses

TARGETS = []
NUMBERS = dict(megabytes=50, rounds=3, verses=25)
TIMES = 10
"""Bytes are so many times the text: the program's start is a part of the time."""
LEAST_SHARE, LEAST_BYTES, MOST_MEMORY = 0.8, 300, 1000

LIBRARY = """
import json, sys, time
from optimus.data.tokenizer import library
found = library().Tokenizer.from_file(sys.argv[1])
found.no_truncation(), found.no_padding()
texts = open(sys.argv[2]).read().split("\\n\\n")
wall, cpu, tokens = time.perf_counter(), time.process_time(), 0
for begin in range(0, len(texts), 10_000):
    batch = found.encode_batch_fast(texts[begin : begin + 10_000], add_special_tokens=False)
    tokens += sum(len(one.ids) for one in batch)
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]))
"""


def write_corpus(path, megabytes, of_each):
    """Documents of some verses, as blank lines separate them."""
    lines = verses()
    generator, size = random.Random(1), 0
    with open(path, "wb") as file:
        while size < megabytes * 1e6:
            generator.shuffle(lines)
            for begin in range(0, len(lines), of_each):
                size += file.write(b"\n".join(lines[begin : begin + of_each]) + b"\n\n")


def run(command):
    """Standard output, the seconds of the clock and of the processors, and the bytes of
    the largest process."""
    begin = time.perf_counter()
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
    job = subprocess.Popen([sys.executable, *map(str, command)], env=environment,
                           stdout=subprocess.PIPE, text=True)
    said = job.stdout.read()
    _, status, used = os.wait4(job.pid, 0)
    job.returncode = os.waitstatus_to_exitcode(status)
    if job.returncode:
        fail(f"{command[1]} failed")
    cpu = used.ru_utime + used.ru_stime
    return said, (time.perf_counter() - begin, cpu), 1024 * used.ru_maxrss


def main(options, tools, folder):
    corpus, long = folder / "corpus.txt", folder / "long.txt"
    store = folder / "store"
    write_corpus(corpus, options.megabytes, options.verses)
    largest = []
    with open(long, "wb") as file:
        for _ in range(TIMES):
            file.write(corpus.read_bytes())

    def prepare(tokenizer, text=corpus, documents="blank"):
        shutil.rmtree(store, ignore_errors=True)
        command = ["-m", "optimus.data", "prepare", text, "--documents", documents]
        _, seconds, memory = run([*command, "--tokenizer", tokenizer, "-o", store])
        largest.append(memory / 1e6)
        return seconds

    prepare("train:bpe:8000")
    tokenizer = folder / "tokenizer.json"
    shutil.copy(store / "tokenizer.json", tokenizer)
    cases = {
        "tokenizers alone": lambda: json.loads(run(["-c", LIBRARY, tokenizer, corpus])[0]),
        "prepare, tokenizer.json": lambda: prepare(tokenizer),
        "prepare, bytes": lambda: prepare("bytes", long),
        "prepare, bytes, one document": lambda: prepare("bytes", long, "file"),
    }
    seconds = {name: [] for name in cases}
    for _ in range(options.rounds):
        for name, case in cases.items():
            seconds[name].append(case())
    megabytes = corpus.stat().st_size / 1e6
    best = {name: [(TIMES if "bytes" in name else 1) * megabytes / min(column)
                   for column in zip(*each)]
            for name, each in seconds.items()}
    rows = [[name, f"{wall:.1f}", f"{cpu:.1f}"] for name, (wall, cpu) in best.items()]
    memory = max(largest)
    (wall, cpu), (own_wall, own_cpu), *_ = best.values()
    share = max(own_wall / wall, own_cpu / cpu)
    text = table(["", "MB/s", "MB for a second of processors"], rows)
    cores = len(os.sched_getaffinity(0))
    text += (f"\n\n{megabytes:.0f} MB of text, and {TIMES} times as much for bytes, on {cores} "
             f"cores; preparing has {100 * share:.0f} % of the library's rate. The largest process "
             f"has {memory:.0f} MB, where a tokenizer is trained, and {max(largest[1:]):.0f} MB else.")
    mistakes = []
    if share < LEAST_SHARE:
        mistakes.append(f"preparing has {share:.2f} of the library's rate")
    if max(best["prepare, bytes"]) < LEAST_BYTES:
        mistakes.append(f"bytes take more than {LEAST_BYTES} MB/s allow")
    if memory > MOST_MEMORY:
        mistakes.append(f"a process has {memory:.0f} MB")
    return {"prepare": text}, mistakes
