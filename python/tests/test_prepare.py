# ===- test_prepare.py - Text becomes a store of tokens ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus.data` prepares stores; optimus-run reads them in test_store.py."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest

from optimus.arguments import Mistake
from optimus.data import documents, encoding, hashing, parquet, store
from optimus.data.__main__ import main
from stores import (
    both,
    bytes_of,
    compressed,
    corpus,
    environment,
    labels_of,
    library,
    needs_tokenizers,
    prepare,
    refused,
    run,
    texts_of,
    trained,
    verses,
)


def test_bytes_and_boundaries_are_those_of_the_text(tmp_path, corpus, verses, capfd):
    options = ["--documents", "lines", "--held-out", 0.1, "--shard-tokens", 1000]
    folder = prepare(tmp_path / "store", corpus, *options)
    said = capfd.readouterr().out
    train, held_out = texts_of(folder), texts_of(folder, "held-out")
    # In order, each with its end, in whichever shard.
    expected = {True: [], False: []}
    for verse in verses:
        text = verse.encode()
        is_held = hashing.hash64(text) < 0.1 * 2**64
        expected[is_held].append(text + b"\0")
    assert [bytes(tokens) for tokens in train] == expected[False]
    assert [bytes(tokens) for tokens in held_out] == expected[True]
    assert 130 < len(held_out) < 270
    assert len(list((folder / "train").iterdir())) > 20
    counts = sum(map(len, train)), len(train), sum(map(len, held_out)), len(held_out)
    message = "%d tokens of %d documents, and %d of %d held out" % counts
    assert message in said
    assert main(["show", str(folder)]) == 0
    assert message in capfd.readouterr().out
    assert main(["check", str(folder)]) == 0


def test_more_files_move_no_document(tmp_path, corpus, verses):
    other = tmp_path / "other.txt"
    other.write_text("\n".join("another " + verse for verse in verses))
    options = ["--documents", "lines", "--held-out", 0.2]
    alone = prepare(tmp_path / "alone", corpus, *options)
    more = prepare(tmp_path / "more", other, corpus, *options)
    for split in store.SPLITS:
        few = {bytes(tokens) for tokens in texts_of(alone, split)}
        many = {bytes(tokens) for tokens in texts_of(more, split)}
        assert few and few < many
    # Merged, they are those of one preparation.
    second = prepare(tmp_path / "second", other, *options)
    merged = tmp_path / "merged"
    assert main(["merge", str(second), str(alone), "-o", str(merged)]) == 0
    assert main(["check", str(merged)]) == 0
    for split in store.SPLITS:
        found, expected = texts_of(merged, split), texts_of(more, split)
        assert list(map(bytes, found)) == list(map(bytes, expected))


def test_documents_are_what_is_asked_for(tmp_path, verses):
    def found(content, *options, name="corpus.txt"):
        path = tmp_path / name
        path.write_bytes(content)
        for old in tmp_path.glob("store"):
            subprocess.run(["rm", "-r", old], check=True)
        return both(prepare(tmp_path / "store", path, "--held-out", 0, *options))

    few = [verse.encode() for verse in verses[:9]]
    lines = b"\n".join(few)
    assert found(lines) == [lines]
    assert found(b"\n\n" + b"\r\n".join(few), "--documents", "lines") == few
    blank = b"\n\n\n" + b"\n \t\n\n".join(few) + b"\n\n"
    assert found(blank, "--documents", "blank") == few
    assert found(b"\r\n\r\n".join(few), "--documents", "blank") == few
    assert found(b"<e>".join(few), "--documents", "at=<e>") == few
    texts = [verse + "\n\nmore\0" for verse in verses[:9]]
    objects = [json.dumps({"id": 1, "text": text}) for text in texts]
    encoded = [text.encode() for text in texts]
    lined = ("\n".join(objects) + "\n\n").encode()
    assert found(lined, name="c.jsonl") == encoded
    assert found(lined.replace(b"text", b"body"), "--field", "body", name="d.jsonl") == encoded
    assert found(gzip.compress(lined), name="c.jsonl.gz") == encoded
    assert found(gzip.compress(lines), name="c.gz") == [lines]
    # Frames follow each other, and may be empty.
    half = len(lined) // 2
    frames = compressed(lined[:half]) + compressed(b"") + compressed(lined[half:])
    assert found(frames, name="c.jsonl.zst") == encoded
    assert found(compressed(b"a" * (5 << 20)), name="c.txt.zst") == [b"a" * (5 << 20)]
    assert found(lines, "--document-end", "10") == [lines]


