//===- Safetensors.cpp - The safetensors format ---------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Safetensors.h"

#include "WeightTypes.h"
#include "optimus-support/JsonCursor.h"
#include "optimus-support/Shard.h"
#include "optimus-support/Sizes.h"

#include <algorithm>
#include <bit>
#include <cstring>

using namespace optrt;
using nlohmann::json;
using optimus_support::CheckedSize;
using optimus_support::ElementType;
using optimus_support::JsonCursor;
using optimus_support::JsonDocument;
using optimus_support::kMaxBytes;

static_assert(std::endian::native == std::endian::little,
              "safetensors is little-endian, and is read as it lies");

// The format's own limit.
static constexpr uint64_t kMaxHeaderBytes = 100'000'000;
static constexpr size_t kDataAlignment = 64;

namespace {

struct StoredType {
  std::string_view name;
  int64_t bytes;
};

} // namespace

static constexpr StoredType kStoredTypes[] = {
    {"F64", 8}, {"F32", 4}, {"F16", 2},     {"BF16", 2},    {"I64", 8},
    {"I32", 4}, {"I16", 2}, {"I8", 1},      {"U64", 8},     {"U32", 4},
    {"U16", 2}, {"U8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"BOOL", 1}};

int64_t optrt::bytesOfElement(std::string_view type) {
  for (const StoredType &known : kStoredTypes)
    if (known.name == type)
      return known.bytes;
  return 0;
}

StatusOr<SafetensorsLayout>
optrt::layOutSafetensors(const std::vector<TensorInfo> &tensors,
                         ElementType type) {
  std::vector<TypedInfo> typed;
  for (const TensorInfo &tensor : tensors)
    typed.push_back({tensor, nameOfWeightType(type)});
  return layOutSafetensors(typed);
}

StatusOr<SafetensorsLayout>
optrt::layOutSafetensors(const std::vector<TypedInfo> &tensors) {
  SafetensorsLayout layout;
  // Ordered, so that a header lists tensors as they lie.
  nlohmann::ordered_json header;
  header["__metadata__"]["format"] = "pt"; // what Hugging Face's loader wants
  size_t dataBytes = 0;
  for (const auto &[tensor, type] : tensors) {
    const CheckedSize needed =
        CheckedSize::product(tensor.shape) * bytesOfElement(type);
    if (!(needed + int64_t(dataBytes)).isAtMost(kMaxBytes))
      return invalidArgument(concat("with the tensor \"", tensor.name, "\" of ",
                                    needed.toString(),
                                    " bytes a checkpoint would have more than "
                                    "2^52"));
    const auto bytes = static_cast<size_t>(*needed.get());
    nlohmann::ordered_json &entry = header[tensor.name];
    entry["dtype"] = type;
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {dataBytes, dataBytes + bytes};
    layout.tensors.push_back({tensor, dataBytes, bytes});
    dataBytes += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception &) {
    return invalidArgument("a parameter's name is not valid UTF-8; a "
                           "checkpoint cannot hold it");
  }
  size_t padding = -(kSafetensorsLengthBytes + text.size()) % kDataAlignment;
  text.append(padding, ' ');
  if (text.size() > kMaxHeaderBytes)
    return invalidArgument(concat("too many parameters for one safetensors "
                                  "file: its header would have ",
                                  text.size(), " bytes, the format allows ",
                                  kMaxHeaderBytes));

  uint64_t length = text.size();
  layout.header.resize(kSafetensorsLengthBytes);
  std::memcpy(layout.header.data(), &length, kSafetensorsLengthBytes);
  layout.header += text;
  for (TensorExtent &tensor : layout.tensors)
    tensor.offset += layout.header.size();
  layout.fileBytes = layout.header.size() + dataBytes;
  return layout;
}

namespace {

/// Which files are read: as they are written here, F32, BF16 or F16 at
/// multiples of an element's bytes, or any.
enum class Accepted { Ours, All };

} // namespace

/// Bytes of an element; `entry` fails for a type that the format does not have.
static int64_t bytesOfElement(const JsonCursor &entry,
                              const std::string &dtype) {
  if (const int64_t bytes = bytesOfElement(dtype))
    return bytes;
  entry.fail(concat("expected an element type such as F32, found ", dtype));
  return 1;
}

/// Reads one entry of the header; offsets are counted from the file's start.
static TypedTensor readEntry(const std::string &name, const JsonCursor &entry,
                             size_t dataBegin, size_t dataBytes,
                             Accepted accepted) {
  TypedTensor typed;
  TensorExtent &tensor = typed.extent;
  tensor.info.name = name;
  typed.type = entry["dtype"].string();
  if (accepted == Accepted::Ours && !findWeightType(typed.type))
    entry["dtype"].fail(
        concat("expected F32, BF16 or F16, found ", typed.type));
  const int64_t width = bytesOfElement(entry["dtype"], typed.type);
  tensor.info.shape = entry["shape"].integers(1, kMaxBytes);
  std::vector<int64_t> offsets = entry["data_offsets"].integers(0, kMaxBytes);
  if (offsets.size() != 2 || offsets[0] > offsets[1] ||
      size_t(offsets[1]) > dataBytes) {
    entry["data_offsets"].fail(concat("expected [begin, end] within the ",
                                      dataBytes, " bytes of data, found ",
                                      optimus_support::shapeToString(offsets)));
    return typed;
  }
  tensor.offset = dataBegin + offsets[0];
  tensor.bytes = offsets[1] - offsets[0];
  const CheckedSize bytes = CheckedSize::product(tensor.info.shape) * width;
  if (bytes.get() != int64_t(tensor.bytes))
    entry["shape"].fail(
        concat("the shape ", optimus_support::shapeToString(tensor.info.shape),
               " does not have the ", tensor.bytes, " bytes of data_offsets"));
  if (accepted == Accepted::Ours && tensor.offset % size_t(width) != 0)
    entry["data_offsets"].fail(
        concat("the data is not aligned to ", width, " bytes"));
  return typed;
}

std::string optrt::formatIndex(
    const std::vector<std::pair<std::string, std::string>> &places,
    int64_t totalBytes) {
  json index;
  for (const auto &[tensor, file] : places)
    index["weight_map"][tensor] = file;
  index["metadata"]["total_size"] = totalBytes;
  return index.dump(2) + "\n";
}

StatusOr<size_t> optrt::beginOfSafetensorsData(std::string_view first,
                                               size_t fileBytes,
                                               const std::string &path) {
  uint64_t headerBytes = 0;
  if (fileBytes >= kSafetensorsLengthBytes)
    std::memcpy(&headerBytes, first.data(), kSafetensorsLengthBytes);
  if (fileBytes < kSafetensorsLengthBytes || headerBytes > kMaxHeaderBytes ||
      headerBytes > fileBytes - kSafetensorsLengthBytes)
    return dataLoss(concat(path,
                           " is damaged or not a safetensors file: it "
                           "has ",
                           fileBytes, " bytes and announces a header of ",
                           headerBytes));
  return kSafetensorsLengthBytes + headerBytes;
}

static StatusOr<std::vector<TypedTensor>> readEntries(std::string_view first,
                                                      size_t fileBytes,
                                                      const std::string &path,
                                                      Accepted accepted) {
  OPTRT_ASSIGN_OR_RETURN(const size_t dataBegin,
                         beginOfSafetensorsData(first, fileBytes, path));
  std::string_view text = first.substr(0, dataBegin);
  text.remove_prefix(kSafetensorsLengthBytes);
  JsonDocument document(text, concat("the header of ", path),
                        StatusCode::DataLoss);
  std::vector<TypedTensor> tensors;
  for (const auto &[name, entry] : document.root().members())
    if (name != "__metadata__")
      tensors.push_back(
          readEntry(name, entry, dataBegin, fileBytes - dataBegin, accepted));
  OPTRT_RETURN_IF_ERROR(document.status());

  std::sort(tensors.begin(), tensors.end(),
            [](const TypedTensor &a, const TypedTensor &b) {
              return a.extent.offset < b.extent.offset;
            });
  size_t expected = dataBegin;
  for (const TypedTensor &typed : tensors) {
    const TensorExtent &tensor = typed.extent;
    if (tensor.offset != expected)
      return dataLoss(concat(path, " is damaged: tensor ", tensor.info.name,
                             " begins at byte ", tensor.offset,
                             ", but the one before it ends at ", expected));
    expected += tensor.bytes;
  }
  if (expected != fileBytes)
    return dataLoss(concat(path, " is damaged: its tensors end at byte ",
                           expected, ", the file at ", fileBytes));
  return tensors;
}

StatusOr<UniformTensors> optrt::readSafetensors(std::string_view first,
                                                size_t fileBytes,
                                                const std::string &path) {
  OPTRT_ASSIGN_OR_RETURN(std::vector<TypedTensor> typed,
                         readEntries(first, fileBytes, path, Accepted::Ours));
  UniformTensors tensors;
  if (!typed.empty())
    tensors.type = *findWeightType(typed.front().type);
  for (TypedTensor &tensor : typed) {
    if (tensor.type != typed.front().type)
      return dataLoss(concat(path, " is damaged: tensor ",
                             tensor.extent.info.name, " has elements of type ",
                             tensor.type, ", the first one has ",
                             typed.front().type));
    tensors.extents.push_back(std::move(tensor.extent));
  }
  return tensors;
}

StatusOr<std::vector<TypedTensor>>
optrt::readTypedSafetensors(std::string_view first, size_t fileBytes,
                            const std::string &path) {
  return readEntries(first, fileBytes, path, Accepted::All);
}

StatusOr<std::string>
optrt::readSafetensorsHeader(const optimus_support::InputFile &file) {
  std::string first(std::min(kSafetensorsLengthBytes, file.size()), '\0');
  OPTRT_RETURN_IF_ERROR(file.read(0, first.data(), first.size()));
  OPTRT_ASSIGN_OR_RETURN(
      const size_t dataBegin,
      beginOfSafetensorsData(first, file.size(), file.path()));
  first.resize(dataBegin);
  OPTRT_RETURN_IF_ERROR(file.read(0, first.data(), first.size()));
  return first;
}
