# ===- test_report_page.py - The pages in a browser -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Pages of `optimus-report` in headless Chromium: they need no network, draw every box
where it belongs, zoom, search, and say what is under the pointer."""

import sqlite3

import pytest

import chromium
import synthetic_profile
from optimus.report.__main__ import main
from profile_by_hand import ByHand
from synthetic_profile import Shape

pytestmark = pytest.mark.rotates

pytest.importorskip("plotly")


@pytest.fixture
def draw(tmp_path):
    def run(shape: Shape, command="memory", *flags):
        path, page = tmp_path / "run.profile", tmp_path / "page.html"
        synthetic_profile.write(path, shape)
        assert main([command, str(path), "-o", str(page), *flags]) == 0
        return page

    return run


# The colour of the middle of each box on the canvas, and what the pointer finds there.
LOOK = """
const {boxes} = gantt, {x, y, left, top, width, height} = gantt.frame();
const ink = gantt.canvas.getContext('2d'), place = gantt.graph.getBoundingClientRect();
const look = (i) => {
  const across = x.c2p((boxes.left[i] + boxes.right[i]) / 2);
  const down = y.c2p((boxes.bottom[i] + boxes.top[i]) / 2);
  gantt.graph.dispatchEvent(new MouseEvent('mousemove',
    {clientX: place.left + left + across, clientY: place.top + top + down}));
  return [[...ink.getImageData(across, down, 1, 1).data],
    document.getElementById('tip').textContent];
};
"""


def test_a_page_has_the_notice_of_plotly(draw):
    text = draw(Shape()).read_text()
    assert "Plotly.js" in text and "Copyright 2012-2021 Plotly, Inc." in text
    assert "The above copyright notice and this permission notice shall be" in text


def test_boxes_are_drawn(draw):
    shape = Shape()
    page = draw(shape, "memory", "--rank", "1", "--steps", "2:3")
    said = chromium.ask(
        page,
        LOOK + "return {looks: [...boxes.left.keys()].map(look), "
        "bytes: [...boxes.left.keys()].map((i) => boxes.top[i] - boxes.bottom[i])};",
    )
    by_hand = ByHand(page.parent / "run.profile")
    lives = [
        each
        for call in by_hand.calls
        if call["rank"] == 1 and call["step"] in (2, 3)
        for each in by_hand.lives(call)
    ]
    assert said["bytes"] == [by_hand.blocks[block]["bytes"] for block, *_ in lives]
    for (colour, tip), (block, *_) in zip(said["looks"], lives):
        row = by_hand.blocks[block]
        assert row["path"] in tip and row["source"] in tip and row["category"] in tip
        assert colour[3] == 255 and len(set(colour[:3])) > 1, "not drawn in a colour"


def test_zoom_and_search(draw):
    said = chromium.ask(
        draw(Shape()),
        LOOK + """
        const wide = boxes.right[0] - boxes.left[0];
        await Plotly.relayout(gantt.graph,
          {'xaxis.range': [boxes.left[0], boxes.left[0] + 2 * wide]});
        const first = look(0)[1].split('\\n')[0];
        const field = document.getElementById('search');
        field.value = 'H.3.';
        field.dispatchEvent(new Event('input'));
        return {first, matches: document.getElementById('matches').textContent,
          found: [...gantt.found], paths: [...boxes.left.keys()].map(boxes.words)};""",
    )
    assert said["first"] == "h.0.up"
    matching = ["h.3." in path for path in said["paths"]]
    assert [bool(found) for found in said["found"]] == matching
    assert said["matches"] == "%d found" % sum(matching) and any(matching)


def test_legend_takes_boxes_away(draw):
    said = chromium.ask(
        draw(Shape()),
        LOOK + """
        const kind = data.categories.indexOf('gradient');
        const curve = gantt.graph.data.findIndex((each) => each.name === 'gradient');
        const box = boxes.kind.indexOf(kind);
        const before = look(box)[1];
        await Plotly.restyle(gantt.graph, {visible: 'legendonly'}, [curve]);
        look(box);
        return {before, after: document.getElementById('tip').style.display};""",
    )
    assert "gradient" in said["before"] and said["after"] == "none"


@pytest.mark.parametrize(
    "shape",
    [
        Shape(layers=1, ranks=1, steps=1, collectives=False),
        Shape(dynamic=True),
        Shape(steps=2),
    ],
)
def test_every_figure_is_drawn(draw, shape):
    said = chromium.ask(
        draw(shape),
        "return {drawn: ['time', 'idle', 'lifetimes'].map((name) => "
        "document.querySelectorAll('#' + name + ' .main-svg').length > 0), "
        "asked: performance.getEntriesByType('resource').length};",
    )
    assert said == {"drawn": [True] * 3, "asked": 0}


def test_no_block_at_all(draw, tmp_path):
    """A profile in which nothing lies in an arena and nothing is accessed twice."""
    draw(Shape())
    connection = sqlite3.connect(tmp_path / "run.profile")
    connection.execute("DELETE FROM accesses")
    connection.execute("DELETE FROM blocks")
    connection.commit()
    page = tmp_path / "page.html"
    assert main(["memory", str(tmp_path / "run.profile"), "-o", str(page)]) == 0
    shown = "return document.getElementById('lifetimes').textContent + document.getElementById('idle').textContent"
    said = chromium.ask(page, shown)
    assert "the arena has no block" in said and "no block is accessed twice" in said


def test_names_are_text(draw, tmp_path):
    """What a profile says is never a part of the page."""
    path = tmp_path / "run.profile"
    evil = "</script><script>document.title='taken'</script><b id=evil>"
    synthetic_profile.write(path, Shape(), library=evil)
    page = tmp_path / "page.html"
    for command in ("memory", "timeline"):
        assert main([command, str(path), "-o", str(page)]) == 0
        said = chromium.ask(
            page,
            "return [document.title, !!document.getElementById('evil'), "
            "document.querySelector('h1').textContent]",
        )
        assert said == [command.capitalize(), False, evil]


def test_timeline(draw):
    said = chromium.ask(
        draw(Shape(), "timeline"),
        LOOK + "return {looks: [...boxes.left.keys()].map(look), rows: data.rows, "
        "row: [...boxes.top]};",
    )
    rows = ["compute", "communication row", "communication row in flight"]
    assert said["rows"] == rows
    shown = [tip.split("\n")[0] for _, tip in said["looks"]]
    assert "gemm h.0.mlp.up" in shown and "adamw h.3.weight" in shown
    in_flight = [tip for tip, top in zip(shown, said["row"]) if top < -2]
    assert set(in_flight) == {"all_reduce h.%d.mlp.up" % layer for layer in range(4)}


def test_many_blocks(draw):
    """20,000 blocks: a picture of the Gantt chart takes a fraction of a second."""
    said = chromium.ask(
        draw(Shape(layers=6_700, ranks=1, steps=2)),
        "const begin = performance.now(); for (let i = 0; i < 10; ++i) gantt.draw(); "
        "gantt.canvas.getContext('2d').getImageData(0, 0, 1, 1); "
        "return {count: gantt.boxes.left.length, each: (performance.now() - begin) / 10};",
    )
    assert said["count"] == 20_100 and said["each"] < 1_000
