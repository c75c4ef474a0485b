# ===- test_prepare_mistakes.py - What no store is made of -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Bad input of `optimus.data` is one message, and stores are checked and merged."""

import gzip
import json
import os
import time

import pytest

from optimus.data import encoding
from optimus.data.__main__ import main
from stores import bytes_of, compressed, corpus, prepare, refused, verses


def test_texts_that_are_none(tmp_path, capfd):
    def refuse(content, *options, name="corpus.jsonl", tokenizer="bytes"):
        path = tmp_path / name
        path.write_bytes(content)
        folder = tmp_path / "store"
        flags = ["--tokenizer", tokenizer, *options, "-o", folder]
        said = refused(capfd, "prepare", path, *flags)
        assert not list(tmp_path.glob("store*"))
        return said

    line = b'{"text": "a"}\n'
    assert "corpus.jsonl:2 is not JSON" in refuse(line + b"{,}\n")
    assert "corpus.jsonl:3 is not JSON" in refuse(line + b"\n" + b"[" * 100_000)
    said = refuse(line + b'{"body": "a"}')
    assert 'corpus.jsonl:2: expected a string in the field "text", found an object' in said
    assert "found a value of type int there" in refuse(b'{"text": 1}')
    assert "found no object" in refuse(b'"text"')
    assert "half of a surrogate pair" in refuse(rb'{"text": "\ud800"}')
    said = refuse(line + b'{"text": "%s"}' % (b"a" * 5_000_000), "--document-mb", 3)
    assert "corpus.jsonl: the line after byte 14 has more than 3 MB; --document-mb" in said
    assert "no document is left for training, of 0" in refuse(b"", name="a.txt")
    assert "no document is left for training, of 1" in refuse(
        b"a", "--held-out", 0.9999999, name="a.txt"
    )
    assert "xz -dc FILE" in refuse(b"", name="a.txt.xz")
    assert "extract its texts first" in refuse(b"", name="a.tar")
    assert "a.txt.zst: Unknown frame" in refuse(b"no frame at all", name="a.txt.zst")
    whole = compressed(b"some text" * 1000)
    assert "a.txt.zst: the last frame of zstd is cut off" in refuse(
        whole[:-3], name="a.txt.zst"
    )
    said = refuse(b"", "--field", "a,b", name="a.txt")
    assert "a.txt is text; expected lines of JSON" in said
    assert "PROMPT,COMPLETION" in refuse(line, "--field", "a,b,c")
    assert 'in the field "answer", found an object without it' in refuse(
        line, "--field", "text,answer"
    )
    packed = gzip.compress(b"some text" * 1000)
    assert "cannot read" in refuse(packed[:-20], name="a.gz")
    assert "cannot read" in refuse(b"text", name="a.gz")
    assert "--documents pages: expected file" in refuse(b"", "--documents", "pages")
    assert "expected a number from 0 to below 1" in refuse(b"", "--held-out", 1)
    assert "expected none, a token" in refuse(b"", "--document-end", 256)
    assert "expected a tokenizer.json, bytes" in refuse(b"", tokenizer="byte")
    folder = ["--tokenizer", "bytes", "-o", tmp_path / "store"]
    assert "is a folder" in refused(capfd, "prepare", tmp_path, *folder)
    assert "No such file" in refused(capfd, "prepare", tmp_path / "none", *folder)
    assert "expected a regular file" in refused(capfd, "prepare", "/dev/zero", *folder)


def test_a_document_without_an_end(tmp_path, capfd):
    """Of 2 GB, of which few are read."""
    path = tmp_path / "zeros.txt"
    path.write_bytes(b"a line\n")
    os.truncate(path, 2 << 30)
    flags = ["--tokenizer", "bytes", "-o", tmp_path / "store"]
    began = time.monotonic()
    for how in ("lines", "blank", "at=END"):
        said = refused(capfd, "prepare", path, "--documents", how, *flags)
        begin = 7 if how == "lines" else 0
        assert "zeros.txt: the document after byte %d has more than 64 MB" % begin in said
        assert "; another --documents finds shorter ones, and --document-mb allows" in said
    assert time.monotonic() - began < 30
    assert not list(tmp_path.glob("store*"))


def test_how_long_a_document_may_be(tmp_path, capfd):
    path = tmp_path / "a.txt"
    flags = ["--documents", "lines", "--document-mb", 2, "--tokenizer", "bytes"]
    for size in (2_000_000, 2_000_001):
        path.write_bytes(b"short\n" + b"x" * size + b"\nshort\n")
        store = tmp_path / str(size)
        if size == 2_000_000:
            prepare(store, path, *flags)
            assert "of 3 documents" in capfd.readouterr().out
        else:
            said = refused(capfd, "prepare", path, *flags, "-o", store)
            assert "a.txt: the document after byte 6 has more than 2 MB" in said
    # A file is one, of any size.
    prepare(tmp_path / "whole", path, "--documents", "file")


