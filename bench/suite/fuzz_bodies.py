# ===- fuzz_bodies - Bodies at random for a server ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Sends bodies at random to `optimus-serve`, good ones with some of their values or bytes
replaced, over connections that are kept.

    bench/run fuzz-bodies
    bench/run fuzz-bodies --bodies 250000 --seed 2

Fails where an answer is none of 200, 400, 404, 413 and 429, or an error without a message,
where one takes more than 20 s, where the server has died or holds 16 MiB more than after
the first twentieth of the bodies, and where texts or connections are left over. Prints how
many answers had each status.
"""

import collections
import json
import os
import random
import re
import selectors
import sys
import time

from harness import ROOT, fail, run
from suite.serve import held_bytes, settle

sys.path.append(str(ROOT / "python/tests"))
from serving import Server  # noqa: E402

TARGETS = ["optimus-compile", "optimus-run", "optimus_python"]
NUMBERS = dict(bodies=100_000, connections=16, seed=1)
STATUSES = {200, 400, 404, 413, 429}
MOST_SECONDS, MOST_GROWTH = 20, 16 << 20
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
GOOD = {
    "/v1/completions": [
        {"prompt": ["ab", [1, 2]], "max_tokens": 2, "stop": ["x"], "logit_bias": {"3": 1.5},
         "temperature": 0.5, "seed": 3, "n": 1, "logprobs": 1, "echo": True, "stream": False},
        {"prompt": "abc", "max_tokens": 1, "beams": 2, "length_penalty": 0.5, "temperature": 0},
        {"model": "tiny", "prompt": [97, 98], "max_tokens": 2, "stream": True, "user": "me",
         "stream_options": {"include_usage": True}, "stop_tokens": [5], "top_k": 3,
         "min_p": 0.1, "repetition_penalty": 1.1, "copying_penalty": 0.5},
    ],
    "/v1/chat/completions": [
        {"messages": [{"role": "system", "content": "be kind"},
                      {"role": "user", "content": [{"type": "text", "text": "hello"}]}],
         "max_completion_tokens": 2, "logprobs": True, "top_logprobs": 2, "top_p": 0.9,
         "presence_penalty": 0.5, "frequency_penalty": 0.5},
    ],
}
VALUES = [None, True, False, 0, 1, -1, 2, 7, 63, 255, 256, 1 << 31, 1 << 53, 1 << 70, 0.5, -0.5,
          1e-300, 1e299, 1e308, "", "a", "x" * 300, "\ud800", "\u0000", "\ufffd", "{{ 7 * 7 }}",
          "<|endoftext|>", "../../etc/passwd", [], [[]], ["a"], [1], [-1], [256], [1e9], [None],
          {}, {"a": 1}, {"role": "user"}, {"type": "image_url"}]
PIECES = [b"null", b"-1", b"1e999", b"NaN", b'"x"', b"{}", b"[]", b"[[[[", b"true", b"\\ud800",
          b"\\u0000", b",", b'"', b"}", b"\xff", b"\x00", b" ", b"9" * 40]


def mutate_values(draw, value):
    """The same with some value at any depth replaced, removed, or doubled."""
    if not isinstance(value, (dict, list)) or not value or draw.random() < 0.2:
        return draw.choice(VALUES)
    if isinstance(value, dict):
        key = draw.choice([*value])
        kind = draw.random()
        if kind < 0.1:
            return {name: each for name, each in value.items() if name != key}
        if kind < 0.2:
            return {**value, draw.choice(["best_of", "suffix", "a" * 99, "\ud800", ""]): 1}
        return {**value, key: mutate_values(draw, value[key])}
    at = draw.randrange(len(value))
    if draw.random() < 0.2:
        return value[:at] + [value[at]] * draw.randrange(4) + value[at:]
    return value[:at] + [mutate_values(draw, value[at])] + value[at + 1 :]


def mutate_bytes(draw, body):
    body = bytearray(body)
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(body) + 1)
        kind = draw.random()
        if kind < 0.6:
            body[at : at + draw.randrange(6)] = draw.choice(PIECES)
        elif kind < 0.8 and at < len(body):
            body[at] ^= 1 << draw.randrange(8)
        else:
            del body[at : at + draw.randrange(40)]
    return bytes(body)


def draw_body(draw):
    path = draw.choice([*GOOD])
    value = draw.choice(GOOD[path])
    kind = draw.random()
    for _ in range(draw.randrange(1, 3) if kind < 0.7 else 0):
        value = mutate_values(draw, value)
    body = json.dumps(value).encode()
    if kind > 0.6:
        body = mutate_bytes(draw, body)
    return path, os.urandom(draw.randrange(200)) if draw.random() < 0.01 else body


LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n")


class Client:
    """A connection, and its request under way."""

    def __init__(self, server):
        self._server = server
        self.socket = None

    def send(self, path, body):
        if self.socket is None:
            self.socket = self._server.open()
        self.sent, self.since, self._heard = (path, body), time.monotonic(), b""
        head = ("POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                "content-length: %d\r\n\r\n" % (path, len(body)))
        self.socket.sendall(head.encode() + body)

    def hear(self):
        """The status and body of a complete answer, or None."""
        some = self.socket.recv(1 << 16)
        if not some:
            fail(f"the server has closed a connection after {self.sent}: {self._heard}")
        self._heard += some
        head, end, body = self._heard.partition(b"\r\n\r\n")
        if not end:
            return None
        length = LENGTH.search(head + b"\r\n")
        if not (len(body) == int(length[1]) if length else body.endswith(b"0\r\n\r\n")):
            return None
        return int(head[9:12]), body

    def close(self):
        if self.socket is not None:
            self.socket.close()


def check(client, status, body):
    """What is wrong with an answer."""
    if status not in STATUSES:
        return f"{status} for {client.sent}: {body}"
    if status != 200 and not json.loads(body)["error"]["message"]:
        return f"no message for {client.sent}"
    return None


def send_all(server, options, after_some):
    """Answers by status, what is wrong, and the longest time."""
    draw, counts, bad, longest = random.Random(options.seed), collections.Counter(), [], 0
    waiting = selectors.DefaultSelector()
    sent = 0

    def begin(client):
        nonlocal sent
        if sent == options.bodies:
            return client.close()
        sent += 1
        if sent == options.bodies // 20:
            after_some()
        client.send(*draw_body(draw))
        waiting.register(client.socket, selectors.EVENT_READ, client)

    for _ in range(options.connections):
        begin(Client(server))
    while waiting.get_map():
        ready = waiting.select(MOST_SECONDS)
        if not ready:
            bad += [f"no answer to {key.data.sent}" for key in waiting.get_map().values()]
            break
        for key, _ in ready:
            client = key.data
            answer = client.hear()
            if answer is None:
                continue
            longest = max(longest, time.monotonic() - client.since)
            counts[answer[0]] += 1
            wrong = check(client, *answer)
            bad += [wrong] if wrong else []
            waiting.unregister(client.socket)
            begin(client)
    return counts, bad, longest


def main(options, tools, folder):
    source = tools.build_model(
        folder / "gpt.mlir", layers=1, hidden=16, heads=2, seq=64, vocab=256, batch=1,
        functions="loss", generate="slots=8,context=64,chunk=32")
    library, text, state = folder / "gpt.so", folder / "text.txt", folder / "state"
    tools.compile(source, library)
    text.write_bytes(bytes(range(256)))
    run([tools.path("run"), "train", library, "--data", text, "--steps", 1, "--save", state])
    (state / "chat_template.jinja").write_text(TEMPLATE)
    command = [tools.path("serve"), library, "--load", state, "--name", "tiny",
               "--threads-per-rank", 1]
    with Server(list(map(str, command))) as server:
        held, sockets = [], server.count_sockets()
        begin = time.monotonic()
        counts, bad, longest = send_all(
            server, options, lambda: held.append(held_bytes(server.pid)))
        seconds = time.monotonic() - begin
        _, left = settle(server, sockets)
        bad += left
        growth = held_bytes(server.pid) - held[0]
        if growth > MOST_GROWTH:
            bad.append(f"the server holds {growth >> 20} MiB more")
        if server.get("/health").status != 200:
            bad.append("the server is not healthy")
        if server.stop() != 0:
            bad.append("the server has ended otherwise than by SIGTERM")
    said = ", ".join(f"{count} × {status}" for status, count in sorted(counts.items()))
    return {"fuzz-bodies": f"{sum(counts.values())} bodies of seed {options.seed} in "
            f"{seconds:.0f} s: {said}; the longest answer took {longest:.2f} s, "
            f"{growth / 2**20:.1f} MiB more held"}, bad[:20]
