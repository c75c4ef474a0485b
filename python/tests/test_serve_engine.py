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