def test_an_output_is_never_replaced(tmp_path, corpus, capfd):
    folder = prepare(tmp_path / "store", corpus)
    assert "no document is held out, of 1; --documents" in capfd.readouterr().err
    before = bytes_of(folder)
    flags = ["--tokenizer", "bytes", "-o"]
    said = refused(capfd, "prepare", corpus, *flags, folder)
    assert "there is a %s already" % folder in said
    assert bytes_of(folder) == before
    other = tmp_path / "other.preparing"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    said = refused(capfd, "prepare", corpus, *flags, tmp_path / "other")
    assert "is no unfinished store: it has thesis.txt" in said
    assert (other / "thesis.txt").read_text() == "mine"
    said = refused(capfd, "prepare", corpus, *flags, tmp_path / "nowhere" / "store")
    assert "cannot write '%s': No such file" % (tmp_path / "nowhere" / "store") in said
    said = refused(capfd, "prepare", corpus, *flags, "/")
    assert "expected the name of a folder to make" in said


@pytest.fixture
def small(tmp_path, corpus):
    options = ["--documents", "lines", "--shard-tokens", 20_000, "--held-out", 0.1]
    return prepare(tmp_path / "store", corpus, *options)


def test_check_finds_what_differs(small, capfd):
    def refuse(path, content):
        before = path.read_bytes() if path.exists() else None
        path.write_bytes(content)
        said = refused(capfd, "check", small)
        path.unlink()
        if before is not None:
            path.write_bytes(before)
        assert main(["check", str(small)]) == 0
        return said

    shard = small / "train/00001.bin"
    content = bytearray(shard.read_bytes())
    content[777] ^= 1
    assert "00001.bin is damaged" in refuse(shard, bytes(content))
    assert "has 19999 bytes, by the index it has 20000" in refuse(shard, content[:-1])
    ends = small / "held-out/00000.ends"
    assert "00000.ends is damaged" in refuse(ends, bytes(len(ends.read_bytes())))
    assert "has no file more" in refuse(small / "train/more", b"")
    index = json.loads((small / "index.json").read_text())

    def lie(change):
        changed = json.loads(json.dumps(index))
        change(changed)
        return refuse(small / "index.json", json.dumps(changed).encode())

    assert "its format is 3" in lie(lambda index: index.update(format=3))
    assert "expected 5 members" in lie(lambda index: index.update(format=2))
    assert "document_end: expected" in lie(lambda index: index.update(document_end=256))
    assert "vocabulary: expected" in lie(lambda index: index.update(vocabulary=1 << 40))
    shards = lambda index: index["splits"]["train"]["shards"]
    assert "tokens is" in lie(lambda index: shards(index)[0].__setitem__(0, 7000))
    assert "expected 4 members" in lie(lambda index: shards(index).append([1]))
    assert "expected a whole number" in lie(lambda index: shards(index)[0].__setitem__(1, -1))
    assert "expected the splits" in lie(lambda index: index["splits"].pop("train"))
    assert "is not JSON" in refuse(small / "index.json", b"[" * 100_000)
    assert "expected an object" in refuse(small / "index.json", b"[]")
    (small / "index.json").unlink()
    assert "is no store: cannot read" in refused(capfd, "check", small)
    os.mkfifo(small / "index.json")
    assert "it is not a regular file" in refused(capfd, "show", small)


def test_stores_of_two_tokenizers_are_not_merged(small, tmp_path, corpus, capfd):
    other = prepare(tmp_path / "other", corpus, "--document-end", 10)
    said = refused(capfd, "merge", small, other, "-o", tmp_path / "both")
    assert "differ in end: 0 and 10" in said
    shard = small / "train/00001.bin"
    shard.write_bytes(bytes(shard.stat().st_size))
    said = refused(capfd, "merge", small, small, "-o", tmp_path / "both")
    assert "train/00001.bin is damaged" in said
    assert not list(tmp_path.glob("both*"))


def test_held_out_documents_are_a_share():
    threshold = int(0.25 * 2**64)
    held = [encoding.is_held_out(b"document %d" % i, threshold) for i in range(4000)]
    # Five standard deviations of a binomial distribution.
    assert abs(sum(held) - 1000) < 5 * (4000 * 0.25 * 0.75) ** 0.5
