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

from simulation import CLUSTER, MODEL, compile_model, refuse, simulate
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


def test_ranks_lie_by_a_list(tools, tmp_path, library):
    path = tmp_path / "cluster.json"

    def on(placement, *flags):
        path.write_text(json.dumps({**CLUSTER, "placement": placement}))
        return simulate(tools, library, "--cluster", path, *flags)

    tiles = [on({"tile": {axis: 2}}) for axis in ("row", "col")]
    assert tiles[0]["step_ms"] != tiles[1]["step_ms"]
    # Columns on nodes, then rows; or a flag in place of the file's.
    assert on({"devices": [0, 2, 1, 3]})["step_ms"] == tiles[0]["step_ms"]
    assert on({"devices": [0, 1, 2, 3]})["step_ms"] == tiles[1]["step_ms"]
    assert on({"devices": [0, 1, 2, 3]}, "--placement", "row:2") == tiles[0]
    on({"tile": {"row": 2}})
    path.write_text(json.dumps({**CLUSTER, "placement": {"devices": [0, 1]}}))
    error = refuse(tools, "optimus-simulate", library, "--cluster", path)
    assert "expected a device of its own for each of the 4 ranks" in error
    program = tools.program(MODEL)
    flags = ["--mesh", "row:2,col:2", "--cluster", path, "-o", tmp_path / "model.so"]
    error = refuse(tools, "optimus-compile", program, *flags)
    assert "--cluster: expected placement.tile or none" in error


def test_curves_take_the_place_of_links(tools, tmp_path, library):
    """Of a collective of all ranks, in the cluster or in a machine profile."""
    path = tmp_path / "cluster.json"
    flags = ["--collective", "all_reduce", "--ranks", "4", "--bytes", "3MiB", "--json", "-"]
    points = [{"bytes": 1 << 20, "seconds": 1e-3}, {"bytes": 1 << 22, "seconds": 7e-3}]

    def take(*more, **fields):
        path.write_text(json.dumps({**CLUSTER, **fields}))
        [row] = json.loads(tools.run("optimus-simulate", *flags, "--cluster", path, *more))["times"]
        return row

    curve = {"collective": "all_reduce", "ranks": 4, "nodes": 2, "points": points}
    measured = take(measured=[curve])
    assert measured["us"] == pytest.approx(5000) and measured["protocol"] == "measured"
    plain = take()
    assert plain["us"] != measured["us"] and plain["protocol"] == ""
    for other in ({"ranks": 8}, {"nodes": 1}, {"collective": "all_gather"}):
        assert take(measured=[{**curve, **other}]) == plain
    machine = tmp_path / "machine.json"
    entry = dict(backend="mpi", collective="all_reduce", ranks=4, alpha_s=0, beta_s_per_byte=1e-9)
    for machines in (2, 4):
        entry.update(machines=machines, points=points)
        machine.write_text(json.dumps({"version": 1, "comm": [entry]}))
        assert take("--machine-profile", machine) == (measured if machines == 2 else plain)
    error = refuse(tools, "optimus-simulate", *flags, "--cluster", path, "--messages", "every",
                   "--machine-profile", rewrite(machine, machines=2))
    assert "expected a cluster without measured collectives" in error


def rewrite(profile, **fields):
    """The profile with other fields of its one collective."""
    whole = json.loads(profile.read_text())
    whole["comm"][0].update(fields)
    profile.write_text(json.dumps(whole))
    return profile


def test_devices_of_a_cluster_count(tools, tmp_path, library):
    flags = ["--target", "cuda", "--gpu-arch", "emulated", "--mesh", "row:2,col:2"]
    gpu, _ = compile_model(tools, MODEL, tmp_path, *flags, "--strategy", "summa")
    path = tmp_path / "cluster.json"

    def on(nodes, *flags):
        path.write_text(json.dumps({**CLUSTER, "nodes": {"devices": 2, **nodes}}))
        return simulate(tools, gpu, "--cluster", path, *flags)

    named = on({"machine_profile": "a100x8"})
    assert named["machine_profile"] == "a100x8"
    assert named["parts_ms"] == on({}, "--machine-profile", "a100x8")["parts_ms"]
    assert named["parts_ms"] != on({})["parts_ms"]
    assert simulate(tools, gpu, "--cluster", "selene")["machine_profile"] == "a100x8"
    # A file lies beside the cluster's; a flag comes first.
    known = json.loads((REPOSITORY / "lib/Prices/Profiles/a100.json").read_text())
    (tmp_path / "own.json").write_text(json.dumps(known))
    own = on({"machine_profile": "own.json"})
    assert own["parts_ms"] == named["parts_ms"]
    other = on({"machine_profile": "own.json"}, "--machine-profile", "h100x8")
    assert other["machine_profile"] == "h100x8"
    on({"machine_profile": "nowhere.json"}, "--machine-profile", "h100x8")
    error = refuse(tools, "optimus-simulate", gpu, "--cluster", path)
    assert "nodes.machine_profile" in error and "nowhere.json" in error
    # Processors are no such devices.
    assert simulate(tools, library, "--cluster", "selene")["machine_profile"] == ""


