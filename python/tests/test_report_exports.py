# ===- test_report_exports.py - Profiles in the formats of other tools ----===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The files of `optimus-report export` are readable by those tools, and agree with the
profile."""

import json
import pickle
from collections import Counter

import pytest

import synthetic_profile
from optimus.report.__main__ import main
from profile_by_hand import ByHand
from synthetic_profile import Shape

SHAPES = {"planned": Shape(steps=4), "dynamic": Shape(layers=3, dynamic=True)}


@pytest.fixture(params=SHAPES, ids=str)
def path(request, tmp_path):
    synthetic_profile.write(tmp_path / "run.profile", SHAPES[request.param])
    return tmp_path / "run.profile"


@pytest.fixture
def by_hand(path) -> ByHand:
    return ByHand(path)


@pytest.fixture
def export(path, tmp_path):
    def run(kind, *flags, files=None) -> bytes:
        out = tmp_path / ("out." + kind)
        files = files or [path]
        format_flags = ["--format=" + kind, "-o", str(out), *flags]
        assert main(["export", *map(str, files), *format_flags]) == 0
        return out.read_bytes()

    return run


def drawn(by_hand, rank):
    """By default: the steps from the second on, four of them."""
    return [
        call
        for call in by_hand.calls
        if call["rank"] == rank and 2 <= call["step"] <= 5
    ]


def test_snapshot_has_every_block(export, by_hand):
    snapshot = pickle.loads(export("memory_viz"))
    assert len(snapshot["device_traces"]) == 2
    for rank, trace in enumerate(snapshot["device_traces"]):
        lives = [each for call in drawn(by_hand, rank) for each in by_hand.lives(call)]
        sizes = Counter(by_hand.blocks[block]["bytes"] for block, *_ in lives)
        made = Counter(e["size"] for e in trace if e["action"] == "alloc")
        assert made == sizes
        times = [entry["time_us"] for entry in trace]
        assert times == sorted(times)
        assert times[1] == min(malloc for _, _, malloc, _ in lives) // 1000


def test_snapshot_frees_match_allocs(export):
    """Every free is of a block that is there, of its size; none is left, and all lie
    apart inside the segment that was made for them."""
    snapshot = pickle.loads(export("memory_viz"))
    for trace in snapshot["device_traces"]:
        arena = trace[0]
        assert arena["action"] == "segment_alloc"
        alive = {}
        for entry in trace[1:]:
            begin, end = entry["addr"], entry["addr"] + entry["size"]
            if entry["action"] == "free_completed":
                assert alive.pop(begin) == end
                continue
            assert entry["action"] == "alloc"
            assert arena["addr"] <= begin and end <= arena["addr"] + arena["size"]
            assert all(end <= b or e <= begin for b, e in alive.items())
            alive[begin] = end
        assert alive == {}


def test_snapshot_segments(export, by_hand):
    """Blocks follow each other without gaps, and held bytes equal resident bytes."""
    snapshot = pickle.loads(export("memory_viz"))
    for device in (0, 1):
        segments = [each for each in snapshot["segments"] if each["device"] == device]
        spans = sorted((s["address"], s["address"] + s["total_size"]) for s in segments)
        assert all(end <= begin for (_, end), (begin, _) in zip(spans, spans[1:]))
        held = []
        for segment in segments:
            at = segment["address"]
            for block in segment["blocks"]:
                assert block["address"] == at
                at += block["size"]
                if block["state"] == "active_allocated":
                    held.append((block["frames"][0]["name"], block["requested_size"]))
            assert at == segment["address"] + segment["total_size"]
            assert segment["allocated_size"] == segment["active_size"]
        assert sorted(held) == sorted(
            (row["path"], row["bytes"])
            for row in by_hand.blocks.values()
            if row["space"] == "resident"
        )


def test_snapshot_frames(export):
    """What memory_viz filters and joins: a name, a file and a line of each frame. Of a
    category, which breaks MemoryViz.js, there is none beside them."""
    snapshot = pickle.loads(export("memory_viz"))
    made = [e for e in snapshot["device_traces"][0] if e["action"] == "alloc"]
    frames = {tuple(frame.values()) for entry in made for frame in entry["frames"]}
    assert ("h.1.up", "gpt2.py", 9) in frames and (
        "activation",
        "category",
        0,
    ) in frames
    assert all("category" not in entry for entry in made)


def trace_events(data, phase):
    return [e for e in json.loads(data)["traceEvents"] if e["ph"] == phase]


def test_trace_has_every_command(export, by_hand):
    data = export("perfetto")
    for rank in (0, 1):
        calls = {call["call"] for call in drawn(by_hand, rank)}
        expected = sorted(
            (row["begin"] / 1000, (row["end"] - row["begin"]) / 1000)
            for (call, _), row in by_hand.times.items()
            if call in calls
        )
        found = [e for e in trace_events(data, "X") if e["pid"] == rank]
        assert sorted((e["ts"], e["dur"]) for e in found) == pytest.approx(expected)
        names = {e["tid"]: e["args"]["name"] for e in trace_events(data, "M")}
        assert names == {0: "compute", 1: "communication row"}
        assert {e["tid"] for e in found if e["cat"] == "all_reduce"} == {1}


def test_trace_transfers_and_arrows(export):
    data = export("perfetto")
    begins, ends = trace_events(data, "b"), trace_events(data, "e")
    assert len(begins) > 0
    assert Counter(e["id"] for e in begins) == Counter(e["id"] for e in ends)
    assert max(Counter(e["id"] for e in begins).values()) == 1
    starts = {e["id"]: e for e in trace_events(data, "s")}
    finishes = {e["id"]: e for e in trace_events(data, "f")}
    assert starts.keys() == finishes.keys() == {e["id"] for e in begins}
    slices = trace_events(data, "X")
    for number, arrow in finishes.items():
        inside = [
            each["cat"]
            for each in slices
            if (each["pid"], each["tid"]) == (arrow["pid"], arrow["tid"])
            and each["ts"] <= arrow["ts"] < each["ts"] + each["dur"]
        ]
        assert inside == ["wait"] and starts[number]["ts"] < arrow["ts"]


def test_trace_counts_live_bytes(export, by_hand):
    counters = [e for e in trace_events(export("perfetto"), "C") if e["pid"] == 0]
    resident = sum(
        b["bytes"] for b in by_hand.blocks.values() if b["space"] == "resident"
    )
    expected = {
        time / 1000: resident + by_hand.bytes_of(alive)
        for call in drawn(by_hand, 0)
        for time, alive in by_hand.alive(call)
    }
    assert {e["ts"]: sum(e["args"].values()) for e in counters} == expected


def test_processes_are_aligned(export, tmp_path):
    """The second process's clock starts 3 µs later."""
    files = [tmp_path / "run.0", tmp_path / "run.1"]
    for process, file in enumerate(files):
        origin = Shape().origin_unix_ns + 3_000 * process
        shape = Shape(ranks=1, processes=2, process=process, origin_unix_ns=origin)
        synthetic_profile.write(file, shape)
    data = export("perfetto", files=files)
    first = {
        rank: min(e["ts"] for e in trace_events(data, "X") if e["pid"] == rank)
        for rank in (0, 1)
    }
    alone = min(e["ts"] for e in trace_events(export("perfetto", files=files[1:]), "X"))
    assert first[1] - alone == pytest.approx(3)


