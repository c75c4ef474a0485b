//===- TensorFile.cpp - A file with one tensor ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorFile.h"

#include "optimus-runtime/Status.h"

#include <bit>
#include <nlohmann/json.hpp>

using namespace optrt;
using optimus_support::ElementType;

namespace optimus_run {

// Both formats are little-endian here.
static_assert(std::endian::native == std::endian::little);

/// Where the elements begin is a multiple of it.
static constexpr size_t kAlignment = 64;

static bool isNpy(const std::string &path) { return path.ends_with(".npy"); }

Status TensorFile::check(const std::string &path) {
  if (!isNpy(path) && !path.ends_with(".safetensors"))
    return invalidArgument(concat("expected an output called *.npy or "
                                  "*.safetensors, found ",
                                  path));
  return optimus_support::checkOutput(path);
}

/// Bytes of a number, the lowest first.
static std::string littleEndian(uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i != bytes; ++i)
    text += static_cast<char>(number >> (8 * i));
  return text;
}

static StatusOr<std::string> npyHeader(const std::string &path,
                                       const TensorDescription &tensor) {
  static constexpr const char *kTypes[] = {"<f4", "<f8", "<f2", nullptr,
                                           "<i4", "<i8", "|i1"};
  const char *type = kTypes[static_cast<int>(tensor.type)];
  if (!type)
    return invalidArgument(concat(path, ": .npy has no type for ",
                                  optimus_support::toString(tensor.type),
                                  "; expected an output called *.safetensors"));
  std::string dictionary =
      concat("{'descr': '", type, "', 'fortran_order': False, 'shape': (");
  for (int64_t extent : tensor.shape)
    dictionary += concat(extent, ", ");
  dictionary += "), }";
  constexpr size_t kPrefix = 10;
  const size_t end = kPrefix + dictionary.size() + 1;
  dictionary.append((kAlignment - end % kAlignment) % kAlignment, ' ');
  dictionary += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) +
         littleEndian(dictionary.size(), 2) + dictionary;
}

static std::string safetensorsHeader(const TensorDescription &tensor) {
  static constexpr const char *kTypes[] = {"F32", "F64", "F16", "BF16",
                                           "I32", "I64", "I8"};
  int64_t bytes = optimus_support::elementBytes(tensor.type);
  for (int64_t extent : tensor.shape)
    bytes *= extent;
  nlohmann::ordered_json header;
  header[tensor.name] = {{"dtype", kTypes[static_cast<int>(tensor.type)]},
                         {"shape", tensor.shape},
                         {"data_offsets", {int64_t(0), bytes}}};
  std::string text = header.dump();
  constexpr size_t kPrefix = 8;
  const size_t end = kPrefix + text.size();
  text.append((kAlignment - end % kAlignment) % kAlignment, ' ');
  return littleEndian(text.size(), kPrefix) + text;
}

StatusOr<TensorFile> TensorFile::open(const std::string &path,
                                      const TensorDescription &tensor) {
  std::string header;
  if (isNpy(path)) {
    OPTRT_ASSIGN_OR_RETURN(header, npyHeader(path, tensor));
  } else {
    header = safetensorsHeader(tensor);
  }
  TensorFile result;
  OPTRT_ASSIGN_OR_RETURN(result.file, optimus_support::OutputFile::open(path));
  OPTRT_RETURN_IF_ERROR(result.file.append(header));
  return result;
}

Status TensorFile::append(std::span<const std::byte> elements) {
  return file.append(
      {reinterpret_cast<const char *>(elements.data()), elements.size()});
}

} // namespace optimus_run
