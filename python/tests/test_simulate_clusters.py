# ===- test_simulate_clusters.py - Ranks on nodes ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Collectives on the links of a cluster, which ranks share."""

import json

import pytest

from simulation import CLUSTER, MODEL, refuse, simulate
from tools import REPOSITORY

pytestmark = pytest.mark.rotates


@pytest.fixture(scope="module")
def library(tools):
    return tools.library(MODEL, "row:2,col:2", "summa", "--accumulate")


def test_ranks_share_the_links_of_a_cluster(tools, tmp_path, library):
    path = tmp_path / "cluster.json"

    def on(cluster, *flags):
        path.write_text(json.dumps(cluster))
        return simulate(tools, library, "--cluster", path, *flags)

    own = {key: CLUSTER[key] for key in ("version", "nic")}
    alone = on({**own, "nodes": {"devices": 1}})
    plain = simulate(tools, library)
    # The links of the built-in profile, one for each rank; row and column share it.
    assert alone["step_ms"] >= plain["step_ms"]
    assert alone["computing_ms"] == plain["computing_ms"]
    shared = on(CLUSTER)
    assert shared["step_ms"] > plain["step_ms"]
    assert sum(wait["shared_ms"] for wait in shared["waits"]) > 0
    assert {link["link"].split(" ")[2] for link in shared["links"]} >= {"card"}
    assert 0 < shared["links"][0]["share"] <= 1
    # On nodes of a column, the other axis crosses the card.
    tiled = on({**CLUSTER, "placement": {"tile": {"row": 2}}})
    assert tiled["step_ms"] != shared["step_ms"]
    faster = on(CLUSTER, "--network", "bandwidth=4")
    assert faster["step_ms"] < shared["step_ms"]
    slower = on(CLUSTER, "--scale", "broadcast=4", "--scale", "reduce=4")
    assert slower["step_ms"] > shared["step_ms"]
    text = tools.run("optimus-simulate", library, "--cluster", path)
    assert "links        " in text and " busy for " in text
    assert on(CLUSTER, "--placement", "row:2") == tiled
    for placement, message in [
        ("row", "--placement: expected AXIS:EXTENT, several with commas between, found 'row'"),
        ("row:4", "expected a tile that divides row:2,col:2, found row:4"),
    ]:
        error = refuse(
            tools, "optimus-simulate", library, "--cluster", path, "--placement", placement
        )
        assert message in error
    assert shared["protocols"] == {}
    nccl = on({**CLUSTER, "protocols": "nccl"})
    assert nccl["step_ms"] < shared["step_ms"]
    groups = sum(1 for name in nccl["protocols"] if name.startswith("ring "))
    assert groups == len(nccl["protocols"]) > 0, "broadcasts and reduces"


def test_every_message_is_a_flow(tools, tmp_path, library):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(CLUSTER))
    phases = simulate(tools, library, "--cluster", path)
    every = simulate(tools, library, "--cluster", path, "--messages", "every")
    assert every["simulated_ranks"] == 4 and every["events"] > phases["events"]
    assert every["computing_ms"] == phases["computing_ms"]
    assert every["step_ms"] == pytest.approx(phases["step_ms"], rel=0.1)
    for wait in every["waits"]:
        assert wait["shared_ms"] >= 0
    one = ["--collective", "all_gather", "--cluster", "h100", "--json", "-"]
    found = [
        [row["us"] for row in json.loads(tools.run("optimus-simulate", *one, *flags))["times"]]
        for flags in ([], ["--messages", "every"])
    ]
    assert found[1] == pytest.approx(found[0], rel=0.01)
    error = refuse(tools, "optimus-simulate", library, "--messages", "every")
    assert "--messages: expected --cluster beside it" in error


def test_devices_share_a_pcie_tree(tools, tmp_path, library):
    path = tmp_path / "cluster.json"

    def on(**fields):
        path.write_text(json.dumps({**CLUSTER, "nodes": {"devices": 4}, **fields}))
        return simulate(tools, library, "--cluster", path)

    tree = {"devices": 2, "bytes_per_s": 4e9, "nics": "root"}
    plain, shared = on(), on(pcie=tree)
    assert shared["step_ms"] > plain["step_ms"]
    assert "out of PCIe switch 0 of node 0" in {one["link"] for one in shared["links"]}
    faster = on(pcie={**tree, "bytes_per_s": 8e9})
    assert plain["step_ms"] <= faster["step_ms"] < shared["step_ms"]
    path.write_text(json.dumps({**CLUSTER, "pcie": {**tree, "nics": "switch"}}))
    error = refuse(tools, "optimus-simulate", library, "--cluster", path)
    assert "expected less than nodes.devices, or nics on the root" in error


