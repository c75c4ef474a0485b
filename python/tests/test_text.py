# ===- test_text.py - Text as its tokens come ------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Pieces of an answer are whole characters, stops end it wherever they fall, and a
template that nobody vouches for has no way out."""

import json
import os
import random
import subprocess
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor

import pytest

from optimus.arguments import Mistake
from optimus.text import chat, folder, model, pooling
from optimus.text.chat import ChatError, ChatTemplate
from optimus.text.codec import Codec, FileCodec
from optimus.text.streaming import StopMatcher, TextStream, TokenDecoder
from tools import has_tokenizers

needs_tokenizers = pytest.mark.skipif(
    not has_tokenizers(), reason="no tokenizers: scripts/setup --python brings it"
)
ALPHABET = "ab é€😀\u0301漢\n"


@pytest.fixture(scope="session")
def file_codec(tokenizer_json) -> FileCodec:
    return FileCodec(tokenizer_json, "tokenizer.json")


@pytest.fixture(params=["bytes", pytest.param("file", marks=needs_tokenizers)])
def codec(request):
    return Codec() if request.param == "bytes" else request.getfixturevalue("file_codec")


def test_pieces_are_whole_characters(codec):
    draw = random.Random(1)
    for _ in range(200):
        text = "".join(draw.choices(ALPHABET, k=draw.randrange(1, 30)))
        decoder = TokenDecoder(codec)
        pieces = [decoder.push(token) for token in codec.encode(text)]
        assert decoder.end() == ""
        assert "".join(pieces) == text
        assert not any("\ufffd" in piece for piece in pieces)


def test_tokens_without_sense_are_held_no_longer_than_a_character(codec):
    """What is no text comes as decoding all of it has it."""
    draw = random.Random(2)
    for _ in range(200):
        tokens = [draw.randrange(codec.vocabulary) for _ in range(draw.randrange(1, 80))]
        if draw.random() < 0.3:
            tokens += 20 * codec.encode("é")[:1]
        decoder, said = TokenDecoder(codec), ""
        for count, token in enumerate(tokens, 1):
            said += decoder.push(token)
            assert len(codec.decode(tokens[:count])) - len(said) <= 8
        assert said + decoder.end() == codec.decode(tokens)


def test_a_stop_is_found_wherever_pieces_end():
    draw = random.Random(3)
    for _ in range(3000):
        text = "".join(draw.choices("abc", k=draw.randrange(12)))
        stops = ["".join(draw.choices("abc", k=draw.randrange(1, 4))) for _ in range(2)]
        # The first that is complete, of these the longest.
        ends = [i for i in range(len(text) + 1) if any(text[:i].endswith(s) for s in stops)]
        expected = text
        if ends:
            longest = max(len(stop) for stop in stops if text[: ends[0]].endswith(stop))
            expected = text[: ends[0] - longest]
        matcher, said, at = StopMatcher(stops), "", 0
        while at < len(text) and not matcher.has_stopped:
            size = draw.randrange(1, 4)
            said += matcher.push(text[at : at + size])
            assert expected.startswith(said)
            at += size
        assert matcher.has_stopped == bool(ends)
        assert said + ("" if ends else matcher.end()) == expected


def test_tokens_come_with_their_text():
    stream = TextStream(Codec(), ["stop"])
    pieces = [stream.push([byte], [number]) for number, byte in enumerate("é st.stop!".encode())]
    assert [piece.text for piece in pieces][:7] == ["", "é", " ", "", "", "st.", ""]
    spoken = [one for piece in pieces for one in piece.tokens]
    assert bytes(one.token for one in spoken).decode() == "é st."
    assert [one.offset for one in spoken] == [0, 0, 1, 2, 3, 4]
    assert [one.score for one in spoken] == list(range(6))
    assert stream.has_stopped and stream.end() == ("", [])
    held = TextStream(Codec(), ["stop"])
    assert held.push(list(b"a sto")).text == "a "
    assert held.end().text == "sto"


@needs_tokenizers
def test_names_of_special_tokens_in_a_prompt_are_text(file_codec):
    assert file_codec.special == {"<|end|>"}
    (end,) = file_codec.encode_chat("<|end|>")
    assert len(file_codec.encode("<|end|>")) > 1
    assert file_codec.decode([end]) == "" and file_codec.token(end) == "<|end|>"
    with pytest.raises(ValueError, match="expected text"):
        file_codec.encode("\ud800")
    with pytest.raises(ValueError, match=r"half a character \(.ud800\) at 1"):
        Codec().encode("a\ud800")


# ----------------------------------------------------------------------- folders


@pytest.mark.parametrize("place", [3, None, ["1_Pooling"]])
def test_a_module_whose_path_is_no_text(tmp_path, place):
    modules = [{"type": "sentence_transformers.models.Pooling", "path": place}]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(Mistake, match="expected a list of modules, each with type and path"):
        pooling.read(str(tmp_path))


@needs_tokenizers
def test_a_folder_says_how_texts_end(tokenizer_json, tmp_path):
    def write(name, content):
        (tmp_path / name).write_text(json.dumps(content))

    with pytest.raises(Mistake, match="has no tokenizer.json, and the model's 300 tokens"):
        folder.read([str(tmp_path)], None, 300)
    assert folder.read([str(tmp_path)], None, 256).codec.name == "bytes"
    (tmp_path / "tokenizer.json").write_bytes(tokenizer_json)
    with pytest.raises(Mistake, match="the tokenizer has 300 tokens, and the library's model 299"):
        folder.read([str(tmp_path)], None, 299)
    write("config.json", {"eos_token_id": 50256})
    assert folder.read([str(tmp_path)], None, 300).ends == []
    write("generation_config.json", {"eos_token_id": [7, 9]})
    settings = {"chat_template": "x", "bos_token": {"content": "<|end|>"}, "eos_token": None}
    write("tokenizer_config.json", settings)
    found = folder.read([str(tmp_path)], None, 300)
    assert (found.ends, found.template) == ([7, 9], "x")
    assert found.names == {"bos_token": "<|end|>"}
    write("tokenizer_config.json", {"chat_template": [{"name": "default", "template": "y"}]})
    assert folder.read([str(tmp_path)], None, 300).template == "y"
    (tmp_path / "chat_template.jinja").write_text("z")
    assert folder.read([str(tmp_path)], None, 300).template == "z"
    write("generation_config.json", {"eos_token_id": -1})
    with pytest.raises(Mistake, match="eos_token_id is -1; expected tokens"):
        folder.read([str(tmp_path)], None, 300)


def test_adapters_speak_as_the_weights_beside_them(tmp_path):
    adapters, base, other = (tmp_path / name for name in ("adapters", "base", "other"))
    for path in (adapters, base, other):
        path.mkdir()
    assert folder.of_model(str(base), "") == [str(base)]
    written = adapters / "adapter_config.json"
    for named in (str(base), "../base"):
        written.write_text(json.dumps({"base_model_name_or_path": named}))
        (_, found) = folders = folder.of_model(str(adapters), "")
        assert os.path.samefile(found, base)
    assert folder.of_model(str(adapters), str(other)) == [str(adapters), str(other)]
    # A name of a hub is no folder here.
    written.write_text(json.dumps({"base_model_name_or_path": "gpt2"}))
    assert folder.of_model(str(adapters), "") == [str(adapters)]
    (base / "chat_template.jinja").write_text("base's")
    (base / "config.json").write_text(json.dumps({"eos_token_id": 3}))
    found = folder.read(folders, None, 256)
    assert (found.template, found.ends) == ("base's", [3])
    (adapters / "chat_template.jinja").write_text("its own")
    assert folder.read(folders, None, 256).template == "its own"


# --------------------------------------------------------------------- templates


@pytest.fixture
def little_time(monkeypatch):
    """For what never ends."""
    monkeypatch.setattr(chat, "SECONDS", 0.2)


CHAT = [{"role": "user", "content": " Grüße "}]
PLAIN = (
    "{{ bos_token }}{% for m in messages %}\n"
    "    [{{ m['role'] }}] {{ m.content | trim | tojson }}\n"
    "{% endfor %}{% if add_generation_prompt %}>{% endif %}"
)


def test_templates_are_those_of_transformers():
    template = ChatTemplate(PLAIN, {"bos_token": "<s>"}, ["<s>"])
    assert template.render(CHAT) == '<s>    [user] "Grüße"\n>'
    with pytest.raises(ChatError, match="message 0 has the name of a special token, <s>"):
        template.render([{"role": "user", "content": "a <s> b"}])
    assert template.render(CHAT) == '<s>    [user] "Grüße"\n>'
    template.close()


@pytest.mark.parametrize(
    "source, reason",
    [
        ("{{ 'a' * 10000000000 }}", "more than 256 MiB of memory"),
        ("{{ 'a' * 10000000 }}", "more than 4194304 characters"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ cycler.__init__.__globals__.os.popen('id').read() }}", "unsafe"),
        ("{{ messages.append(3) }}", "unsafe"),
        ("{% include '/etc/passwd' %}", "no loader"),
        ("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "recursion"),
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
    ],
    ids=["memory", "output", "classes", "globals", "changes", "files", "recursion", "its-own"],
)
def test_a_hostile_template_is_refused(source, reason):
    template = ChatTemplate(source, {})
    with pytest.raises(ChatError, match=reason):
        template.render(CHAT)
    # Another chat is refused as if nothing had been.
    with pytest.raises(ChatError, match=reason):
        template.render(CHAT)
    template.close()


def test_a_process_that_was_ended_is_started_anew(little_time):
    endless = "{% if messages | length > 1 %}" + "{% for i in range(99999) %}" * 3
    template = ChatTemplate(endless + "{% endfor %}" * 3 + "{% endif %}fine", {})
    for _ in range(2):
        with pytest.raises(ChatError, match="more than 0.2 s of a processor"):
            template.render(2 * CHAT)
    assert template.render(CHAT) == "fine"
    template.close()


def test_a_template_that_is_none_is_refused_at_once(monkeypatch):
    started = []

    class Process(subprocess.Popen):
        def __init__(self, *given, **how):
            super().__init__(*given, **how)
            started.append(self)

    monkeypatch.setattr(chat.subprocess, "Popen", Process)
    with pytest.raises(Mistake, match="the chat template cannot be used: .*unexpected"):
        ChatTemplate("{% for", {})
    (process,) = started
    assert process.returncode is not None and process.stdin.closed


def test_threads_share_a_template(monkeypatch):
    """The first chats of a server come at once."""
    begun = []

    def begin(*_):
        begun.append(threading.get_ident())
        time.sleep(0.05)
        return object()

    monkeypatch.setattr(model, "ChatTemplate", begin)
    read = folder.Folder(Codec(), [], "x", {})
    monkeypatch.setattr(model.folder, "read", lambda *_: read)
    monkeypatch.setattr(model.pooling, "read", lambda *_: None)
    extents = {"slots": 1, "context": 8, "chunk": 1, "vocabulary": 256, "pages": 0}
    library = types.SimpleNamespace(generation=extents)
    module = types.SimpleNamespace(ModelLibrary=lambda *_, **__: library)
    monkeypatch.setattr(model.runtime, "module", lambda: module)
    options = types.SimpleNamespace(library="x.so", load="x", base="", tokenizer=None)
    asked = model.Model(options)
    with ThreadPoolExecutor(4) as threads:
        found = [*threads.map(lambda _: asked.template, range(4))]
    assert len(begun) == 1 and len(set(map(id, found))) == 1
