# ===- serve_rate - A server's tokens beside those of its model ------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Tokens a second of `optimus-serve` beside those of `optimus-run bench --generate`, of
the same library with all slots live: GPT-2 of 12 layers, a token a byte.

    bench/run serve-rate
    bench/run serve-rate --rounds 5 --slots 4

As many clients as there are slots ask for 128 tokens behind a prompt of one, each again
once it has its answer, whole or as a stream, over one connection each; they are read without
being understood, on the same cores. Server and bench take turns. Once a round a short
request comes behind a prompt of 1,000 tokens: when it has its token, in chunks of the
prompt. Fails where the median ratio of whole answers is below 0.95, one answer differs
from another, or the short request waits for more than two chunks before its own. In
Markdown.
"""

import json
import re
import selectors
import statistics
import sys
import time

from harness import ROOT, machine, run, spread, table, take_turns

sys.path.append(str(ROOT / "python/tests"))
from serving import Server, Stream  # noqa: E402

TARGETS = ["optimus-compile", "optimus-run", "optimus_python"]
NUMBERS = dict(rounds=3, slots=8, requests=3, layers=12, hidden=768)
NEW, CONTEXT, CHUNK = 128, 1152, 128
LONG = 8 * CHUNK - 24
# It waits for two, and has one of its own.
LEAST, MOST_CHUNKS = 0.95, 3
HEAD = ("POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n"
        "content-type: application/json\r\ncontent-length: {}\r\n\r\n")
USAGE = re.compile(rb'"completion_tokens": (\d+)')
TEXT = re.compile(rb'"text": ("(?:[^"\\]|\\.)*")')


def options(parser):
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")


class Client:
    """One connection, with one request after the other."""

    def __init__(self, server, request):
        self.socket = server.open()
        self._request, self._heard = request, bytearray()
        self.texts = []

    def ask(self):
        self._heard.clear()
        self.socket.sendall(self._request)

    def hear(self):
        """Whether the answer is complete: its usage comes last."""
        some = self.socket.recv(1 << 16)
        assert some, "the server has closed a connection"
        self._heard += some
        if not self._heard.endswith((b"}", b"\r\n0\r\n\r\n")):
            return False
        found = USAGE.search(self._heard)
        if not found:
            return False
        assert int(found[1]) == NEW, self._heard
        self.texts.append("".join(json.loads(text) for text in TEXT.findall(self._heard)))
        return True


def ask_all(server, options, is_streamed):
    """Tokens a second, and the texts."""
    body = dict(prompt=[65], max_tokens=NEW, temperature=0, stream=is_streamed)
    if is_streamed:
        body["stream_options"] = {"include_usage": True}
    said = json.dumps(body)
    request = (HEAD.format(len(said)) + said).encode()
    clients = [Client(server, request) for _ in range(options.slots)]
    waiting = selectors.DefaultSelector()
    begin = time.monotonic()
    for client in clients:
        waiting.register(client.socket, selectors.EVENT_READ, client)
        client.ask()
    while waiting.get_map():
        for key, _ in waiting.select():
            client = key.data
            if not client.hear():
                continue
            if len(client.texts) < options.requests:
                client.ask()
                continue
            waiting.unregister(client.socket)
            client.socket.close()
    seconds = time.monotonic() - begin
    texts = [text for client in clients for text in client.texts]
    return NEW * len(texts) / seconds, set(texts)


def first_token(server, size):
    """A stream behind a prompt of so many tokens, and when it began."""
    begin = time.monotonic()
    return Stream(server, "/v1/completions", prompt=[66] * size, max_tokens=1), begin


def chunks_waited(server):
    """By a short request behind a long one."""
    long, begin = first_token(server, LONG)
    next(long)
    chunk = (time.monotonic() - begin) / -(-LONG // CHUNK)
    long.leave()
    long, _ = first_token(server, LONG)
    short, begin = first_token(server, 2)
    next(short)
    waited = (time.monotonic() - begin) / chunk
    # The long one goes on.
    next(long)
    return waited


def main(options, tools, folder):
    source = tools.build_model(
        folder / "gpt.mlir", layers=options.layers, hidden=options.hidden,
        heads=options.hidden // 64, seq=CONTEXT, vocab=256, batch=1, functions="loss",
        generate=f"slots={options.slots},context={CONTEXT},chunk={CHUNK}")
    library, text = folder / "gpt.so", folder / "text.txt"
    tools.compile(source, library, "--precision", options.precision)
    text.write_bytes(bytes(range(256)) * 8)
    run([tools.path("run"), "train", library, "--data", text, "--steps", 1,
         "--save", folder / "state"])
    command = [tools.path("serve"), library, "--load", folder / "state"]
    test = f"tg{NEW} x {options.slots}"

    def alone():
        found = run([tools.path("run"), "bench", library, "--generate", "--rounds", 1,
                     "--live", options.slots, "--json"])
        return json.loads(found)["tests"][test]["median"]

    texts, rates = set(), {"whole": [], "streams": [], "alone": [], "chunks": []}
    with Server(list(map(str, command))) as server:

        def ask(is_streamed):
            rate, said = ask_all(server, options, is_streamed)
            texts.update(said)
            return rate

        jobs = {"whole": lambda: ask(False), "streams": lambda: ask(True), "alone": alone,
                "chunks": lambda: chunks_waited(server)}
        for number, found in take_turns(jobs, options.rounds, warmup=1):
            print(f"round {number}: {found}", file=sys.stderr, flush=True)
            for name, rate in found.items():
                rates[name].append(rate)
        ended = server.stop()
    ratios = {name: [a / b for a, b in zip(rates[name], rates["alone"])]
              for name in ("whole", "streams")}
    rows = [["`optimus-run bench --generate`", spread(rates["alone"]), ""]]
    for name, what in (("whole", "the server, whole answers"), ("streams", "as streams")):
        rows.append([what, spread(rates[name]), spread(ratios[name], 3)])
    bad = [] if ended == 0 else [f"the server has ended with {ended}"]
    if len(texts) != 1:
        bad.append(f"expected one text of all clients, found {len(texts)}")
    if statistics.median(ratios["whole"]) < LEAST:
        bad.append(f"expected at least {LEAST} of the model's tokens")
    waited = statistics.median(rates["chunks"])
    if waited > MOST_CHUNKS:
        bad.append(f"a short request waited for {waited:.1f} chunks")
    said = (f"{machine()}\n\nGPT-2 of {options.layers} layers, {options.hidden} wide, "
            f"{options.precision}, {options.slots} slots; {options.rounds} rounds. A "
            f"short request behind a prompt of {LONG} tokens has its first token after "
            f"{spread(rates['chunks'])} times a chunk of {CHUNK}, its own included.\n\n")
    return {"serve-rate": said + table(["", "tokens a second", "of the bench"], rows)}, bad
