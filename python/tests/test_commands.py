# ===- test_commands.py - What README.md and the pages tell to type ---------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Commands in README.md run in their order, and those of each page of docs/ in
the folder that README.md leaves behind."""

import os
import re
import shutil
import sys

import pytest

from shell_examples import make_checkout, run_shell, shell_blocks
from tools import REPOSITORY, has_assembler, has_tokenizers

NOT_RUN = {
    "scripts/": "installs packages and builds; test_scripts.py has what can be tried",
    "ninja ": "builds",
    "bench/": "takes minutes and writes the page; test_bench.py runs small ones",
    "export OPTIMUS_JOB_SECRET=": "is for ranks on several hosts",
    "srun ": "needs several hosts, or GPUs",
    "mpirun -n 4 --host ": "needs several hosts",
    "torchrun ": "needs several hosts, or GPUs",
    "optimus-serve ": "runs until it is ended; test_serve.py has clients",
    "curl ": "is a client of optimus-serve",
    "cmake --install ": "needs all of a build; test_install.py does it",
    "cpack ": "takes a minute; test_install.py does it",
    "mkdocs ": "is not installed for tests; test_site.py does it",
    "export PATH=~": "is for what was installed there",
    "export PYTHONPATH=~": "is for what was installed there",
    "python3 -m venv ": "installs; test_install.py does it",
    "v/bin/pip ": "installs; test_install.py does it",
    "podman ": "downloads and builds; test_container.py has what can be tried",
    "debootstrap ": "downloads; test_container.py does it",
    "buildah ": "builds; test_container.py does it",
    "chrt ": "needs the right to precedence over all other processes",
}

README = REPOSITORY / "README.md"
PAGES = sorted((REPOSITORY / "docs").rglob("*.md"))


def is_left_out(block):
    """A block is run whole or not at all."""
    lines = [line for line in block.shown.splitlines() if line.strip()]
    left_out = [line.startswith(tuple(NOT_RUN)) for line in lines]
    assert all(left_out) or not any(left_out), block.shown
    return all(left_out)


def commands_of(page):
    blocks = shell_blocks(page.read_text())
    return "\n".join(block.run for block in blocks if not is_left_out(block))


ELSEWHERE = {"several-machines.md"}
"""Pages that test_several_machines.py runs, on several hosts."""
# Pages whose commands take long, most of them compilations.
SLOW = """cost-model cuda-fakes data fine-tuning gpus hugging-face inference launchers
    machine-profiles memory optimizers optimus-compile optimus-run own-operation proof scale
    scheduling search seeing-a-run strategies what-if""".split()
WITH_COMMANDS = [
    pytest.param(
        page,
        marks=[pytest.mark.rotates] if page.stem in SLOW else [],
        id=str(page.relative_to(REPOSITORY)),
    )
    for page in PAGES
    if page.name not in ELSEWHERE and commands_of(page)
]


@pytest.fixture
def by_hand(tools, session):
    """A checkout in which the commands of README.md were run."""

    def make(folder):
        make_checkout(folder, tools.binaries)
        (folder / "output").write_text(run_shell(commands_of(README), folder))

    return session.once("by-hand", make)


def test_readme(by_hand):
    output = (by_hand / "output").read_text()
    # With threads and with processes; and the held-out loss.
    finals = re.findall(r"^final loss (\S+),", output, re.M)
    assert len(finals) == 2 and finals[0] == finals[1]
    made = {path.name for path in (by_hand / "build" / "by-hand").iterdir()}
    assert {"corpus.txt", "gpt.so", "checkpoint", "phases", "bert.mlir"} <= made


@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_page(request, tools, by_hand, tmp_path, page):
    make_checkout(tmp_path / "checkout", tools.binaries)
    folder = tmp_path / "checkout" / "build" / "by-hand"
    shutil.copytree(by_hand / "build" / "by-hand", folder)
    root = tmp_path / "checkout"
    if page.name == "scale.md" and not has_assembler():
        pytest.skip("no ptxas of the CUDA toolkit is installed")
    if page.name == "data.md" and not has_tokenizers():
        pytest.skip("no tokenizers: scripts/setup --python brings it")
    if re.search(r"^(?:.* \| )?optimus-generate ", commands_of(page), re.M):
        request.getfixturevalue("python_folder")
    # The tests' own Python has NumPy.
    places = root / "build/bin", os.path.dirname(sys.executable)
    commands = "PATH=%s:%s:$PATH\n%s" % (*places, commands_of(page))
    gpu = tools.fake_gpu(count=4) if page.name in ("gpus.md", "machine-profiles.md") else {}
    output = run_shell(commands, folder, **{**gpu, "PYTHONPATH": str(root / "python")})
    if page.name == "products.md":
        # What the page says about it.
        (said,) = re.findall(r"^    (exec\.communication = .*)$", page.read_text(), re.M)
        assert said in output


@pytest.mark.parametrize("start", NOT_RUN)
def test_what_is_not_run_is_there(start):
    texts = [page.read_text() for page in [README, *PAGES]]
    shown = "\n".join(block.shown for text in texts for block in shell_blocks(text))
    assert re.search("^" + start, shown, re.M), "take %r off NOT_RUN" % start


@pytest.mark.parametrize(
    "page", [README, *PAGES], ids=[str(p.relative_to(REPOSITORY)) for p in [README, *PAGES]]
)
def test_commands_stand_where_they_are_found(page):
    """Commands in any other kind of block would not be run."""
    text = re.sub(r"^```sh\n.*?^```$", "", page.read_text(), flags=re.M | re.S)
    command = r"^(?:    )?(?:optimus-\w+|python3|mpirun|cmake|ninja|scripts/\w+|bench/\w+) .*$"
    assert re.findall(command, text, re.M) == [], "expected it in a block ```sh"
