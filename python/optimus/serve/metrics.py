# ===- metrics.py - What a server has done ---------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Figures for Prometheus."""

from typing import Any, Dict

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

PAGES = {
    "held": "Pages of the cache that texts have",
    "free": "Pages of the cache that no text has",
    "shared": "Pages of the cache that several texts or beams have",
    "on_host": "Pages of texts that wait in host memory",
}


class Metrics:
    def __init__(self, slots: int, pages: int = 0):
        """Without pages of the cache there are no figures of them."""
        self._registry = CollectorRegistry()

        def make(kind: Any, name: str, said: str, *labels: str, **how: Any) -> Any:
            return kind("optimus_" + name, said, labels, registry=self._registry, **how)

        self.requests = make(Counter, "requests", "Answered requests", "path", "status")
        self.left = make(Counter, "clients_left", "Requests whose client left before the end")
        self.refused = make(Counter, "queue_refusals", "Requests refused by a full queue")
        self.prompt_tokens = make(Counter, "prompt_tokens", "Tokens of prompts")
        self.generated_tokens = make(Counter, "generated_tokens", "Tokens of answers")
        self.steps = make(Counter, "steps", "Steps of the generator")
        self.slots = make(Gauge, "slots", "Texts that are generated side by side, at most")
        self.running = make(Gauge, "texts_running", "Texts that have begun")
        self.waiting = make(Gauge, "texts_waiting", "Texts that have not begun")
        self.queue_tokens = make(Gauge, "queue_tokens", "Tokens that waiting texts may need")
        self.first = make(
            Histogram, "first_token_seconds", "From a request to a text's first token",
            buckets=SECONDS,
        )
        self.step_seconds = make(
            Histogram, "step_seconds", "Of a step, which adds a token to each running text",
            buckets=SECONDS,
        )
        self.slots.set(slots)
        self._pages = {}
        if pages:
            for state, said in PAGES.items():
                self._pages[state] = make(Gauge, "pages_" + state, said)
            self._shared = make(
                Counter, "shared_tokens", "Tokens of prompts in pages of other texts"
            )
            self._host_bytes = make(
                Gauge, "pages_on_host_bytes", "Host memory that such pages take at most"
            )
            none = {"pages_" + state: 0 for state in PAGES}
            self.take_pages({**none, "pages_free": pages, "host_bytes": 0}, 0)

    def take_pages(self, counters: Dict[str, int], shared_tokens: int) -> None:
        """Those of a generator, and how many more tokens were shared."""
        if self._pages:
            for state, gauge in self._pages.items():
                gauge.set(counters["pages_" + state])
            self._host_bytes.set(counters["host_bytes"])
            self._shared.inc(shared_tokens)

    def text(self) -> bytes:
        return generate_latest(self._registry)
