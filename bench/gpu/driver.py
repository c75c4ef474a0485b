# ===- driver.py - A GPU's driver, called from Python ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What of CUDA's driver the first checks need, without our runtime: if these
fail, it is the machine."""

import array
import ctypes
import os
from ctypes import byref, c_char_p, c_float, c_int, c_longlong, c_size_t, c_uint, c_ulonglong, c_void_p

LIBRARY = "OPTIMUS_CUDA_DRIVER_LIBRARY"

# CUdevice_attribute, by the number in cuda.h.
ATTRIBUTES = {
    "multiprocessors": 16,
    "threads a multiprocessor": 39,
    "compute capability, major": 75,
    "compute capability, minor": 76,
}
# Those that a driver may not know.
FURTHER_ATTRIBUTES = {
    "clock, kHz": 13,
    "memory clock, kHz": 36,
    "memory bus, bits": 37,
    "L2 cache, bytes": 38,
    "shared memory a multiprocessor, bytes": 81,
    "registers a multiprocessor": 82,
    "shared memory a block may ask for, bytes": 97,
}
NON_BLOCKING = 1
KEEP_HOST_MEMORY_ANYWHERE = 0


class DriverError(Exception):
    """What the driver said."""


class Driver:
    """The first GPU, with a context and a stream of this process."""

    def __init__(self):
        name = os.environ.get(LIBRARY) or "libcuda.so.1"
        try:
            # Emulated kernels look for their emulator among all symbols.
            self._library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise DriverError(f"cannot open CUDA's driver: {error}") from error
        self.call("cuInit", c_uint(0))
        self._device = c_int()
        self.call("cuDeviceGet", byref(self._device), c_int(0))
        self.context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(self.context), self._device)
        self.call("cuCtxSetCurrent", self.context)
        self._stream = c_void_p()
        self.call("cuStreamCreate", byref(self._stream), c_uint(NON_BLOCKING))

    def call(self, name, *arguments):
        result = getattr(self._library, name)(*arguments)
        if result != 0:
            text = c_char_p()
            self._library.cuGetErrorString(c_int(result), byref(text))
            raise DriverError(f"{name}: error {result}: {(text.value or b'').decode()}")

    @property
    def name(self):
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, c_int(256), self._device)
        return text.value.decode()

    def attribute(self, number):
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), c_int(number), self._device)
        return value.value

    def memory(self):
        """Bytes that are free, of all processes, and in all."""
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def properties(self):
        version = c_int()
        self.call("cuDriverGetVersion", byref(version))
        found = {
            "name": self.name,
            "driver's CUDA": f"{version.value // 1000}.{version.value % 1000 // 10}",
            "memory, bytes": self.memory()[1],
        }
        for name, number in ATTRIBUTES.items():
            found[name] = self.attribute(number)
        for name, number in FURTHER_ATTRIBUTES.items():
            try:
                found[name] = self.attribute(number)
            except DriverError:
                found[name] = None
        return found

    def allocate(self, size):
        address = c_ulonglong()
        self.call("cuMemAlloc_v2", byref(address), c_size_t(size))
        return address

    def free(self, address):
        self.call("cuMemFree_v2", address)

    def _host(self, size):
        pointer = c_void_p()
        self.call("cuMemHostAlloc", byref(pointer), c_size_t(size), c_uint(KEEP_HOST_MEMORY_ANYWHERE))
        return pointer

    def run_toy(self, image):
        """Runs the kernels of a toy image; whether they computed what they should."""
        module = c_void_p()
        self.call("cuModuleLoadDataEx", byref(module), image, c_uint(0), None, None)
        count, number = 1000, 3
        size = 4 * count
        host, device = self._host(size), self.allocate(size)
        values = array.array("f", range(count))
        ctypes.memmove(host, values.tobytes(), size)
        self._copy(c_ulonglong(device.value), c_ulonglong(host.value), size)
        for name, more in (("add", [c_longlong(number)]), ("double_it", [])):
            function = c_void_p()
            self.call("cuModuleGetFunction", byref(function), module, name.encode())
            parameters = [c_longlong(count), c_ulonglong(device.value), *more]
            pointers = (c_void_p * len(parameters))(
                *(ctypes.cast(byref(each), c_void_p) for each in parameters)
            )
            blocks = (count + 31) // 32
            shape = [c_uint(each) for each in (blocks, 1, 1, 32, 1, 1, 0)]
            self.call("cuLaunchKernel", function, *shape, self._stream, pointers, None)
        self._copy(c_ulonglong(host.value), c_ulonglong(device.value), size)
        self.synchronize()
        found = array.array("f", ctypes.string_at(host, size))
        self.free(device)
        self.call("cuMemFreeHost", host)
        self.call("cuModuleUnload", module)
        return list(found) == [2.0 * (i + number) for i in range(count)]

    def _copy(self, to, source, size):
        self.call("cuMemcpyAsync", to, source, c_size_t(size), self._stream)

    def synchronize(self):
        self.call("cuStreamSynchronize", self._stream)

    def copy_seconds(self, size, rounds):
        """What each of some copies within the GPU's memory takes."""
        buffers = [self.allocate(size) for _ in range(2)]
        events = []
        for _ in range(2):
            event = c_void_p()
            self.call("cuEventCreate", byref(event), c_uint(0))
            events.append(event)
        seconds = []
        # The first shows pages to the GPU.
        for _ in range(rounds + 1):
            self.call("cuEventRecord", events[0], self._stream)
            self._copy(*buffers, size)
            self.call("cuEventRecord", events[1], self._stream)
            self.synchronize()
            milliseconds = c_float()
            self.call("cuEventElapsedTime", byref(milliseconds), *events)
            seconds.append(milliseconds.value / 1e3)
        for event in events:
            self.call("cuEventDestroy_v2", event)
        for buffer in buffers:
            self.free(buffer)
        return seconds[1:]
