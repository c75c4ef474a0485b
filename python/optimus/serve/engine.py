# ===- engine.py - Requests to the session ---------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Runs requests on the session's own thread, as they come from others."""

import math
import threading
import time
from typing import Any, Callable, Collection, Dict, List, NamedTuple, Optional, Set, Tuple

from optimus.errors import Error
from optimus.serve.metrics import Metrics
from optimus.text.leading import Leader
from optimus.text.codec import Codec
from optimus.text.requests import Request
from optimus.text.speaker import Answer, Speaker
from optimus.text.streaming import Piece

WAIT_SECONDS = 0.25
"""Between looks for the end, where nothing is to be done."""
MOST_RETRY_SECONDS = 60
LAST_WORDS_SECONDS = 0.5


class Event(NamedTuple):
    """What becomes of a request: it is accepted, a text of it gets a piece, or ends, or
    all end by a failure."""

    index: int = -1
    piece: Optional[Piece] = None
    finish: Optional[str] = None
    refusal: Optional[str] = None
    """The request is wrong."""
    failure: Optional[str] = None
    """The server cannot go on."""
    vector: Optional[List[float]] = None
    """Of a sentence."""


class Full(Exception):
    """The queue has no place."""

    def __init__(self, seconds: int):
        super().__init__("the queue is full; try again in %d s" % seconds)
        self.seconds = seconds


class Closed(Exception):
    """The server takes no more requests."""


class Ticket:
    """A request under way, of texts or sentences; events are delivered on the engine's
    thread."""

    def __init__(
        self, requests: List[Any], deliver: Callable[[Event], None], is_streamed: bool
    ):
        self.requests = requests
        self.deliver = deliver
        self.held: Optional[Dict[int, List[Piece]]] = None if is_streamed else {}
        """Pieces of texts that have not ended, where nobody asks for these."""
        self.since = time.monotonic()
        self.is_cancelled = False
        self.waiting = {i: _tokens_of(request) for i, request in enumerate(requests)}
        """Tokens of texts that have not begun."""
        self.answers: Set[Answer] = set()


def _tokens_of(request: Any) -> int:
    """That a text can need, or a sentence has."""
    if isinstance(request, Request):
        return len(request.prompt) + request.max_tokens
    return len(request)


class Engine:
    """submit() and cancel() are for every thread, run() for the session's. What becomes
    of requests is a subclass's."""

    def __init__(self, queue_tokens: int, metrics: Metrics):
        self.failure: Optional[str] = None
        self.wake: Callable[[], None] = lambda: None
        """Called behind the events of a step. To wake others for each would have this
        thread wait for them between two steps."""
        self._metrics = metrics
        self._most_waiting = queue_tokens
        self._work = threading.Condition()
        self._submitted: List[Ticket] = []
        self._cancelled: List[Ticket] = []
        self._waiting_tokens = 0
        self._end: Optional[float] = None
        self._rate = 0.0

    # ----------------------------------------------------------- of a subclass

    def _begin(self, ticket: Ticket) -> None:
        raise NotImplementedError

    def _stop(self, ticket: Ticket) -> None:
        """Forgets it."""
        with self._work:
            self._waiting_tokens -= sum(ticket.waiting.values())
        ticket.waiting.clear()
        self._measure()

    def _under_way(self) -> Collection[Ticket]:
        raise NotImplementedError

    def _step(self) -> int:
        """Returns how many tokens it took in or made."""
        raise NotImplementedError

    def _measure(self) -> None:
        self._metrics.queue_tokens.set(self._waiting_tokens)

    # ------------------------------------------------------------- other threads

    def submit(
        self, requests: List[Any], deliver: Callable[[Event], None], is_streamed: bool = False
    ) -> Ticket:
        """Unless it is streamed, each text gets one piece, at its end. Raises Full or
        Closed."""
        ticket = Ticket(requests, deliver, is_streamed)
        with self._work:
            if self.is_ending:
                raise Closed("the server is ending")
            more = sum(ticket.waiting.values())
            if self._waiting_tokens and self._waiting_tokens + more > self._most_waiting:
                self._metrics.refused.inc()
                raise Full(self._seconds_of_queue())
            self._waiting_tokens += more
            self._submitted.append(ticket)
            self._work.notify()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Ends its texts before the next step; nothing more is delivered."""
        with self._work:
            ticket.is_cancelled = True
            self._cancelled.append(ticket)
            self._work.notify()

    @property
    def is_ending(self) -> bool:
        return self._end is not None or self.failure is not None

    def end(self, grace: float) -> None:
        """Takes no more requests; those under way have so many seconds. For handlers of
        signals, too."""
        self._end = time.monotonic() + grace

    def fail(self, reason: str) -> None:
        """Tells everybody why the session cannot go on, and gives them a moment to hear
        it. The session's own thread is lost in it."""
        self.failure = reason
        self._tell_all(reason)
        time.sleep(LAST_WORDS_SECONDS)

    def _seconds_of_queue(self) -> int:
        if not self._rate:
            return 1
        seconds = self._waiting_tokens / self._rate
        return max(1, min(math.ceil(seconds), MOST_RETRY_SECONDS))

    # ----------------------------------------------------------- the session's one

    def run(self) -> None:
        """Until end(), or a failure, of which everybody is told. Raises Error then."""
        while True:
            with self._work:
                if not (self._submitted or self._cancelled or self._has_work or self._end):
                    self._work.wait(WAIT_SECONDS)
                submitted, self._submitted = self._submitted, []
                cancelled, self._cancelled = self._cancelled, []
            for ticket in submitted:
                if not ticket.is_cancelled:
                    self._begin(ticket)
            for ticket in cancelled:
                self._stop(ticket)
            if submitted:
                self.wake()
            if self._end is not None and (
                not self._under_way() or time.monotonic() > self._end
            ):
                return self._tell_all("the server has ended")
            if self._has_work:
                self._timed_step()

    @property
    def _has_work(self) -> bool:
        return bool(self._under_way())

    def _timed_step(self) -> None:
        begin = time.monotonic()
        try:
            tokens = self._step()
        except Error as error:
            self.failure = str(error)
            self._tell_all(self.failure)
            raise
        seconds = time.monotonic() - begin
        self.wake()
        self._metrics.steps.inc()
        self._metrics.step_seconds.observe(seconds)
        # Of the last dozens of steps.
        self._rate += 0.05 * (tokens / max(seconds, 1e-6) - self._rate)
        self._measure()

    def _leave_queue(self, ticket: Ticket, index: int) -> None:
        tokens = ticket.waiting.pop(index, None)
        if tokens is not None:
            self._metrics.first.observe(time.monotonic() - ticket.since)
            with self._work:
                self._waiting_tokens -= tokens

    def _tell_all(self, failure: str) -> None:
        with self._work:
            self._end = self._end or time.monotonic()
            late, self._submitted = self._submitted, []
        for ticket in {*self._under_way(), *late}:
            ticket.deliver(Event(failure=failure))
        self.wake()


