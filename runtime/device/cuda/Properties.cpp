//===- Properties.cpp - What a GPU says of itself -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaDevice.h"

#include <algorithm>

namespace optrt::cuda {

// The driver's names have no character that JSON escapes; this is for safety.
static std::string quote(std::string text) {
  std::erase_if(text, [](unsigned char c) {
    return c == '"' || c == '\\' || c < ' ' || c >= 0x7f;
  });
  return '"' + text + '"';
}

std::string CudaDevice::properties() const {
  const DriverApi &api = driver.api();
  std::string text =
      concat("{\"name\": ", quote(gpu.name), ", \"architecture\": ",
             quote(gpu.architecture()), ", \"fake\": ",
             gpu.major == 0 ? "true" : "false",
             ", \"multiprocessors\": ", gpu.multiprocessors);
  size_t free = 0, total = 0;
  if (enter().ok() && api.memGetInfo(&free, &total) == kSuccess)
    // A fake one may have less than that.
    text += concat(", \"memory_bytes\": ", total, ", \"reserved_bytes\": ",
                   total - free +
                       (gpu.major == 0 ? 0 : optimus_support::kGpuCodeBytes));
  struct Asked {
    const char *name;
    Attribute attribute;
    int64_t unit;
  };
  // What a driver does not know is left out.
  for (auto [name, attribute, unit] :
       {Asked{"clock_hz", kClockKilohertz, 1000},
        Asked{"memory_clock_hz", kMemoryClockKilohertz, 1000},
        Asked{"memory_bus_bits", kMemoryBusBits, 1},
        Asked{"cache_bytes", kCacheBytes, 1}})
    if (int value = 0;
        api.deviceGetAttribute(&value, attribute, number) == kSuccess)
      text += concat(", \"", name, "\": ", int64_t(value) * unit);
  if (int version = 0; api.driverGetVersion(&version) == kSuccess)
    text += concat(", \"driver\": \"", version / 1000, ".",
                   version % 1000 / 10, "\"");
  return text + "}";
}

} // namespace optrt::cuda