def test_what_does_not_fit_is_said(tools, tmp_path):
    flags = ["--target", "cuda", "--gpu-arch", "emulated"]
    gpu, _ = compile_model(tools, MODEL, tmp_path, *flags)
    profile = tmp_path / "gpu.json"
    known = json.loads((REPOSITORY / "lib/Prices/Profiles/h100.json").read_text())

    def on(bytes_):
        gpu_of = {**known["gpu"], "memory_bytes": bytes_ + 1, "reserved_bytes": 1}
        profile.write_text(json.dumps({**known, "gpu": gpu_of}))
        return simulate(tools, gpu, "--machine-profile", profile)

    held = on(1 << 36)["memory_bytes"]["total"]
    assert "misfit" not in on(held)
    assert on(held - 1)["misfit"] == {"rank": 0, "usable_bytes": held - 1, "bytes": held}
    text = tools.run("optimus-simulate", gpu, "--machine-profile", profile)
    assert "does not fit rank 0 on its device, which has " in text


def test_collectives_and_computing_slow_each_other(tools, tmp_path):
    flags = ["--target", "cuda", "--gpu-arch", "emulated", "--mesh", "row:2,col:2"]
    gpu, _ = compile_model(tools, MODEL, tmp_path, *flags, "--strategy", "summa")
    profile = tmp_path / "gpu.json"
    known = json.loads((REPOSITORY / "lib/Prices/Profiles/h100.json").read_text())
    known["links"][0]["ranks"] = 8

    def on(**factors):
        profile.write_text(json.dumps({**known, **factors}))
        return simulate(tools, gpu, "--machine-profile", profile)

    plain = on()
    slow = on(interference={"source": "nobody", "computing": {"gemm": 3, "launch": 3}})
    assert plain["interference"] == "" and slow["interference"] == "nobody"
    assert plain["computing_ms"] < slow["computing_ms"] < 3 * plain["computing_ms"]
    none = on(interference={"source": "nobody", "computing": {"gemm": 1}})
    assert none["step_ms"] == pytest.approx(plain["step_ms"], rel=1e-9)
    kinds = dict.fromkeys(("broadcast", "reduce", "all_reduce", "all_gather"), 2)
    late = on(interference={"source": "nobody", "collectives": kinds})
    assert late["comm_ms"] > plain["comm_ms"] and late["step_ms"] > plain["step_ms"]
    text = tools.run("optimus-simulate", gpu, "--machine-profile", profile)
    assert "slow each other on a device, as measured: nobody\n" in text


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
# Each node has one GPU of an H100's and its card of 400 Gb/s.
ONE_CARD = {
    "version": 1,
    "nodes": {"devices": 1},
    "nic": {"bytes_per_s": 4.7e10, "latency_s": 1.2e-5},
    "protocols": "nccl",
}
NCCL = [
    (8, "a100", "1GiB", "busbw_gb_per_s", 232),
    (16, TWO_NODES, "1GiB", "busbw_gb_per_s", 86),
    (8, "h100", "1MiB", "us", 25),
    (8, "h100", "1GiB", "us", 4060),
    (2, ONE_CARD, "1GiB", "busbw_gb_per_s", 47),
]


@pytest.mark.parametrize("ranks, cluster, size, column, published", NCCL)
def test_collectives_take_what_nccl_takes(
    tools, tmp_path, ranks, cluster, size, column, published
):
    """All-reduces, within 15 %."""
    if isinstance(cluster, dict):
        (tmp_path / "cluster.json").write_text(json.dumps(cluster))
        cluster = tmp_path / "cluster.json"
    flags = ["--collective", "all_reduce", "--ranks", str(ranks), "--cluster", cluster]
    found = json.loads(tools.run("optimus-simulate", *flags, "--bytes", size, "--json", "-"))
    assert len(found["times"]) == 1
    assert found["times"][0][column] == pytest.approx(published, rel=0.15)


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
