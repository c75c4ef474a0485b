//===- TensorFolder.h - Folders of tensors out of one input -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TEST_FUZZ_TENSORFOLDER_H
#define OPTIMUS_TEST_FUZZ_TENSORFOLDER_H

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

namespace optimus_fuzz {

/// Bytes of tensors behind a header.
inline constexpr size_t kDataBytes = 4096;

/// Where folders lie, in memory.
struct Folder {
  std::string path = "/dev/shm/optimus-fuzz-XXXXXX";
  Folder() {
    if (!mkdtemp(path.data()))
      std::abort();
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

inline const std::string &folder() {
  static const Folder made;
  return made.path;
}

/// A file of tensors with this header.
inline std::string safetensors(std::string_view header) {
  uint64_t size = header.size();
  std::string file(sizeof(size), '\0');
  std::memcpy(file.data(), &size, sizeof(size));
  return file + std::string(header) + std::string(kDataBytes, '\0');
}

/// Takes what stands before the next line "====".
inline std::string_view takePart(std::string_view &text) {
  constexpr std::string_view kLine = "\n====\n";
  size_t end = text.find(kLine);
  std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size()
                                                   : end + kLine.size());
  return part;
}

} // namespace optimus_fuzz

#endif // OPTIMUS_TEST_FUZZ_TENSORFOLDER_H