def test_chosen_rank_and_steps(export, by_hand):
    data = export("perfetto", "--rank", "1", "--steps", "3")
    found = trace_events(data, "X")
    assert {(e["pid"], e["args"]["step"]) for e in found} == {(1, 3)}


def test_planner_takes_live_ranges(export, by_hand, tools, tmp_path):
    export("minimalloc")
    report = tools.run("optimus-plan", tmp_path / "out.minimalloc", "--report")
    arena = [block for block in by_hand.blocks.values() if block["function"] == 0]
    assert "buffers      %d" % len(arena) in " ".join(report.split("\n"))
    lines = (tmp_path / "out.minimalloc").read_text().splitlines()
    assert lines[0] == "id,lower,upper,size"
    assert {tuple(map(int, line.split(","))) for line in lines[1:]} == {
        (block["block"], block["first"], block["last"] + 1, block["bytes"])
        for block in arena
    }


def varints(data):
    """Numbers, one after the other."""
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0


def number(data, at):
    """The number there, and its end."""
    end = next(i for i in range(at, len(data)) if data[i] < 0x80) + 1
    return next(varints(data[at:end])), end


def delimited(data, at):
    """The bytes behind a length, and their end."""
    length, begin = number(data, at)
    return data[begin : begin + length], begin + length


