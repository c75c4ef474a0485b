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
from optimus.serve.embedding import EmbeddingEngine  # noqa: E402
from optimus.serve.metrics import Metrics  # noqa: E402
from optimus.serve.protocol import listen  # noqa: E402


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
