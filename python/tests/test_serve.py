# ===- test_serve.py - optimus-serve ---------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A server answers as OpenAI's clients expect, with the tokens of optimus-run whoever
else asks; bad requests are refused by name, and clients that leave free their slots."""

import base64
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import threading

import numpy as np
import pytest

import safetensors_file
from serving import Server, Stream, text_of
from test_launchers import by_torchrun, ports
from tools import BertModel, Model, build_program, call, mpirun

MODEL = Model(2, 64, 2, sequence=16384, vocabulary=256, batch=1, init_std=0.3)
EXTENTS = "slots=2,context=16384,chunk=16"
TEMPLATE = (
    "{% if messages[0].role == 'robot' %}{{ raise_exception('no robots') }}{% endif %}"
    "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}a:"
)
LONG = 16000
"""Tokens that take many seconds: whoever is to be there still is."""


@pytest.fixture(scope="module")
def library(tools, python_folder):
    return tools.library(MODEL, functions="loss", generate=EXTENTS)


@pytest.fixture(scope="module")
def state(tools, library, text, tmp_path_factory):
    folder = tools.initial(library, text, tmp_path_factory.mktemp("state") / "saved").folder
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@pytest.fixture(scope="module")
def start(tools, library, state):
    def run(*flags, prefix=(), env=None, library=library, state=state):
        command = tools.command("optimus-serve", library, "--load", state, *flags)
        return Server(command, prefix, env)

    return run


@pytest.fixture(scope="module")
def server(start):
    with start("--name", "tiny", "--most-body-bytes", 5000, "--most-header-seconds", 1) as made:
        yield made
        assert made.stop() == 0


# ------------------------------------------------------------------------- texts


@pytest.fixture(scope="module")
def by_optimus_run(tools, library, state, tmp_path_factory):
    file = tmp_path_factory.mktemp("prompts") / "prompts.jsonl"

    def run(prompt, command="generate", **request):
        file.write_text(json.dumps({"tokens": list(prompt.encode()), **request}))
        said = tools.run("optimus-run", command, library, "--load", state, "--tokens", file)
        return json.loads(said)

    return run


def test_greedy_text_is_that_of_optimus_run(server, by_optimus_run):
    (expected,) = [bytes(by_optimus_run("And God", max_tokens=24)["tokens"])]
    said = server.complete(prompt="And God", max_tokens=24, temperature=0, model="tiny")
    (choice,) = said["choices"]
    assert choice["text"] == expected.decode("utf-8", "replace")
    assert choice["finish_reason"] == "length" and choice["logprobs"] is None
    assert said["usage"] == {"prompt_tokens": 7, "completion_tokens": 24, "total_tokens": 31}
    # As text, as tokens, in lists; several at once.
    tokens = list(b"And God")
    for prompt in (tokens, ["And God"], ["x", "And God", "y"], [[1], tokens]):
        choices = server.complete(prompt=prompt, max_tokens=24, temperature=0)["choices"]
        assert choice["text"] in [each["text"] for each in choices]
        assert [each["index"] for each in choices] == list(range(len(choices)))
    drawn = {"temperature": 1.0, "seed": 3, "top_k": 40, "frequency_penalty": 0.5}
    expected = by_optimus_run("God", max_tokens=24, **drawn)["tokens"]
    choices = server.complete(prompt="God", max_tokens=24, n=2, **drawn)["choices"]
    assert choices[0]["text"] == bytes(expected).decode("utf-8", "replace")
    assert choices[1]["text"] != choices[0]["text"]
    beams = {"beams": 2, "length_penalty": 0.5, "temperature": 0, "max_tokens": 24}
    expected = bytes(by_optimus_run("God", **beams)["tokens"]).decode("utf-8", "replace")
    (choice,) = server.complete(prompt="God", **beams)["choices"]
    assert choice["text"] == expected
    assert text_of(list(Stream(server, "/v1/completions", prompt="God", **beams))) == expected


def test_a_stream_has_the_same_text(server):
    body = {"prompt": ["And", "God"], "n": 2, "max_tokens": 20, "seed": 5, "logprobs": 1}
    whole = server.complete(**body, echo=True)
    options = {"stream_options": {"include_usage": True}}
    events = list(Stream(server, "/v1/completions", **body, **options, echo=True))
    for choice in whole["choices"]:
        assert text_of(events, choice["index"]) == choice["text"]
        parts = [
            each
            for event in events
            for each in event["choices"]
            if each["index"] == choice["index"]
        ]
        for name, listed in choice["logprobs"].items():
            assert sum((part["logprobs"][name] for part in parts), []) == listed
        assert [part["finish_reason"] for part in parts[:-1]] == [None] * (len(parts) - 1)
        assert parts[-1]["finish_reason"] == "length"
    assert [event["usage"] for event in events[:-1]] == [None] * (len(events) - 1)
    assert events[-1]["usage"] == whole["usage"] and events[-1]["choices"] == []


def test_a_client_of_an_older_http_has_its_stream_unframed(server):
    body = {"prompt": "And God", "max_tokens": 12, "temperature": 0}
    said = json.dumps({**body, "stream": True}).encode()
    with server.open() as client:
        client.sendall(HEAD.replace(b"HTTP/1.1", b"HTTP/1.0")
                       + b"content-length: %d\r\n\r\n" % len(said) + said)
        heard = b"".join(iter(lambda: client.recv(4096), b"")).decode()
    head, _, events = heard.partition("\r\n\r\n")
    assert "chunked" not in head
    *events, end, nothing = events.split("\n\n")
    assert (end, nothing) == ("data: [DONE]", "")
    events = [json.loads(event[len("data: "):]) for event in events]
    assert text_of(events) == server.complete(**body)["choices"][0]["text"]


def test_a_stop_ends_a_text_before_it(server):
    body = {"prompt": "And God", "max_tokens": 40, "temperature": 2.0, "seed": 1}
    text = server.complete(**body)["choices"][0]["text"]
    stop = text[10:13]
    expected = text[: text.index(stop)]
    for stops in (stop, ["never there", stop]):
        (choice,) = server.complete(**body, stop=stops)["choices"]
        assert (choice["text"], choice["finish_reason"]) == (expected, "stop")
        events = list(Stream(server, "/v1/completions", **body, stop=stops))
        assert text_of(events) == expected
        assert events[-1]["choices"][0]["finish_reason"] == "stop"


def test_echoed_tokens_have_their_log_probabilities(server, by_optimus_run):
    """One entry for each token, the first null: evaluations add them up."""
    expected = by_optimus_run("In the end", "score")["log_probabilities"]
    body = {"prompt": "In the end", "echo": True, "logprobs": 2, "temperature": 0}
    for more in (0, 3):
        (choice,) = server.complete(**body, max_tokens=more)["choices"]
        logprobs = choice["logprobs"]
        assert logprobs["token_logprobs"][0] is None
        # Of the same logits, by sums in f64 instead of f32.
        assert logprobs["token_logprobs"][1:10] == pytest.approx(expected, abs=1e-5)
        assert {len(listed) for listed in logprobs.values()} == {10 + more}
        assert logprobs["top_logprobs"][0] is None and len(logprobs["top_logprobs"][1]) == 2
        assert choice["text"].startswith("In the end")
        assert logprobs["text_offset"][:10] == list(range(10))
    # What is chosen greedily is the most probable.
    last = logprobs["top_logprobs"][-1]
    assert logprobs["token_logprobs"][-1] == max(last.values())
    # The echo changes no token.
    alone = server.complete(prompt="In the end", max_tokens=3, temperature=0)["choices"][0]
    assert choice["text"] == "In the end" + alone["text"]
    (empty,) = server.complete(prompt="In", max_tokens=0)["choices"]
    assert (empty["text"], empty["finish_reason"]) == ("", "length")


def test_the_token_that_ends_an_answer_has_its_log_probability(server):
    """Evaluations ask for a token behind each prompt, and leave the last entry out."""
    body = {"prompt": "In the end", "logprobs": 1, "temperature": 0, "max_tokens": 6}
    # Letters alone, each a character.
    body["logit_bias"] = {str(token): 100 for token in b"abcdefghij"}
    (free,) = server.complete(**body)["choices"]
    tokens = free["text"].encode()
    first = tokens.index(tokens[3])
    for more in ({}, {"echo": True}):
        reply = server.complete(**body, **more, stop_tokens=[tokens[first]])
        (choice,) = reply["choices"]
        begun = "In the end" if more else ""
        assert choice["text"] == begun + free["text"][:first]
        assert choice["finish_reason"] == "stop"
        assert reply["usage"]["completion_tokens"] == first
        for name, listed in choice["logprobs"].items():
            entries = listed[len(begun) :]
            if name == "text_offset":
                entries = [offset - len(begun) for offset in entries]
            assert entries == free["logprobs"][name][: first + 1]
    stream = Stream(server, "/v1/completions", **body, stop_tokens=[tokens[first]])
    parts = [part["logprobs"]["tokens"] for event in stream for part in event["choices"]]
    assert sum(parts, []) == free["logprobs"]["tokens"][: first + 1]
    # Alone, too: of one new token at most it is the end that ends it.
    body.update(max_tokens=1, stop_tokens=[tokens[0]])
    (choice,) = server.complete(**body)["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("", "stop")
    assert len(choice["logprobs"]["tokens"]) == 1


def test_chats_are_written_by_the_template(server, by_optimus_run):
    expected = bytes(by_optimus_run("s:be;u:hi;a:", max_tokens=12)["tokens"])
    messages = [
        {"role": "system", "content": "be"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ]
    body = {"messages": messages, "max_completion_tokens": 12, "temperature": 0}
    reply = server.post("/v1/chat/completions", {**body, "logprobs": True, "top_logprobs": 2})
    (choice,) = reply.json()["choices"]
    assert choice["message"] == {
        "role": "assistant",
        "content": expected.decode("utf-8", "replace"),
    }
    scores = choice["logprobs"]["content"]
    assert [score["bytes"] for score in scores] == [[byte] for byte in expected]
    assert all(score["logprob"] == score["top_logprobs"][0]["logprob"] for score in scores)
    events = list(Stream(server, "/v1/chat/completions", **body))
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert text_of(events) == choice["message"]["content"]
    assert events[-1]["choices"][0]["finish_reason"] == "length"
    refused = server.post("/v1/chat/completions", {"messages": [{"role": "robot", "content": ""}]})
    assert refused.status == 400 and "no robots" in refused.error["message"]


# ------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "path, body, status, param, words",
    [
        ("completions", {"prompt": "a", "suffix": "b"}, 400, "suffix", "suffix is not supported"),
        ("completions", {"prompt": "a", "best_of": 3}, 400, "best_of", "but for the number n"),
        ("completions", {"prompt": "a", "beams": 2}, 400, None, "expected temperature 0"),
        ("completions", {"prompt": "a", "model": "gpt-4"}, 404, "model", "there is 'tiny'"),
        ("completions", {}, 400, "prompt", "expected a text, a list of tokens"),
        ("completions", {"prompt": []}, 400, "prompt", "expected a text, a list of tokens"),
        ("completions", {"prompt": ""}, 400, "prompt", "expected 1 to 16384 tokens"),
        ("completions", {"prompt": [256]}, 400, None, "token 0 of the prompt is 256"),
        ("completions", {"prompt": "\ud800"}, 400, "prompt", "half a character"),
        ("completions", {"prompt": "a", "n": 65}, 400, "n", "from 1 to 64"),
        ("completions", {"prompt": ["a"] * 40, "n": 2}, 400, "n", "at most 64 texts"),
        ("completions", {"prompt": "a", "max_tokens": 17000}, 400, "max_tokens", "at most 16384"),
        ("completions", {"prompt": "a", "max_tokens": 1.5}, 400, "max_tokens", "whole number"),
        ("completions", {"prompt": "a", "temperature": -1}, 400, None, "temperature is -1"),
        ("completions", {"prompt": "a", "top_p": "x"}, 400, "top_p", "expected a number"),
        ("completions", {"prompt": "a", "stop": [""]}, 400, "stop", "1 to 256 characters"),
        ("completions", {"prompt": "a", "stop": ["a"] * 17}, 400, "stop", "at most 16"),
        ("completions", {"prompt": "a", "logit_bias": {"a": 1}}, 400, "logit_bias", "by tokens"),
        ("completions", {"prompt": "a", "logprobs": 21}, 400, "logprobs", "from 0 to 20"),
        ("completions", {"prompt": "a", "seed": -1}, 400, "seed", "from 0 to"),
        ("completions", {"prompt": "a", "stream_options": {"include_usage": True}}, 400,
         "stream_options", "beside a true stream"),
        ("chat/completions", {"messages": []}, 400, "messages", "a list of 1 to"),
        ("chat/completions", {"messages": [{"content": "a"}]}, 400, "messages", "a role"),
        ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "tools": []}, 400,
         "tools", "tools is not supported"),
        ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
         400, "messages", "parts of the type text"),
        ("chat/completions", {"messages": [{"role": "user", "content": "a", "x": 1}]}, 400,
         "messages", "messages: 0: x is not supported"),
        ("embeddings", {"input": "a"}, 404, None, "there is no '/v1/embeddings'"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(server, path, body, status, param, words):
    reply = server.post("/v1/" + path, body)
    assert (reply.status, reply.error["param"]) == (status, param)
    assert words in reply.error["message"]


def test_null_is_as_absent(server):
    body = {"prompt": "a", "suffix": None, "stop": None, "n": None, "max_tokens": 1}
    assert server.complete(**body)["usage"]["completion_tokens"] == 1


@pytest.mark.parametrize(
    "body, status",
    [
        (b"", 400),
        (b"[]", 400),
        (b"{" * 2000, 400),
        (b'{"prompt": "a", "prompt": "b"}', 400),
        (b'{"prompt": "a", "temperature": NaN}', 400),
        (b'{"prompt": "a", "temperature": 1e999}', 400),
        (b'{"prompt": "a", "seed": ' + 4000 * b"9" + b"}", 400),
        (b'{"prompt": "\xff"}', 400),
        (5001 * b" ", 413),
    ],
    ids=["nothing", "list", "deep", "twice", "nan", "infinite", "digits", "latin", "long"],
)
def test_bodies_that_are_none(server, body, status):
    reply = server.post("/v1/completions", body)
    assert reply.status == status and reply.error["message"]


def test_bodies_by_chance(server):
    """Whatever a body is, the answer is JSON, and the server lives."""
    draw = random.Random(4)
    good = json.dumps(
        {"prompt": ["ab", [1, 2]], "max_tokens": 2, "stop": ["x"], "logit_bias": {"3": 1.5},
         "temperature": 0.5, "seed": 3, "n": 1, "logprobs": 1, "echo": True, "stream": False}
    ).encode()  # fmt: skip
    pieces = [b"null", b"-1", b"1e9", b'"x"', b"{}", b"[]", b"true", b"\\ud800", b",", b'"', b"}"]
    statuses = set()
    for _ in range(150):
        body = bytearray(good)
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(body))
            body[at : at + draw.randrange(6)] = draw.choice(pieces)
        reply = server.post("/v1/" + draw.choice(["completions", "chat/completions"]), bytes(body))
        statuses.add(reply.status)
        assert reply.status == 200 or reply.error["message"]
    assert statuses <= {200, 400, 404}
    assert server.get("/health").json() == {"status": "ok"}


def speak(server, *said, reads=True):
    """What a server says to bytes; nothing once it has closed the connection."""
    with server.open() as client:
        for some in said:
            client.sendall(some)
        heard = b""
        while reads:
            try:
                some = client.recv(1 << 16)
            except ConnectionError:
                break
            heard += some
            if not some:
                break
        return heard


HEAD = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


def test_requests_that_are_too_large_or_never_end(server):
    assert b" 400 " in speak(server, b"GET / HTTP/1.1\r\nhost: a\r\nx: ", 20_000 * b"a")
    assert b" 413 " in speak(server, HEAD + b"content-length: 99999999999999999999\r\n\r\n")
    chunk = b"400\r\n" + 1024 * b" " + b"\r\n"
    assert b" 413 " in speak(server, HEAD + b"transfer-encoding: chunked\r\n\r\n", *5 * [chunk])
    assert b" 400 " in speak(server, b"\x16\x03\x01 no HTTP at all\r\n\r\n")
    # Half a header, or none: closed in time, and others are served meanwhile.
    slow = [server.open() for _ in range(3)]
    slow[0].sendall(b"GET /health HT")
    slow[1].sendall(HEAD)
    assert server.get("/health").status == 200
    for client in slow:
        assert client.recv(100) == b""
        client.close()
    reply = server.get("/v1/models", host="evil.example")
    assert reply.status == 403 and "expected a host of" in reply.error["message"]
    assert server.post("/health", {}).status == 405
    typed = server.post("/v1/completions", b"{}", **{"content-type": "text/plain"})
    assert typed.status == 415


@pytest.mark.rotates
def test_every_bound_is_held(start):
    flags = ("--most-connections", 2, "--most-texts", 3, "--most-numbers", 100)
    seconds = ("--most-body-seconds", 1, "--most-idle-seconds", 1)
    with start(*flags, *seconds) as server:
        # One more than may be open is closed; places of those that end are free again.
        held = [server.open() for _ in range(2)]
        with server.open() as third:
            try:
                assert third.recv(1) == b""
            except ConnectionError:
                pass
        for client in held:
            client.close()
        while True:
            try:
                assert server.get("/health").status == 200
                break
            except ConnectionError:
                pass
        # A body that does not come, and a connection without another request.
        assert b" 408 " in speak(server, HEAD + b"content-length: 9\r\n\r\n{")
        heard = speak(server, b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b" 200 " in heard and heard.endswith(b'{"status": "ok"}')
        message = {"role": "user", "content": "a"}
        for path, body, words in (
            ("completions", {"prompt": "a", "n": 4}, "from 1 to 3"),
            ("completions", {"prompt": ["a"] * 4}, "a list of at most 3"),
            ("completions", {"prompt": "a", "max_tokens": 17, "n": 2, "logprobs": 2},
             "at most 100 log-probabilities, found 3 for each of 34 tokens"),
            ("completions", {"prompt": "a" * 101, "max_tokens": 0, "logprobs": 0, "echo": True},
             "found 1 for each of 101 tokens"),
            ("chat/completions", {"messages": [{"role": "user", "content": "a"}],
             "max_tokens": 17, "logprobs": True, "top_logprobs": 5}, "found 6 for each of 17"),
            ("completions", {"prompt": "a", "logit_bias": {str(i): 0 for i in range(1025)}},
             "at most 1024 tokens"),
            ("completions", {"prompt": "a", "stop_tokens": [1] * 17}, "at most 16 tokens"),
            ("completions", {"prompt": "a", "user": "a" * 257}, "at most 256 characters"),
            ("completions", {"prompt": "a", "seed": 10**25}, "no object of JSON"),
            ("chat/completions", {"messages": [message] * 4097}, "a list of 1 to 4096"),
        ):  # fmt: skip
            reply = server.post("/v1/" + path, body)
            assert reply.status == 400 and words in reply.error["message"]
        assert server.stop() == 0


def test_others_are_answered_while_a_prompt_is_taken_in(server):
    """A thousand chunks, each a call."""
    stream = Stream(server, "/v1/completions", prompt="d" * 4000, max_tokens=1)
    server.until("texts_running", 1)
    answers = 0
    while server.figures()["texts_running"] == 1:
        assert server.get("/health").status == 200
        answers += 1
    stream.leave()
    assert answers > 1


# ------------------------------------------------------------------------ others


def test_who_leaves_frees_a_slot(server):
    """Decoding, in its prompt, and queued."""
    before = server.figures()
    body = {"max_tokens": LONG, "temperature": 1.0, "seed": 1}
    decoding = [Stream(server, "/v1/completions", prompt="a", **body) for _ in range(2)]
    for stream in decoding:
        next(stream)
    server.until("texts_running", 2)
    # Whoever listens to no stream leaves as well.
    queued = server.connect()
    queued.request(
        "POST",
        "/v1/completions",
        json.dumps({"prompt": "b", **body}),
        {"content-type": "application/json"},
    )
    server.until("texts_waiting", 1)
    queued.close()
    server.until("texts_waiting", 0)
    for stream in decoding:
        stream.leave()
    server.until("texts_running", 0)
    prompt = Stream(server, "/v1/completions", prompt="c" * 4000, max_tokens=1)
    prompt.leave()
    server.until("clients_left_total", before["clients_left_total"] + 4)
    server.until("queue_tokens", 0)
    after = server.figures()
    made = after["generated_tokens_total"] - before["generated_tokens_total"]
    assert made < LONG
    assert server.get("/health").status == 200


@pytest.mark.rotates
def test_who_does_not_read_leaves(start):
    with start("--most-write-seconds", 1) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        body = {"prompt": "a", "max_tokens": LONG, "stream": True, "logprobs": 20}
        said = json.dumps(body).encode()
        client.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(said) + said)
        server.until("clients_left_total", 1)
        server.until("texts_running", 0)
        assert server.complete(prompt="b", max_tokens=1)["choices"]
        assert server.stop() == 0


def test_a_text_does_not_depend_on_others(server):
    """Alone, and among clients that come, leave and send no JSON."""
    draw = random.Random(5)
    bodies = [
        {
            "prompt": "x" * draw.randrange(1, 60),
            "max_tokens": draw.randrange(1, 30),
            "temperature": draw.choice([0, 1.0]),
            "seed": number,
            "logprobs": 0,
        }
        for number in range(12)
    ]
    alone = [server.complete(**body)["choices"] for body in bodies]
    failures = []

    def ask(number):
        try:
            ask_often(number)
        except Exception as error:
            failures.append(error)

    def ask_often(number):
        own = random.Random(number)
        for _ in range(6):
            which = own.randrange(len(bodies))
            what = own.random()
            if what < 0.2:
                stream = Stream(server, "/v1/completions", **{**bodies[which], "max_tokens": 200})
                for _ in range(own.randrange(4)):
                    next(stream, None)
                stream.leave()
            elif what < 0.3:
                server.post("/v1/completions", b'{"prompt": 3')
            elif server.complete(**bodies[which])["choices"] != alone[which]:
                failures.append(which)

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert failures == []


@pytest.mark.rotates
def test_a_full_queue_says_when_to_come_again(start):
    with start("--most-queue-tokens", 17000, "--grace", 0) as server:
        body = {"prompt": "a", "max_tokens": LONG}
        streams = []
        for _ in range(2):
            streams.append(Stream(server, "/v1/completions", **body))
            # It waits no more.
            next(streams[-1])
        third = threading.Thread(target=server.post, args=("/v1/completions", body))
        third.start()
        server.until("texts_waiting", 1)
        reply = server.post("/v1/completions", body)
        assert reply.status == 429 and 1 <= int(reply.headers["retry-after"]) <= 60
        assert server.figures()["queue_refusals_total"] == 1
        assert server.get("/health").status == 200
        # At the end who has not finished is told.
        server.signal(signal.SIGTERM)
        assert any("the server has ended" in json.dumps(event) for event in streams[0])
        third.join()
        assert server.wait() == 0


@pytest.mark.rotates
def test_what_runs_may_finish(start):
    with start("--grace", 60) as server:
        stream = Stream(server, "/v1/completions", prompt="a", max_tokens=2000, seed=1)
        first = next(stream)
        server.signal(signal.SIGTERM)
        while server.get("/health").status == 200:
            pass
        reply = server.post("/v1/completions", {"prompt": "b"})
        assert reply.status == 503 and "ending" in reply.error["message"]
        events = [first, *stream]
        assert events[-1]["choices"][0]["finish_reason"] == "length"
        assert server.wait() == 0


@pytest.mark.rotates
def test_keys(start, tools, library, state, tmp_path):
    serve = lambda *flags: call(
        tools.command("optimus-serve", library, "--load", state, *flags)
    )
    refused = serve("--host", "0.0.0.0")
    assert refused.returncode == 1 and "expected --api-key-file" in refused.stderr
    file = tmp_path / "keys"
    file.write_text("short\n")
    refused = serve("--api-key-file", file)
    assert refused.returncode == 1 and "lines of at least 16 characters" in refused.stderr
    file.write_text("0123456789abcdef\nanother key of somebody\n")
    with start("--api-key-file", file, "--host", "0.0.0.0") as server:
        assert server.get("/health").status == 200
        for given in ({}, {"authorization": "Bearer x"}, {"authorization": "0123456789abcdef"}):
            assert server.get("/metrics", **given).status == 401
            assert server.post("/v1/completions", {"prompt": "a"}, **given).status == 401
        for key in ("0123456789abcdef", "another key of somebody"):
            asks = {"authorization": "Bearer " + key, "host": "anywhere"}
            assert server.post("/v1/completions", {"prompt": "a"}, **asks).status == 200
        assert server.stop() == 0


def test_an_address_that_is_taken(tools, library, state):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = tools.call("optimus-serve", library, "--load", state, "--port", port)
    assert result.returncode == 1
    assert "cannot listen at 127.0.0.1, port %s: Address already in use" % port in result.stderr


@pytest.fixture(scope="module")
def two_ranks(tools, text, tmp_path_factory):
    """A library of two, and its state."""
    flags = ("row:1,col:2", "megatron")
    extents = EXTENTS + ",pages=512"
    library = tools.library(MODEL, *flags, functions="loss", generate=extents)
    folder = tmp_path_factory.mktemp("two") / "saved"
    return library, tools.initial(library, text, folder).folder


@pytest.mark.rotates
def test_ranks_are_processes(start, two_ranks):
    library, state = two_ranks
    bodies = [{"prompt": "x" * n, "max_tokens": 9, "seed": n, "stop": "e"} for n in (1, 30)]
    answers = []
    for prefix in ((), mpirun(2)):
        with start(library=library, state=state, prefix=prefix) as server:
            said = [server.complete(**body)["choices"] for body in bodies]
            stream = Stream(server, "/v1/completions", prompt="y", max_tokens=60)
            next(stream)
            stream.leave()
            answers.append([*said, server.complete(**bodies[0])["choices"]])
            server.until("pages_held", 0)
            assert server.figures()["pages_free"] == 512
            assert server.stop() == 0, "".join(server.log)
    assert answers[0] == answers[1]


@pytest.mark.rotates
def test_a_lost_rank_is_told_to_all(tools, start, two_ranks):
    library, state = two_ranks
    port = next(ports)
    first, second = ({**os.environ, **by_torchrun(rank, 2, port)[1]} for rank in range(2))
    command = tools.command("optimus-serve", library, "--load", state)
    other = subprocess.Popen(command, env=second, stderr=subprocess.DEVNULL)
    with start(library=library, state=state, env=first) as server:
        streams = [
            Stream(server, "/v1/completions", prompt="a", max_tokens=LONG) for _ in range(3)
        ]
        next(streams[0])
        other.kill()
        other.wait()
        for stream in streams:
            events = list(stream)
            assert "rank 1" in events[-1]["error"]["message"]
            try:
                assert server.get("/health").status == 503
            except ConnectionError:
                # It has ended by now.
                pass
        assert server.wait() == 1


# -------------------------------------------------------------------- embeddings

ENCODER = BertModel(1, 16, 2, sequence=24, vocabulary=256, batch=4, init_std=0.3)


@pytest.fixture(scope="module")
def encoder(tools, optimus, tmp_path_factory):
    """A library, and a folder of sentence-transformers with its weights."""
    source = tmp_path_factory.mktemp("encoder") / "bert.mlir"
    build_program(ENCODER, source, "forward", flags=["--no-head"])
    library = source.with_suffix(".so")
    tools.run("optimus-compile", source, "-o", library)
    folder = source.parent / "saved"
    folder.mkdir()
    with optimus_session(library) as session:
        weights = [(name, "F32", session.parameters[name]) for name in session.parameters]
        (folder / "config.json").write_text(session.library.manifest["config"])
    safetensors_file.write(folder / "model.safetensors", weights)
    (folder / "modules.json").write_text(
        json.dumps(
            [
                {"type": "sentence_transformers.models.Transformer", "path": ""},
                {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
                {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"},
            ]
        )
    )
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    return library, folder


def optimus_session(library):
    import optimus

    return optimus.Session(library, kinds="forward", seed=3)


def test_sentences_have_vectors(optimus, start, encoder):
    library, folder = encoder
    sentences = ["a cat", "the kitten sleeps", "x", "taxes", "are due", "é"]
    tokens = np.zeros((len(sentences), 24), np.int32)
    for row, sentence in zip(tokens, sentences):
        row[: len(sentence.encode())] = list(sentence.encode())
    with optimus_session(library) as session:
        hidden = np.concatenate([session.forward(tokens[:4]), session.forward(tokens[4:])])
    real = (tokens != 0)[..., None]
    mean = (hidden * real).sum(axis=1, dtype=float) / real.sum(axis=1)
    expected = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    with start(library=library, state=folder) as server:
        body = {"input": sentences, "model": "bert"}
        said = server.post("/v1/embeddings", body).json()
        vectors = [each["embedding"] for each in said["data"]]
        # Rounded to f32 once.
        assert np.abs(np.array(vectors) - expected).max() <= 2.0**-24
        assert said["usage"]["prompt_tokens"] == (tokens != 0).sum()
        body = {"input": list(b"a cat"), "encoding_format": "base64"}
        (coded,) = server.post("/v1/embeddings", body).json()["data"]
        assert list(np.frombuffer(base64.b64decode(coded["embedding"]), "<f4")) == vectors[0]
        for body, words in [
            ({"input": "a" * 25}, "1 to 24 tokens, the library's sequence, found 25"),
            ({"input": [256]}, "tokens below 256"),
            ({"input": "a", "dimensions": 3}, "dimensions is not supported"),
            ({"input": []}, "a text, a list of tokens"),
            ({"input": "a", "encoding_format": "int8"}, "float or base64"),
        ]:
            reply = server.post("/v1/embeddings", body)
            assert reply.status == 400 and words in reply.error["message"]
        assert server.post("/v1/completions", {"prompt": "a"}).status == 404
        assert server.stop() == 0


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("modules.json", "{}", "expected a list of modules"),
        ("modules.json", '[{"type": "a.Dense"}]', "Dense is not supported"),
        ("modules.json", '[{"type": "a.Pooling", "path": "../x"}]', "paths within the folder"),
        ("1_Pooling/config.json", '{"pooling_mode_max_tokens": true}', "expected one of"),
    ],
)
def test_poolings_that_are_not_known(tools, encoder, tmp_path, name, content, words):
    library, folder = encoder
    other = shutil.copytree(folder, tmp_path / "other")
    (other / name).write_text(content)
    refused = tools.call("optimus-serve", library, "--load", other, "--port", 0)
    assert refused.returncode == 1 and words in refused.stderr
