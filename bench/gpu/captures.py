# ===- captures.py - What a driver refuses of captures ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Probes of what a driver refuses while a stream is captured. Here an error is the answer:
the fake driver gives the same one."""

from ctypes import byref, c_float, c_int, c_uint

from answers import No, Toy
from driver import THREAD_LOCAL, Driver, DriverError

# CUresult, by the number in cuda.h.
UNSUPPORTED, INVALIDATED, UNJOINED, CAPTURED_EVENT = 900, 901, 904, 907


def expect_refusal(what, call, code):
    try:
        call()
    except DriverError as error:
        if error.code != code:
            raise No(f"{what} ends with {error}; expected error {code}") from error
    else:
        raise No(f"{what} is done; expected error {code}")


def begin(driver):
    driver.call("cuStreamBeginCapture_v2", driver.stream, c_int(THREAD_LOCAL))


def capture_refusals(_):
    """Does the thread of a thread-local capture get no memory meanwhile, and is the capture
    void after it asked?"""
    driver = Driver()
    begin(driver)
    expect_refusal("an allocation", lambda: driver.allocate(4096), UNSUPPORTED)
    expect_refusal("the capture", driver.end_capture, INVALIDATED)
    return f"errors {UNSUPPORTED} and {INVALIDATED}", {}


def unjoined_capture(pack):
    """Is a capture refused with a stream that nobody waited for?"""
    driver = Driver()
    toy, other, fork = Toy(driver, pack), driver.new_stream(), driver.new_event()
    begin(driver)
    driver.call("cuEventRecord", fork, driver.stream)
    driver.call("cuStreamWaitEvent", other, fork, c_uint(0))
    toy.add(1, other)
    expect_refusal("the capture", driver.end_capture, UNJOINED)
    return f"error {UNJOINED}", {}


def captured_event(pack):
    """Has an event no time that was recorded last in a capture?"""
    driver = Driver()
    toy, first, last = Toy(driver, pack), driver.new_event(), driver.new_event()
    driver.call("cuEventRecord", first, driver.stream)
    with driver.captured():
        toy.add(1)
        driver.call("cuEventRecord", last, driver.stream)
    driver.synchronize()
    elapsed = c_float()
    expect_refusal("its time", lambda: driver.call("cuEventElapsedTime", byref(elapsed), first, last), CAPTURED_EVENT)
    return f"error {CAPTURED_EVENT}", {}


PROBES = {
    "capture-refusals": capture_refusals,
    "unjoined-capture": unjoined_capture,
    "captured-event": captured_event,
}
