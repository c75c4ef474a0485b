# ===- chromium.py - Pages in a browser without a screen ------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Opens a page in headless Chromium, acts on it there, and returns the page's answer.
Takes pictures, too:

    PYTHONPATH=python/tests /usr/bin/python3 -m chromium PAGE.html PICTURE.png [HEIGHT]
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, List
from urllib.parse import unquote

import pytest

WIDTH = 1280

# A page that asks for anything but itself fails to.
FLAGS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=60000"),
]

SCRIPT = """<script>
window.addEventListener('error', (event) => document.body.dataset.said =
  encodeURIComponent(JSON.stringify({error: event.message})));
const waiting = setInterval(async () => {
  if (!document.body.dataset.drawn) return;
  clearInterval(waiting);
  const act = async () => { %s };
  const said = await act().catch((error) => ({error: String(error.stack)}));
  document.body.dataset.said = encodeURIComponent(JSON.stringify(said));
}, 50);
</script>"""


def program() -> str:
    """Chromium, or the test is skipped."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.skip("there is no chromium to open the page in")
    return found


def run(page: Path, *flags: str) -> str:
    folder = "--user-data-dir=%s" % (page.parent / "browser")
    command = [program(), *FLAGS, folder, *flags, page.absolute().as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def ask(page: Path, script: str) -> Any:
    """What the body of an async function returns, once the page is drawn."""
    asking = page.with_suffix(".asking.html")
    text = page.read_text("utf-8").replace("</body>", SCRIPT % script + "</body>")
    asking.write_text(text, "utf-8")
    shown = run(asking, "--dump-dom", "--window-size=%d,1000" % WIDTH)
    said = re.search(r'data-said="([^"]*)"', shown)
    assert said, "the page was not drawn"
    return json.loads(unquote(said[1]))


def main(arguments: List[str]) -> None:
    page, picture, *height = arguments
    size = "--window-size=%d,%s" % (WIDTH, height[0] if height else "1500")
    run(Path(page), "--screenshot=" + picture, size, "--hide-scrollbars")


if __name__ == "__main__":
    main(sys.argv[1:])