@pytest.mark.parametrize("name", ["bytes", pytest.param("file", marks=needs_tokenizers)])
def test_tokens_of_prompts_are_no_labels(tmp_path, verses, name, request, capfd):
    tokenizer, encode = "bytes", lambda text: list(text.encode())
    if name == "file":
        tokenizer = request.getfixturevalue("trained") / "one"
        library = request.getfixturevalue("library")
        found = library.Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
        encode = lambda text: found.encode(text, add_special_tokens=False).ids
    pairs = list(zip(verses[:300], verses[300:600]))
    pairs[3], pairs[5], pairs[7] = ("", "only"), ("asked", ""), ("", "")
    path = tmp_path / "pairs.jsonl"
    lines = [json.dumps({"q": one, "a": other, "id": 1}) for one, other in pairs]
    path.write_text("\n".join(lines))
    options = ["--field", "q,a", "--held-out", 0.2, "--shard-tokens", 1001]
    command = ["prepare", path, *options, "--tokenizer", tokenizer, "-o"]
    made = run(*command, tmp_path / "store")
    assert made.returncode == 0, made.stderr
    threshold = int(0.2 * 2**64)
    del pairs[7]
    for split in store.SPLITS:
        ours = [
            (encode(one), encode(other))
            for one, other in pairs
            if encoding.is_held_out((one + other).encode(), threshold) == (split != "train")
        ]
        texts, labels = texts_of(tmp_path / "store", split), labels_of(tmp_path / "store", split)
        assert len(texts) == len(labels) == len(ours) > 20
        for (one, other), tokens, asked in zip(ours, texts, labels):
            assert list(tokens[:-1]) == one + other
            # The end is asked for, too.
            assert list(asked) == [0] * len(one) + [1] * (len(other) + 1)
    assert main(["check", str(tmp_path / "store")]) == 0
    assert main(["show", str(tmp_path / "store")]) == 0
    assert "some tokens are none" in capfd.readouterr().out
    both_stores = [str(tmp_path / "store")] * 2
    assert main(["merge", *both_stores, "-o", str(tmp_path / "both")]) == 0
    assert len(labels_of(tmp_path / "both")) == 2 * len(labels_of(tmp_path / "store"))
    # Who asks for one prompt less.
    labels = tmp_path / "store/train/00000.labels"
    labels.write_bytes(b"\xff" + labels.read_bytes()[1:])
    assert "00000.labels is damaged" in refused(capfd, "check", tmp_path / "store")


def test_first_tokens_are_no_labels_where_asked(tmp_path, verses, monkeypatch):
    monkeypatch.setattr(documents, "PIECE", 2000)
    long = "\n".join(verses[:900])
    (tmp_path / "a.txt").write_text("<e>".join([*verses[:20], long, *verses[900:920]]))
    options = ["--documents", "at=<e>", "--held-out", 0, "--no-first-targets"]
    folder = prepare(tmp_path / "store", tmp_path / "a.txt", *options)
    labels = labels_of(folder)
    assert len(labels) == 41
    # Pieces of a long document have no first tokens of their own.
    for asked in labels:
        assert asked[0] == 0 and asked[1:].all()


def test_rows_of_parquet_are_documents(tmp_path, verses, capfd):
    try:
        arrow = parquet.library()
    except Mistake as mistake:
        pytest.skip(str(mistake))
    import pyarrow

    texts = [*verses[:1000], "two\nlines\0"]
    columns = {"text": texts, "prompt": verses[1000:2000] + ["p"], "n": range(1001)}
    table = pyarrow.table({name: list(column) for name, column in columns.items()})
    path = tmp_path / "a.parquet"
    arrow.write_table(table, path, row_group_size=300)
    folder = prepare(tmp_path / "store", path, "--held-out", 0)
    assert both(folder) == [text.encode() for text in texts]
    prepare(tmp_path / "pairs", path, "--held-out", 0, "--field", "prompt,text")
    lengths = [len(text.encode()) for text in columns["prompt"]]
    assert [list(asked).index(1) for asked in labels_of(tmp_path / "pairs")] == lengths

    def refuse(*options):
        given = [path, "--tokenizer", "bytes", "-o", tmp_path / "none", *options]
        return refused(capfd, "prepare", *given)

    assert "it has no column body, but text, prompt, n" in refuse("--field", "body")
    assert 'field "n", found a value of type int' in refuse("--field", "n")
    path.write_bytes(path.read_bytes()[:-100])
    assert "cannot read %s: " % path in refuse()


def test_standard_input_is_a_file_too(tmp_path, corpus):
    options = ["--documents", "lines", "--tokenizer", "bytes"]
    expected = prepare(tmp_path / "file", corpus, "--documents", "lines")
    command = [sys.executable, "-m", "optimus.data", "prepare", "-", *options, "-o"]
    with open(corpus, "rb") as file:
        stream = tmp_path / "stream"
        subprocess.run([*command, stream], stdin=file, env=environment(), check=True)
    assert bytes_of(tmp_path / "stream") == bytes_of(expected)


def test_long_documents_come_in_pieces_wherever_reading_begins(monkeypatch, verses):
    monkeypatch.setattr(documents, "PIECE", 2000)
    rng = np.random.default_rng(4)
    text = "\n".join(verses[:300]).encode() + b"x" * 5000 + "漢".encode() * 3000
    whole = b"\n\n".join([text, text[:1990], b"", text[:2300] + b"\n" * 200, text[:4100]])
    splitter = documents.SPLITTERS["blank"]

    def split(offset, is_inside):
        """(piece, whether the document ends with it, place after it)"""
        at = [offset]

        def read(count):
            block = whole[at[0] : at[0] + count]
            at[0] += count
            return block

        for batch in documents.split(read, splitter, offset, is_inside):
            # Only the last of a batch is known to have a place after it.
            yield batch.texts, batch.ends, batch.after

    def flat(batches):
        found = [b""]
        for texts, ends, _ in batches:
            found[-1] += texts[0]
            found += texts[1:]
            found += [b""] if ends else []
        return found[:-1]

    expected = [text, text[:1990], text[:2300], text[:4100].rstrip(b"\n")]
    seen = None
    for block in (1, 100, 1999, 2000, 5000, 1 << 20):
        monkeypatch.setattr(documents, "BLOCK", block)
        batches = list(split(0, False))
        assert flat(batches) == expected
        cut = [texts[-1] for texts, ends, _ in batches if not ends]
        assert all(len(piece) <= 2000 for piece in cut) and len(cut) > 10
        for piece in cut:
            piece.decode("utf-8")
        assert seen in (None, cut)
        seen = cut
    monkeypatch.setattr(documents, "BLOCK", 700)
    for number in rng.integers(1, len(batches) - 1, 5):
        rest = list(split(batches[number][2], not batches[number][1]))
        begun = batches[: number + 1]
        assert flat([*begun, *rest]) == expected
