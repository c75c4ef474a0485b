# ===- answers.py - What probes are made of ---------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A probe returns what it found and its figures, or raises No."""

import array
import ctypes
from ctypes import c_ulonglong

from driver import THREADS


class No(Exception):
    """An answer, with what was found instead."""


class Toy:
    """The toy's kernels on an array of numbers."""

    COUNT = 1024

    def __init__(self, driver, pack):
        self.driver = driver
        image = sorted((pack / "toy").iterdir())[0].read_bytes() + b"\0"
        module = driver.load(image)
        self._add = driver.function(module, "add")
        self.large = driver.function(module, "large")
        self.address = driver.upload(bytes(4 * self.COUNT))

    def add(self, number, stream=None):
        parameters = [ctypes.c_longlong(self.COUNT), c_ulonglong(self.address.value), ctypes.c_longlong(number)]
        self.driver.launch(self._add, self.COUNT // THREADS, parameters, stream)

    def expect(self, number):
        found = array.array("f", self.driver.download(self.address, 4 * self.COUNT))
        if list(found) != [number] * self.COUNT:
            raise No(f"expected {number}, found {found[0]} to {found[-1]}")


def replayed_twice(driver, put):
    """Records what `put` puts on the stream; goes on behind each of two replays."""
    with driver.captured() as made:
        put()
    for _ in range(2):
        driver.replay(made[0])
        driver.synchronize()
        yield


def replay_twice(driver, put):
    for _ in replayed_twice(driver, put):
        pass
