//===- OneDnn.h - What products share of oneDNN ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_ONEDNN_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_ONEDNN_H

#include "Buffer.h"

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <type_traits>
#include <unordered_map>

namespace optrt {

using MemoryDesc = dnnl::memory::desc;
using MemoryType = dnnl::memory::data_type;
inline constexpr auto kF32 = MemoryType::f32;

/// A matrix in memory; with `transposed` it is stored as [cols, rows].
inline MemoryDesc matrixOf(int64_t rows, int64_t cols, int64_t ld,
                           bool transposed, MemoryType type = kF32) {
  return MemoryDesc({rows, cols}, type,
                    transposed ? dnnl::memory::dims{1, ld}
                               : dnnl::memory::dims{ld, 1});
}

/// B [rows, cols] in panels of bf16: see optimus-support/WeightBlocks.h.
inline MemoryDesc narrowPanels(int64_t rows, int64_t cols) {
  return MemoryDesc({rows, cols}, MemoryType::bf16,
                    dnnl::memory::format_tag::BA16a64b2a);
}

/// oneDNN generates the code of a product when it first meets it, and crashes
/// where it gets no memory for that. This asks for far more than it takes.
Status checkRoomForCode();

/// The library and the instructions that it chose, by the names of
/// DNNL_MAX_CPU_ISA: "oneDNN 2.6.3 with AVX512_CORE".
std::string describeOneDnn();

/// What the environment asks of oneDNN in vain, as a sentence; or nothing.
std::string refusedOfOneDnn();

/// A processor's engine, in a library that leaves standard output alone and
/// keeps f32 in f32, whatever the environment says. What goes wrong is an
/// exception.
dnnl::engine createEngine();

/// What one device calls oneDNN with.
struct OneDnn {
  OneDnn(dnnl::engine made) : engine(std::move(made)), stream(engine) {}

  dnnl::memory view(const MemoryDesc &desc, const void *data) {
    return dnnl::memory(desc, engine, const_cast<void *>(data));
  }

  dnnl::engine engine;
  dnnl::stream stream;
  /// Of whatever primitive runs.
  Buffer scratchpad;
};

/// By descriptors without padding.
template <typename Desc, typename T>
class DescriptorMap {
  struct Same {
    bool operator()(const Desc &x, const Desc &y) const {
      return std::memcmp(&x, &y, sizeof x) == 0;
    }
  };
  struct Hash {
    size_t operator()(const Desc &d) const {
      static_assert(std::has_unique_object_representations_v<Desc>,
                    "no padding to compare or hash");
      uint32_t words[sizeof d / 4];
      std::memcpy(words, &d, sizeof d);
      uint64_t hash = 14695981039346656037u; // FNV-1a
      for (uint32_t word : words)
        hash = (hash ^ word) * 1099511628211u;
      return hash;
    }
  };

public:
  T *find(const Desc &desc) {
    auto entry = entries.find(desc);
    return entry == entries.end() ? nullptr : &entry->second;
  }
  T &add(const Desc &desc, T made) {
    return entries.emplace(desc, std::move(made)).first->second;
  }

private:
  std::unordered_map<Desc, T, Hash, Same> entries;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_ONEDNN_H
