# ===- simulate_hosts - Simulated steps beside those of hosts ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""As bench/run simulate, of ranks on hosts with links of two rates: network namespaces of
this machine, over MPI (bench/run cluster).

    bench/run simulate-hosts                      # as root; needs iproute2, OpenMPI
    bench/run simulate-hosts --only "9 hosts"
    bench/run simulate-hosts --folder /tmp/hosts --rounds 1
    bench/run simulate-hosts --folder /tmp/hosts --rounds 0 --write bench/results/simulate.md

The cases are listed here and none is left out: 4, 9 and 16 hosts, three strategies each.
It fails where the median error is beyond --median, one beyond --most, or where two
strategies on the same hosts differ by more than twice the median error and are simulated
in the other order.
"""

import itertools
import statistics

from suite import simulate
from suite.simulate import Case, Sitting, choose, compare

TARGETS = [*simulate.TARGETS, "optimus_ccl_mpi"]
NUMBERS = dict(rounds=3, steps=4, median=10.0, most=20.0)
options = simulate.options

# Mbit/s.
RATES = (4000, 1000)
SIZES = {4: "2 640 16 128 256 8", 9: "2 576 18 96 252 9", 16: "2 640 16 128 256 16"}
SIDES = {4: 2, 9: 3, 16: 4}


def list_cases():
    for hosts, size in SIZES.items():
        meshes = {
            "summa": f"row:{SIDES[hosts]},col:{SIDES[hosts]}",
            "megatron-sp": f"row:1,col:{hosts}",
            "data": f"data:{hosts}",
        }
        for rate, (strategy, mesh) in itertools.product(RATES, meshes.items()):
            yield (f"{strategy}, {hosts} hosts, {rate} Mbit/s",
                   Case(size, mesh, strategy, backend=f"hosts {rate}"))


CASES = dict(list_cases())


def find_misplaced(found):
    """Pairs of strategies in the wrong order."""
    least = 2 * statistics.median(abs(error) for error in found.errors.values()) / 100
    for one, other in itertools.combinations(found.errors, 2):
        if one.partition(", ")[2] != other.partition(", ")[2]:
            continue
        real = found.measured[one] / found.measured[other]
        simulated = found.simulated[one] / found.simulated[other]
        if max(real, 1 / real) > 1 + least and (real - 1) * (simulated - 1) < 0:
            yield (f"{one} took {real:.2f} times as long as {other}, "
                   f"{simulated:.2f} times when simulated")


def main(options, tools, folder):
    sitting = Sitting(tools, folder, options.steps, choose(CASES, options.only))
    sitting.measure_rounds(options.rounds)
    found = compare(sitting)
    return {"hosts": found.text}, [
        *found.mistakes(options.median, options.most), *find_misplaced(found)]
