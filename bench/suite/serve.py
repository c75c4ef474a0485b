# ===- serve - A server among good and bad clients -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Requests to `optimus-serve` by clients at random: some read their answers, some
leave, some send no JSON or too much of it, some are slow or say nothing. How long
tokens, and answers of /health, took meanwhile.

    bench/run serve
    bench/run serve --requests 5000 --clients 64

The requests come twice: the second time as fast, but for a tenth. Fails where an answer
differs from that of the same request alone, where a slot, a waiting text or a connection
is left in the end, where the server has died, or holds 16 MiB and 2 % more than after the
requests alone. In Markdown.
"""

import collections
import os
import random
import sys
import threading
import time

from harness import ROOT, machine, run, table

sys.path.append(str(ROOT / "python/tests"))
from serving import Server, Stream, text_of  # noqa: E402

TARGETS = ["optimus-compile", "optimus-run", "optimus_python"]
NUMBERS = dict(requests=1000, clients=32, seed=1)
DIFFERENT = 40
MOST_GROWTH = 16 << 20
MOST_OF_FIRST, TIMES = 1.1, 2
LIMITS = ["--most-body-bytes", "20000", "--most-header-seconds", "2",
          "--most-body-seconds", "2", "--most-write-seconds", "5"]
HEAD = (b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/json\r\ncontent-length: 1000\r\n\r\n{")


def draw_bodies(draw):
    return [
        dict(
            prompt="".join(draw.choices("abcde \n", k=draw.randrange(1, 300))),
            max_tokens=draw.randrange(1, 60),
            temperature=draw.choice([0, 0.8]),
            seed=number,
            logprobs=0,
        )
        for number in range(DIFFERENT)
    ]


class Load:
    """Clients at random, and their outcomes."""

    def __init__(self, server, bodies, alone):
        self.server, self.bodies, self.alone = server, bodies, alone
        self.counts = collections.Counter()
        self.first, self.health, self.wrong = [], [], []
        self.lock = threading.Lock()

    def client(self, numbers, seed):
        draw = random.Random(seed)
        while True:
            with self.lock:
                if not numbers:
                    return
                number = numbers.pop()
            kinds = [self.read, self.stream, self.leave, self.send_none, self.send_too_much,
                     self.write_slowly, self.say_nothing, self.ask_health]
            kind = draw.choices(kinds, [30, 25, 15, 10, 5, 4, 3, 8])[0]
            try:
                kind(draw, number % DIFFERENT)
            except Exception as error:
                self.wrong.append(f"{kind.__name__}: {error!r}")
            with self.lock:
                self.counts[kind.__name__.replace("_", " ")] += 1

    def check(self, which, text):
        if text != self.alone[which]:
            self.wrong.append(f"request {which} has another answer than alone")

    def read(self, draw, which):
        while True:
            reply = self.server.post("/v1/completions", self.bodies[which])
            if reply.status != 429:
                return self.check(which, reply.json()["choices"][0]["text"])
            self.counts["429"] += 1
            time.sleep(float(reply.headers["retry-after"]) * draw.random())

    def stream(self, draw, which):
        begin = time.monotonic()
        stream = Stream(self.server, "/v1/completions", **self.bodies[which])
        if stream.status != 200:
            return stream.leave()
        events = []
        for event in stream:
            if not events:
                self.first.append(time.monotonic() - begin)
            events.append(event)
        self.check(which, text_of(events))

    def leave(self, draw, which):
        body = {**self.bodies[which], "max_tokens": 150}
        stream = Stream(self.server, "/v1/completions", **body)
        for _ in range(draw.randrange(5) if stream.status == 200 else 0):
            next(stream, None)
        stream.leave()

    def send_none(self, draw, which):
        some = [b'{"prompt": 3}', b"{", b'{"prompt": "a", "tools": []}', os.urandom(100)]
        assert self.server.post("/v1/completions", draw.choice(some)).status == 400

    def send_too_much(self, draw, which):
        assert self.server.post("/v1/completions", 20_001 * b" ").status == 413

    def write_slowly(self, draw, which):
        """A body of which a byte comes now and then, until the server has enough."""
        with self.server.open() as client:
            client.sendall(HEAD)
            client.settimeout(0.2)
            for _ in range(100):
                try:
                    if client.recv(4096) == b"":
                        return
                except TimeoutError:
                    pass
                except ConnectionError:
                    return
                try:
                    client.sendall(b" ")
                except OSError:
                    return
            raise AssertionError("it still waits")

    def say_nothing(self, draw, which):
        with self.server.open() as client:
            assert client.recv(100) == b""

    def ask_health(self, draw, which):
        begin = time.monotonic()
        assert self.server.get("/health").status == 200
        self.health.append(time.monotonic() - begin)


def held_bytes(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def shares(seconds):
    ordered = sorted(seconds)
    at = lambda share: ordered[min(int(share * len(ordered)), len(ordered) - 1)]
    return [f"{1e3 * at(share):.1f}" for share in (0.5, 0.99, 1)]


def settle(server, before):
    """What is left once all clients are gone, of `before` sockets."""
    names = ("texts_running", "texts_waiting", "queue_tokens")
    for _ in range(100):
        figures = server.figures()
        left = {name: figures[name] for name in names if figures[name]}
        sockets = server.count_sockets()
        if not left and sockets <= before:
            return figures, []
        time.sleep(0.1)
    return figures, [f"{left} and {sockets} sockets are left, of {before} before"]


def run_clients(load, options):
    """All requests; how many seconds they took."""
    numbers = list(range(options.requests))
    begin = time.monotonic()
    clients = [threading.Thread(target=load.client, args=(numbers, options.seed + n))
               for n in range(options.clients)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return time.monotonic() - begin


def main(options, tools, folder):
    source = tools.build_model(
        folder / "gpt.mlir", layers=4, hidden=192, heads=6, seq=512, vocab=256, batch=1, functions="loss",
        generate="slots=4,context=512,chunk=32")
    library, text = folder / "gpt.so", folder / "text.txt"
    tools.compile(source, library)
    text.write_bytes(bytes(random.Random(1).choices(b"abcde \n", k=20_000)))
    run([tools.path("run"), "train", library, "--data", text, "--steps", 20,
         "--save", folder / "state"])
    command = [tools.path("serve"), library, "--load", folder / "state", *LIMITS]
    draw = random.Random(options.seed)
    bodies = draw_bodies(draw)
    with Server(list(map(str, command))) as server:
        alone = [server.complete(**body)["choices"][0]["text"] for body in bodies]
        before, sockets = held_bytes(server.pid), server.count_sockets()
        load = Load(server, bodies, alone)
        seconds, held = [], []
        made = server.figures()["generated_tokens_total"]
        for _ in range(TIMES):
            seconds.append(run_clients(load, options))
            held.append(held_bytes(server.pid) - before)
        figures, bad = settle(server, sockets)
        bad += load.wrong
        if held[-1] > MOST_GROWTH + before // 50:
            bad.append(f"the server holds {held[-1] >> 20} MiB more")
        if seconds[-1] > MOST_OF_FIRST * seconds[0]:
            bad.append(f"the requests took {seconds} s")
        if server.stop() != 0:
            bad.append("the server has ended otherwise than by SIGTERM")
    counts = [f"{count} {kind}" for kind, count in sorted(load.counts.items())]
    rows = [["first token of a stream", *shares(load.first)],
            ["/health", *shares(load.health)]]
    made = figures["generated_tokens_total"] - made
    times = ", then ".join(f"{each:.0f} s" for each in seconds)
    grown = ", then ".join(f"{each / 2**20:.1f} MiB" for each in held)
    said = (f"{machine()}\n\n{TIMES} times {options.requests} requests of {options.clients} "
            f"clients ({', '.join(counts)}) in {times}: {made / sum(seconds):.0f} tokens a "
            f"second, {figures['clients_left_total']:.0f} clients left, of {before >> 20} MiB "
            f"{grown} more held, {len(load.wrong)} answers otherwise than alone\n\n")
    return {"serve": said + table(["ms", "median", "99 %", "longest"], rows)}, bad
