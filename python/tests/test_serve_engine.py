# ===- test_serve_engine.py - What a server runs, without a model ----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Whoever waits for an answer hears of a failure, and addresses that are none are
refused."""

import types

import pytest

from optimus.errors import UnavailableError
from optimus.text.pooling import Pooling

pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
from optimus.serve import api  # noqa: E402
from optimus.serve.embedding import EmbeddingEngine  # noqa: E402
from optimus.serve.limits import Limits  # noqa: E402
from optimus.serve.metrics import Metrics  # noqa: E402
from optimus.serve.protocol import listen  # noqa: E402
from optimus.text.fields import FieldError  # noqa: E402


@pytest.mark.parametrize("length, most", [(4, 16), (5, 16), (18, 3), (20, 1)])
def test_a_completion_without_a_number_of_tokens_fits_the_context(length, most):
    model = types.SimpleNamespace(
        extents=types.SimpleNamespace(context=20),
        folder=types.SimpleNamespace(ends=[]),
    )
    reader = api.Reader(model, api.Naming("tiny"), Limits())
    (request,) = reader.completion({"prompt": [1] * length}).requests
    assert request.max_tokens == most
    with pytest.raises(FieldError, match="expected at most %d behind" % (21 - length)):
        reader.completion({"prompt": [1] * length, "max_tokens": 18})


@pytest.mark.parametrize(
    "path, body, words",
    [
        ("completion", {"n": 4}, "n: expected a whole number from 1 to 3"),
        ("completion", {"prompt": [[1]] * 4}, "a list of at most 3 of either"),
        ("completion", {"prompt": [[1]] * 2, "n": 2}, "expected at most 3 texts"),
        ("completion", {"max_tokens": 17, "n": 2, "logprobs": 2},
         "at most 100 log-probabilities, found 3 for each of 34 tokens"),
        ("completion", {"prompt": [1] * 101, "max_tokens": 0, "logprobs": 0, "echo": True},
         "found 1 for each of 101 tokens"),
        ("completion", {"logit_bias": {str(i): 0 for i in range(1025)}}, "at most 1024 tokens"),
        ("completion", {"stop_tokens": [1] * 17}, "a list of at most 16 tokens"),
        ("completion", {"stop": ["a"] * 17}, "at most 16"),
        ("completion", {"stop": "a" * 257}, "1 to 256 characters"),
        ("completion", {"user": "a" * 257}, "at most 256 characters"),
        ("completion", {"logprobs": 21}, "from 0 to 20"),
        ("chat", {"messages": [{"role": "user", "content": "a"}] * 4097}, "a list of 1 to 4096"),
    ],
)  # fmt: skip
def test_every_field_has_a_bound(path, body, words):
    model = types.SimpleNamespace(
        extents=types.SimpleNamespace(context=200),
        folder=types.SimpleNamespace(ends=[]),
        codec=types.SimpleNamespace(decode=lambda tokens: "a" * len(tokens)),
    )
    reader = api.Reader(model, api.Naming("tiny"), Limits(texts=3, numbers=100))
    given = body if path == "chat" else {"prompt": [1], **body}
    with pytest.raises(FieldError, match=words):
        getattr(reader, path)(given)


class LostLeader:
    def forward(self, rows):
        raise UnavailableError("rank 1 is lost")


def test_a_failed_step_is_told_to_its_sentences():
    """A request within the step, one with a sentence outside, and one behind."""
    extents = types.SimpleNamespace(batch=2, sequence=4, pad=0)
    model = types.SimpleNamespace(encoder=extents, pooling=Pooling())
    engine = EmbeddingEngine(LostLeader(), model, 100, Metrics(2))
    told = {name: [] for name in ("within", "split", "waits")}
    engine.submit([[1]], told["within"].append)
    engine.submit([[2], [3]], told["split"].append)
    engine.submit([[4, 5]], told["waits"].append)
    with pytest.raises(UnavailableError):
        engine.run()
    for events in told.values():
        accepted, failed = events
        assert accepted.failure is None and failed.failure == "rank 1 is lost"


@pytest.mark.parametrize("host", ["a" * 70, "a..b"])
def test_an_address_that_is_no_name(host):
    with pytest.raises(OSError) as raised:
        listen(host, 0, 1)
    assert raised.value.strerror == "expected an address or the name of a host"
