# ===- test_several_machines.py - Jobs on several hosts -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Runs the blocks of docs/several-machines.md, on hosts that are network namespaces of
this machine. Slurm's commands and torchrun, which Debian's packages of the tests lack,
are stand-ins: they start processes on the hosts and set the variables by which
optimus-run knows them."""

import os
import re
import subprocess
import sys

import pytest

from shell_examples import shell_blocks
from tools import (
    REPOSITORY,
    TIMEOUT_SECONDS,
    LlamaModel,
    call,
    skip_without_namespaces,
    succeed,
)

MODEL = LlamaModel(*(1, 16, 2, 1, 24), sequence=16, vocabulary=256, batch=4)

BEGINNING = (
    """#!%s
import os, re, shlex, subprocess, sys
hosts = os.environ["CLUSTER_HOSTS"].split()
def start(processes):
    jobs = [
        subprocess.Popen([os.environ["CLUSTER_AGENT"], host, shlex.join(command)],
                         env={**os.environ, **variables})
        for host, command, variables in processes
    ]
    sys.exit(max(job.wait() for job in jobs))
"""
    % sys.executable
)

STAND_INS = {
    "sbatch": r"""
text = open(sys.argv[1]).read()
asked = " ".join(re.findall("^#SBATCH (.*)$", text, re.M))
asked = dict(re.findall(r"--([a-z-]+)=(\S+)", asked))
assert int(asked["nodes"]) == len(hosts)
variables = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": ",".join(hosts)}
variables["SLURM_NTASKS_PER_NODE"] = asked["ntasks-per-node"]
start([(hosts[0], ["bash", os.path.abspath(sys.argv[1])], variables)])
""",
    "srun": """
tasks = int(os.environ["SLURM_NTASKS_PER_NODE"])
start([
    (hosts[rank // tasks], sys.argv[1:], {
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": ",".join(hosts),
        "SLURM_STEP_NUM_TASKS": str(tasks * len(hosts)),
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank % tasks),
    })
    for rank in range(tasks * len(hosts))
])
""",
    "torchrun": """
import argparse
parser = argparse.ArgumentParser()
for flag in ("--nnodes", "--node-rank", "--nproc-per-node"):
    parser.add_argument(flag, type=int, required=True)
parser.add_argument("--master-addr", required=True)
parser.add_argument("--master-port", required=True)
parser.add_argument("--no-python", action="store_true", required=True)
parser.add_argument("command", nargs=argparse.REMAINDER)
asked = parser.parse_args()
count = asked.nproc_per_node
start([
    (hosts[asked.node_rank], asked.command, {
        "RANK": str(asked.node_rank * count + rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(asked.nnodes * count),
        "MASTER_ADDR": asked.master_addr,
        "MASTER_PORT": asked.master_port,
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    })
    for rank in range(count)
])
""",
}

DRIVER = """
import os, shlex, subprocess, sys
from namespaces import Cluster
block = sys.argv[1]
with Cluster(2) as cluster:
    addresses = [cluster.address(host) for host in range(2)]
    for host, address in enumerate(addresses):
        block = block.replace("10.0.0.%d" % (host + 1), address)
    environment = dict(os.environ, CLUSTER_AGENT=str(cluster.agent))
    environment["CLUSTER_HOSTS"] = " ".join(addresses)
    for name, value in cluster.settings().items():
        environment["OMPI_MCA_" + name] = value
    jobs = []
    # Typed once, or on each host.
    for host in range(2 if "$NODE" in block else 1):
        line = "NODE=%d bash -euo pipefail -c %s" % (host, shlex.quote(block))
        command = [cluster.agent, addresses[host], line]
        jobs.append(subprocess.Popen(command, env=environment))
    status = max(job.wait() for job in jobs)
sys.exit(status)
"""

PAGE = REPOSITORY / "docs/several-machines.md"
BLOCKS = {
    re.search(r"--save (\S+)", block.run).group(1): block.run
    for block in shell_blocks(PAGE.read_text())
}


def final_losses(said):
    return re.findall(r"^final loss (\S+),", said, re.M)


@pytest.fixture(scope="module")
def machine(tools, tmp_path_factory):
    """A folder that the hosts share, and the loss of ranks as threads."""
    folder = tmp_path_factory.mktemp("machines")
    (folder / "gpt.so").symlink_to(tools.library(MODEL, "row:2,col:2", "summa"))
    (folder / "corpus.txt").write_text("Two machines are one mesh. " * 100)
    (folder / "secret").write_text("known on both\n")
    (folder / "secret").chmod(0o600)
    (folder / "bin").mkdir()
    for name, text in STAND_INS.items():
        (folder / "bin" / name).write_text(BEGINNING + text)
        (folder / "bin" / name).chmod(0o755)
    train = ["train", folder / "gpt.so", "--data", folder / "corpus.txt"]
    command = tools.command("optimus-run", *train, "--steps", 2, "--threads-per-rank", 1)
    return folder, final_losses(succeed(call(command)))


@pytest.mark.rotates
@pytest.mark.parametrize("name", BLOCKS)
def test_a_job_on_two_hosts(tools, machine, name):
    skip_without_namespaces()
    folder, expected = machine
    train = "optimus-run train "
    block = BLOCKS[name].replace(train, train + "--threads-per-rank 1 ")
    paths = [folder / "bin", tools.binaries.resolve(), os.environ["PATH"]]
    environment = dict(os.environ, PATH=":".join(map(str, paths)))
    environment["PYTHONPATH"] = str(REPOSITORY / "bench")
    result = subprocess.run(
        [sys.executable, "-c", DRIVER, block],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    assert final_losses(result.stdout) == expected and len(expected) == 1
    assert (folder / name / "state.json").exists()


def test_every_launcher_is_tried():
    assert list(BLOCKS) == ["by-hosts", "by-slurm", "by-torchrun"]