def read_message(data):
    """The fields of a protobuf message: numbers, or bytes."""
    fields, at = {}, 0
    while at < len(data):
        key, at = number(data, at)
        assert key & 7 in (0, 2)
        value, at = (delimited if key & 7 == 2 else number)(data, at)
        fields.setdefault(key >> 3, []).append(value)
    return fields


def read_trace(path):
    """The metadata and the nodes, with their attributes by name."""
    data, messages, at = path.read_bytes(), [], 0
    while at < len(data):
        message, at = delimited(data, at)
        messages.append(read_message(message))
    for node in messages[1:]:
        found = [read_message(each) for each in node[10]]
        node["attr"] = {
            each[1][0].decode(): next(each[f][0] for f in (9, 27, 29) if f in each)
            for each in found
        }
        node["deps"] = [d for packed in node.get(5, []) for d in varints(packed)]
    return messages[0], messages[1:]


def test_chakra_has_every_rank_and_command(path, by_hand, tmp_path):
    folder = tmp_path / "chakra"
    flags = ["export", str(path), "--format=chakra", "--steps", "3", "-o", str(folder)]
    assert main(flags) == 0
    groups = json.loads((folder / "comm_groups.json").read_text())
    assert sorted(each.name for each in folder.iterdir()) == [
        *("comm_groups.json", "trace.0.et", "trace.1.et"),
    ]
    for rank in (0, 1):
        metadata, nodes = read_trace(folder / ("trace.%d.et" % rank))
        assert metadata[1] == [b"0.0.4"]
        calls = [c for c in by_hand.calls if (c["rank"], c["step"]) == (rank, 3)]
        ran = [
            (by_hand.commands[command], row, by_hand.transfers.get((call, command), row))
            for (call, command), row in by_hand.times.items()
            if call in {each["call"] for each in calls}
        ]
        kinds = [command["kind"] for command, _, _ in ran if command["kind"] != "wait"]
        assert len(nodes) == len(kinds)
        begin = min(call["begin"] for call in calls)
        seen = set()
        for node, (command, row, moved) in zip(
            nodes, [each for each in ran if each[0]["kind"] != "wait"]
        ):
            is_collective = command["kind"] == "all_reduce"
            assert node[3] == [7 if is_collective else 4]
            assert node.get(6, [0]) == [(moved["begin"] - begin) // 1000]
            assert node.get(7, [0]) == [(moved["end"] - moved["begin"]) // 1000]
            assert set(node["deps"]) <= seen
            seen.add(node.get(1, [0])[0])
            if is_collective:
                assert node["attr"]["comm_type"] == 0 and node["attr"]["comm_size"] > 0
                assert rank in groups[node["attr"]["pg_name"].decode()]
            else:
                assert node["attr"]["num_ops"] == command["flops"]
        # Somebody needs each collective that is waited for.
        numbers = {node.get(1, [0])[0] for node in nodes if node[3] == [7]}
        awaited = sum(command["kind"] == "wait" for command, _, _ in ran)
        assert len(numbers & {d for node in nodes for d in node["deps"]}) >= awaited - 1
    assert main(flags) == 1


@pytest.mark.parametrize("backend", ["local", "simulated"])
def test_chakra_needs_all_ranks(backend, tmp_path):
    """One of several simulated ranks stands for no other."""
    path = tmp_path / "run.profile"
    synthetic_profile.write(path, SHAPES["planned"], backend=backend)
    flags = ["--format=chakra", "--rank", "1", "-o", str(tmp_path / "out")]
    assert main(["export", str(path), *flags]) == 1
    assert not (tmp_path / "out").exists()
