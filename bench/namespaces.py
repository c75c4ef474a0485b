# ===- namespaces.py - A cluster of hosts inside one machine ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Hosts as Linux network namespaces, joined by a bridge, with links of a given rate;
and OpenMPI across them.

Each host's network interface is one end of a veth pair. The other end is a port of a
bridge, in a namespace of its own for the switch. `tc … tbf` limits both ends, so a link
is full duplex: a host sends at most at its rate and receives at most at it, whoever it
talks to. Nothing appears in the machine's own network. Needs root, and `ip` and `tc` of
iproute2.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from harness import fail, read_log

PREFIX = "optimus-net"
SUBNET = "10.213.77"
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Large frames, as fast networks use; beside this the shaper passes bursts of
# one segment that the kernel sends whole.
MTU = 9000
BURST = "128kb"
# Of a command.
MOST_SECONDS = 300


def call(*command):
    command = [str(part) for part in command]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        fail(f"{' '.join(command)}: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


def check_privileges():
    for program in ["ip", "tc", "mpirun"]:
        if not shutil.which(program):
            fail(f"expected the program {program}, found none; it is in Debian's "
                 f"{'openmpi-bin' if program == 'mpirun' else 'iproute2'}")
    if os.geteuid() != 0:
        fail("network namespaces need root; run it as root")


def remove(names):
    """Ends what runs in these namespaces and removes them with their links."""
    existing = set(re.findall(rf"^({PREFIX}\S+)", call("ip", "netns", "list"), re.M))
    for name in existing & set(names):
        for pid in call("ip", "netns", "pids", name).split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
    for name in existing & set(names):
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


def remove_abandoned():
    """Namespaces of a run that was killed before it could clean up."""
    abandoned = []
    for name, pid in re.findall(
        rf"^({PREFIX}-(\d+)-\S+)", call("ip", "netns", "list"), re.M
    ):
        if not is_running(pid):
            abandoned.append(name)
    remove(abandoned)


def is_running(pid):
    """Whether a process is there, and more than what its parent may ask for."""
    try:
        status = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def exit_on_signal(number, _):
    sys.exit(128 + number)


class Cluster:
    """`with Cluster(4) as cluster:` makes 4 hosts; the end of the block, an
    exception, SIGINT, SIGTERM and SIGHUP remove them."""

    def __init__(self, hosts):
        self._prefix = f"{PREFIX}-{os.getpid()}"
        self._switch = f"{self._prefix}-switch"
        self._hosts = [f"{self._prefix}-{i}" for i in range(hosts)]
        self._folder = None

    def address(self, host):
        return f"{SUBNET}.{host + 1}"

    def __enter__(self):
        check_privileges()
        self._handlers = {number: signal.signal(number, exit_on_signal)
                          for number in ENDING}
        remove_abandoned()
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self):
        call("ip", "netns", "add", self._switch)
        call("ip", "-n", self._switch, "link", "add", "bridge", "type", "bridge")
        call("ip", "-n", self._switch, "link", "set", "bridge", "mtu", MTU, "up")
        for i, name in enumerate(self._hosts):
            call("ip", "netns", "add", name)
            call("ip", "-n", self._switch, "link", "add", f"port{i}", "mtu", MTU,
                 "type", "veth", "peer", "name", "eth0", "netns", name, "mtu", MTU)
            call("ip", "-n", self._switch, "link", "set", f"port{i}",
                 "master", "bridge", "up")
            call("ip", "-n", name, "address", "add", f"{self.address(i)}/24",
                 "dev", "eth0")
            for device in ("lo", "eth0"):
                call("ip", "-n", name, "link", "set", device, "up")
        self._folder = tempfile.TemporaryDirectory()
        self._agent = pathlib.Path(self._folder.name) / "agent"
        # OpenMPI calls it as it would ssh: the host, then a line for its shell.
        # Hosts have names of their own, or OpenMPI takes them for one.
        self._agent.write_text(
            "#!/bin/sh\n"
            "host=$((${1##*.} - 1)); shift\n"
            f"exec ip netns exec {self._prefix}-$host unshare --uts "
            "sh -c 'hostname node$0; eval \"$1\"' $host \"$*\"\n"
        )
        self._agent.chmod(0o755)

    def __exit__(self, *_):
        # A second signal must not stop the cleaning up.
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        remove([*self._hosts, self._switch])
        if self._folder:
            self._folder.cleanup()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def shape(self, bits_per_second):
        """Sets the rate of every link in both directions; None lifts it."""
        ends = [(name, "eth0") for name in self._hosts]
        ends += [(self._switch, f"port{i}") for i in range(len(self._hosts))]
        for name, device in ends:
            tc = ["tc", "-n", name, "qdisc"]
            if bits_per_second is None:
                subprocess.run([*tc, "del", "dev", device, "root"], capture_output=True)
                continue
            call(*tc, "replace", "dev", device, "root", "tbf", "rate",
                 f"{round(bits_per_second)}bit", "burst", BURST, "latency", "200ms")

    @property
    def agent(self):
        """A program that is called as ssh is: an address, then a line for its shell."""
        return self._agent

    def settings(self):
        """Parameters of OpenMPI's for these hosts."""
        return {
            "plm_rsh_agent": str(self._agent),
            "plm_rsh_no_tree_spawn": "1",
            "btl": "tcp,self",
            "btl_tcp_if_include": f"{SUBNET}.0/24",
            "oob_tcp_if_include": f"{SUBNET}.0/24",
            "pml": "ob1",
        }

    def mpirun(self, command):
        """Standard output of a command, one rank a host. Hosts wait for each other on
        shared cores."""
        hosts = range(len(self._hosts))
        line = ["mpirun", "--allow-run-as-root", "--bind-to", "none"]
        for name, value in self.settings().items():
            line += ["--mca", name, value]
        line += ["-x", "OMPI_MCA_mpi_yield_when_idle=1"]
        line += ["--host", ",".join(f"{self.address(i)}:1" for i in hosts)]
        line += ["-n", len(hosts), *command]
        line = [self.agent, self.address(0), *map(shell_quote, line)]
        process = subprocess.Popen(
            [str(part) for part in line],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            output, errors = process.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            fail(f"{' '.join(map(str, command))} took more than {MOST_SECONDS} s")
        if process.returncode != 0:
            fail(f"{' '.join(map(str, command))} ended with "
                 f"{process.returncode}\n{output}{errors}")
        return output

    def train(self, tools, library, data, log, *flags):
        """The lines of a run's log, of a rank with one thread on every host."""
        log.unlink(missing_ok=True)
        self.mpirun(
            [tools.path("run"), "train", library, "--data", data, "--order", "sequential",
             "--log-json", log, "--threads-per-rank", 1, *flags])
        return read_log(log)

    def bench(self, tools, library, *flags):
        """What `optimus-run bench` says of a function, of the same ranks."""
        command = [tools.path("run"), "bench", library, "--threads-per-rank", 1, "--json"]
        return json.loads(self.mpirun([*command, *flags]))


def shell_quote(part):
    part = str(part)
    return part if re.fullmatch(r"[\w./:,=+-]+", part) else "'" + part.replace(
        "'", "'\\''") + "'"
