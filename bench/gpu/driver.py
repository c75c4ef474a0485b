# ===- driver.py - A GPU's driver, called from Python ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What of CUDA's driver the first checks and the probes need, without our runtime:
if these fail, it is the machine."""

import array
import contextlib
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
THREAD_LOCAL = 1
RECORD_EXTERNAL = 1
UNIFIED = 4
# Threads of a block, for which the toy kernels are compiled.
THREADS = 32


class Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = [
        (f"{side}_{name}", kind)
        for side in ("from", "to")
        for name, kind in (
            ("x", c_size_t),
            ("y", c_size_t),
            ("memory", c_uint),
            ("host", c_void_p),
            ("device", c_ulonglong),
            ("array", c_void_p),
            ("pitch", c_size_t),
        )
    ] + [("width", c_size_t), ("height", c_size_t)]


class DriverError(Exception):
    """What the driver said, and its CUresult where it gave one."""

    def __init__(self, message, code=None):
        super().__init__(message)
        self.code = code


class NoDriver(DriverError):
    """There is none to ask."""


class Driver:
    """The first GPU, with a context and a stream of this process."""

    def __init__(self):
        name = os.environ.get(LIBRARY) or "libcuda.so.1"
        try:
            # Emulated kernels look for their emulator among all symbols.
            self._library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise NoDriver(f"cannot open CUDA's driver: {error}") from error
        self.call("cuInit", c_uint(0))
        self._device = c_int()
        self.call("cuDeviceGet", byref(self._device), c_int(0))
        self.context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(self.context), self._device)
        self.call("cuCtxSetCurrent", self.context)
        self.stream = self.new_stream()

    def new_stream(self):
        stream = c_void_p()
        self.call("cuStreamCreate", byref(stream), c_uint(NON_BLOCKING))
        return stream

    def enter(self):
        """Makes the context that of the calling thread."""
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name, *arguments):
        try:
            function = getattr(self._library, name)
        except AttributeError as error:
            raise DriverError(f"the driver has no {name}") from error
        result = function(*arguments)
        if result != 0:
            text = c_char_p()
            self._library.cuGetErrorString(c_int(result), byref(text))
            raise DriverError(f"{name}: error {result}: {(text.value or b'').decode()}", result)

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

    def host(self, size):
        """Pinned."""
        pointer = c_void_p()
        self.call("cuMemHostAlloc", byref(pointer), c_size_t(size), c_uint(KEEP_HOST_MEMORY_ANYWHERE))
        return pointer

    def load(self, image):
        module = c_void_p()
        self.call("cuModuleLoadDataEx", byref(module), image, c_uint(0), None, None)
        return module

    def function(self, module, name):
        function = c_void_p()
        self.call("cuModuleGetFunction", byref(function), module, name.encode())
        return function

    def launch(self, function, blocks, parameters, stream=None, threads=THREADS):
        pointers = (c_void_p * len(parameters))(
            *(ctypes.cast(byref(each), c_void_p) for each in parameters)
        )
        shape = [c_uint(each) for each in (blocks, 1, 1, threads, 1, 1, 0)]
        self.call("cuLaunchKernel", function, *shape, stream or self.stream, pointers, None)

    def new_event(self):
        event = c_void_p()
        self.call("cuEventCreate", byref(event), c_uint(0))
        return event

    def seconds_between(self, begin, end):
        milliseconds = c_float()
        self.call("cuEventElapsedTime", byref(milliseconds), begin, end)
        return milliseconds.value / 1e3

    @contextlib.contextmanager
    def captured(self):
        """What is put on the stream meanwhile is recorded; yields a list that has the
        executable graph afterwards."""
        made = []
        self.call("cuStreamBeginCapture_v2", self.stream, c_int(THREAD_LOCAL))
        yield made
        made.append(self.instantiate(self.end_capture()))

    def end_capture(self):
        graph = c_void_p()
        self.call("cuStreamEndCapture", self.stream, byref(graph))
        return graph

    def instantiate(self, graph):
        executable = c_void_p()
        self.call("cuGraphInstantiateWithFlags", byref(executable), graph, c_ulonglong(0))
        self.call("cuGraphDestroy", graph)
        return executable

    def replay(self, executable):
        self.call("cuGraphLaunch", executable, self.stream)

    def upload(self, data):
        """Device memory with these bytes."""
        device = self.allocate(len(data))
        host = self.host(len(data))
        ctypes.memmove(host, data, len(data))
        self._copy(device, c_ulonglong(host.value), len(data))
        self.synchronize()
        self.call("cuMemFreeHost", host)
        return device

    def download(self, device, size):
        host = self.host(size)
        self._copy(c_ulonglong(host.value), c_ulonglong(device.value), size)
        self.synchronize()
        data = ctypes.string_at(host, size)
        self.call("cuMemFreeHost", host)
        return data

    def run_toy(self, image):
        """Runs the kernels of a toy image; whether they computed what they should."""
        module = self.load(image)
        count, number = 1000, 3
        size = 4 * count
        host, device = self.host(size), self.allocate(size)
        values = array.array("f", range(count))
        ctypes.memmove(host, values.tobytes(), size)
        self._copy(c_ulonglong(device.value), c_ulonglong(host.value), size)
        for name, more in (("add", [c_longlong(number)]), ("double_it", [])):
            parameters = [c_longlong(count), c_ulonglong(device.value), *more]
            blocks = (count + THREADS - 1) // THREADS
            self.launch(self.function(module, name), blocks, parameters)
        self._copy(c_ulonglong(host.value), c_ulonglong(device.value), size)
        self.synchronize()
        found = array.array("f", ctypes.string_at(host, size))
        self.free(device)
        self.call("cuMemFreeHost", host)
        self.call("cuModuleUnload", module)
        return list(found) == [2.0 * (i + number) for i in range(count)]

    def _copy(self, to, source, size):
        self.call("cuMemcpyAsync", to, source, c_size_t(size), self.stream)

    def synchronize(self):
        self.call("cuStreamSynchronize", self.stream)

    def copy_seconds(self, size, rounds):
        """What each of some copies within the GPU's memory takes."""
        buffers = [self.allocate(size) for _ in range(2)]
        seconds = self.time(lambda: self._copy(*buffers, size), rounds)
        for buffer in buffers:
            self.free(buffer)
        return seconds

    def time(self, put, rounds):
        """Seconds on the GPU of the work that `put` puts on the stream, for each round."""
        begin, end = self.new_event(), self.new_event()
        seconds = []
        # The first shows pages to the GPU, and loads code.
        for _ in range(rounds + 1):
            self.call("cuEventRecord", begin, self.stream)
            put()
            self.call("cuEventRecord", end, self.stream)
            self.synchronize()
            seconds.append(self.seconds_between(begin, end))
        for event in (begin, end):
            self.call("cuEventDestroy_v2", event)
        return seconds[1:]
