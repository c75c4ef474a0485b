# ===- test_prepare_tokenizers.py - Tokenizers of stores ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus.data` encodes by PyPI's tokenizers as these do."""

import json

import numpy as np
import pytest

from optimus.data import documents, reading
from optimus.text.codec import FileCodec
from stores import MINILM, library, refused, run, texts_of, trained, verses
from tools import PYTHON_CACHE


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
        assert made.returncode == 1 and made.stderr.count("data: error:") == 1, made.stderr
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
    # An expression that backtracks until its library ends it.
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"}
    slow = dict(model, pre_tokenizer=dict(split, invert=False))
    text.write_text("a" * 60000 + "b")
    said = refuse(slow, "--jobs", 2)
    assert "text.txt: the tokenizer gives up on a document after byte 0: Onig" in said
    codec = FileCodec(json.dumps(slow).encode(), "tokenizer.json")
    with pytest.raises(ValueError, match="retry-limit"):
        codec.encode(text.read_text())
    text.write_bytes(b"caf\xe9")
    assert "expected UTF-8, found byte 0xe9" in refuse(model)
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(500 << 20)
    flags = ["--tokenizer", tmp_path / "huge", "-o", tmp_path / "store"]
    assert "expected at most" in refused(capfd, "prepare", text, *flags)
