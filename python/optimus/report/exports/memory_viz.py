# ===- memory_viz.py - PyTorch's memory snapshots -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""PyTorch's memory snapshot, as torch.cuda.memory._dump_snapshot pickles it (read by
torch/cuda/_memory_viz.py and torch/utils/viz/MemoryViz.js): the file can be dropped on
pytorch.org/memory_viz. A rank is a device. `device_traces` has what happened, in
order; `segments` what there is in the end: an arena and the resident memory.

Entries have no `category`, on which MemoryViz.js stumbles; it is in the frames."""

import pickle
from typing import Dict, List, Sequence

import numpy as np

from optimus.report import events, runs
from optimus.report.profile import Profile
from optimus.report.window import Window

STREAM = 0
GAP = 1 << 21  # bytes between the arena and the resident memory


def render(windows: Sequence[Window]) -> bytes:
    first = windows[0].profile
    devices = [_Device(index, window) for index, window in enumerate(windows)]
    snapshot = {
        "segments": [segment for each in devices for segment in each.segments()],
        "device_traces": [
            each.trace(runs.offset(each.profile, first)) for each in devices
        ],
        "allocator_settings": {},
    }
    # Any Python 3 reads it, and so does the page.
    return pickle.dumps(snapshot, protocol=4)


class _Device:
    """One rank."""

    def __init__(self, index: int, window: Window):
        self.index = index
        self.profile: Profile = window.profile
        self.window = window
        self._frames: Dict[int, List[dict]] = {}
        alive, blocks = window.lives, self.profile.blocks
        planned = max([call.function.arena_bytes for call in window.calls], default=0)
        below = int(alive.address.min()) if len(alive.block) else 0
        above = int((alive.address + blocks.bytes[alive.block]).max(initial=0))
        dynamic = self.profile.trace.get("placement") == "dynamic"
        # No address is 0.
        self._shift = 0 if dynamic else GAP
        self.arena = (below, above) if dynamic else (GAP, GAP + max(planned, above))
        self.resident_at = -(-(self.arena[1] + GAP) // GAP) * GAP

    def trace(self, offset: int) -> List[dict]:
        """What happened, in order of time."""
        alive, blocks = self.window.lives, self.profile.blocks
        begin, end = self.arena
        found = [
            self._entry(
                "segment_alloc", begin, end - begin, self.window.begin, offset, []
            )
        ]
        time = np.concatenate([alive.malloc, alive.free])
        kind = np.repeat([events.MALLOC, events.FREE], len(alive.block))
        life = np.tile(np.arange(len(alive.block)), 2)
        for each in np.lexsort((kind, time)).tolist():
            block = int(alive.block[life[each]])
            address = int(alive.address[life[each]]) + self._shift
            action = "alloc" if kind[each] == events.MALLOC else "free_completed"
            found.append(
                self._entry(
                    *(action, address, int(blocks.bytes[block]), int(time[each])),
                    *(offset, self._frames_of(block)),
                )
            )
        return found

    def _entry(self, action, address, size, time, offset, frames) -> dict:
        return {
            "action": action,
            "addr": address,
            "size": size,
            "stream": STREAM,
            "time_us": (time + offset) // 1000,
            "frames": frames,
        }

    def _frames_of(self, block: int) -> List[dict]:
        """Where a block comes from: its path, with its source, and its category."""
        if block not in self._frames:
            blocks = self.profile.blocks
            file, line = _file_and_line(blocks.sources[block])
            path = blocks.paths[block] or blocks.names[block] or "?"
            category = blocks.categories[blocks.category[block]]
            self._frames[block] = [
                {"name": path, "filename": file, "line": line},
                {"name": category, "filename": "category", "line": 0},
            ]
        return self._frames[block]

    def segments(self) -> List[dict]:
        """The arena, which is empty between steps, and the resident memory."""
        begin, end = self.arena
        free = [self._block(begin, end - begin, "inactive", [])]
        found = [self._segment(begin, free)] if end > begin else []
        blocks = self.profile.blocks
        held = np.flatnonzero(blocks.resident & (blocks.bytes > 0))
        held = held[np.argsort(blocks.address[held], kind="stable")].tolist()
        parts: List[dict] = []
        at = 0
        for block in held:
            address, size = int(blocks.address[block]), int(blocks.bytes[block])
            if address > at:
                parts.append(
                    self._block(self.resident_at + at, address - at, "inactive", [])
                )
            frames = self._frames_of(block)
            place = self.resident_at + address
            parts.append(self._block(place, size, "active_allocated", frames))
            at = address + size
        return [*found, self._segment(self.resident_at, parts)] if parts else found

    def _block(self, address: int, size: int, state: str, frames: List[dict]) -> dict:
        return {
            "address": address,
            "size": size,
            "requested_size": size if state == "active_allocated" else 0,
            "state": state,
            "frames": frames,
        }

    def _segment(self, address: int, parts: List[dict]) -> dict:
        held = sum(part["requested_size"] for part in parts)
        return {
            "device": self.index,
            "address": address,
            "total_size": sum(part["size"] for part in parts),
            "allocated_size": held,
            "active_size": held,
            "requested_size": held,
            "stream": STREAM,
            "segment_type": "large",
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "frames": [],
            "blocks": parts,
        }


def _file_and_line(source: str):
    """Of `gpt2.py:186:0` the file and the line."""
    parts = source.split(":")
    return parts[0], int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0