COUNTED = ("prompt_tokens", "generated_tokens", "shared_tokens")


class TextEngine(Engine):
    """Of a library that generates."""

    def __init__(self, leader: Leader, codec: Codec, queue_tokens: int, metrics: Metrics):
        super().__init__(queue_tokens, metrics)
        self._leader = leader
        self._speaker = Speaker(leader, codec)
        self._texts: Dict[Answer, Tuple[Ticket, int]] = {}
        self._counted = (0,) * len(COUNTED)

    def _under_way(self) -> Collection[Ticket]:
        return {ticket for ticket, _ in list(self._texts.values())}

    @property
    def _has_work(self) -> bool:
        # A step frees the slots of cancelled texts, too.
        return self._speaker.has_work

    def _begin(self, ticket: Ticket) -> None:
        try:
            for index, request in enumerate(ticket.requests):
                answer = self._speaker.submit(request)
                ticket.answers.add(answer)
                self._texts[answer] = ticket, index
        except (Error, TypeError) as error:
            self._stop(ticket)
            ticket.deliver(Event(refusal=str(error)))
            return
        self._measure()
        ticket.deliver(Event())

    def _stop(self, ticket: Ticket) -> None:
        for answer in ticket.answers:
            self._speaker.cancel(answer)
            self._texts.pop(answer, None)
        ticket.answers.clear()
        super()._stop(ticket)

    def _step(self) -> int:
        for answer, piece, finish in self._speaker.step():
            ticket, index = self._texts[answer]
            self._leave_queue(ticket, index)
            if finish:
                del self._texts[answer]
                ticket.answers.discard(answer)
            if ticket.held is not None:
                ticket.held.setdefault(index, []).append(piece)
                if not finish:
                    continue
                piece = Piece.joined(ticket.held.pop(index))
            ticket.deliver(Event(index, piece, finish))
        counters = self._leader.counters
        counted = tuple(counters.get(name, 0) for name in COUNTED)
        prompt, generated, shared = (new - old for new, old in zip(counted, self._counted))
        self._counted = counted
        self._metrics.take_pages(counters, shared)
        self._metrics.prompt_tokens.inc(prompt)
        self._metrics.generated_tokens.inc(generated)
        return prompt + generated

    def _measure(self) -> None:
        waiting = sum(index in ticket.waiting for ticket, index in self._texts.values())
        self._metrics.waiting.set(waiting)
        self._metrics.running.set(len(self._texts) - waiting)
        super()._measure()