def test_known_clusters_are_files(tools, tmp_path):
    """As they are printed they are read, and the page has all of their fields."""
    page = (REPOSITORY / "docs" / "what-if.md").read_text()
    flags = ["--collective", "all_reduce", "--ranks", "16", "--json", "-", "--cluster"]
    for name in "a100", "h100", "h200", "selene", "frontera-rtx":
        text = tools.run("optimus-simulate", "--print-cluster", name)
        (tmp_path / name).write_text(text)
        times = [
            json.loads(tools.run("optimus-simulate", *flags, cluster))["times"]
            for cluster in (name, tmp_path / name)
        ]
        assert times[0] == times[1]
        cluster = json.loads(text)
        protocols = cluster.get("protocols", [{}])
        assert len({row["protocol"] for row in times[0]}) > 2 * ("protocols" in cluster)
        for field in {*cluster, *cluster["nodes"], *cluster["nic"], *protocols[0]}:
            assert f"`{field}`" in page or f'"{field}"' in page, field
    assert "expected nothing beside it" in refuse(
        tools, "optimus-simulate", "--print-cluster", "h100", "--json", "-"
    )


# Ranks, devices and cards of a node, the two links, bytes: bus bandwidth or seconds.
TWO_NODES = {
    "version": 1,
    "nodes": {"devices": 8, "nics": 4},
    "device_link": {"bytes_per_s": 2.35e11, "latency_s": 2e-6},
    # Of 200 Gb/s what cards reach: those of 400 Gb/s 46 to 48 GB/s.
    "nic": {"bytes_per_s": 2.35e10, "latency_s": 5e-6},
    "protocols": "nccl",
}
NCCL = [
    (8, "a100", "1GiB", "busbw_gb_per_s", 232),
    (16, TWO_NODES, "1GiB", "busbw_gb_per_s", 86),
    (8, "h100", "1MiB", "us", 25),
    (8, "h100", "1GiB", "us", 4060),
]


@pytest.mark.parametrize("ranks, cluster, size, column, published", NCCL)
def test_collectives_take_what_nccl_takes(
    tools, tmp_path, ranks, cluster, size, column, published
):
    """All-reduces, within 15 %, and 16 for the shortest: most of it is a start-up."""
    if isinstance(cluster, dict):
        (tmp_path / "cluster.json").write_text(json.dumps(cluster))
        cluster = tmp_path / "cluster.json"
    flags = ["--collective", "all_reduce", "--ranks", str(ranks), "--cluster", cluster]
    found = json.loads(tools.run("optimus-simulate", *flags, "--bytes", size, "--json", "-"))
    assert len(found["times"]) == 1
    assert found["times"][0][column] == pytest.approx(published, rel=0.16)


def test_collectives_in_many_sizes(tools, library):
    found = json.loads(
        tools.run(
            *("optimus-simulate", "--collective", "all_gather", "--ranks", "4"),
            *("--machine-profile", "h100x8", "--json", "-"),
        )
    )
    times = [row["us"] for row in found["times"]]
    assert [row["bytes"] for row in found["times"]] == [4096 * 4**i for i in range(10)]
    assert times == sorted(times)
    for row in found["times"]:
        assert row["algbw_gb_per_s"] == pytest.approx(row["bytes"] / row["us"] / 1e3)
        assert row["busbw_gb_per_s"] == pytest.approx(row["algbw_gb_per_s"] * 3 / 4)
    text = tools.run("optimus-simulate", "--collective", "reduce", "--bytes", "1MiB")
    assert "simulated    reduce among 8 ranks on the built-in profile" in text
    for flags, message in [
        (["--collective", "all_reduse"], "found all_reduse"),
        ([library, "--collective", "reduce"], "expected no library beside it"),
        ([], "LIBRARY is required"),
        (["--collective", "reduce", "--ranks", "1"], "a whole number from 2 to 16384"),
        ([library, "--ranks", "4"], "--collective"),
        (["--collective", "reduce", "--network", "latency=2"], "expected no changes beside it"),
        (["--collective", "reduce", "--remove", "gemm"], "expected no changes beside it"),
    ]:
        assert message in refuse(tools, "optimus-simulate", *flags)
