//===- Safetensors.h - The safetensors format -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file is eight bytes N, little-endian; a JSON header of N bytes that maps
// names to dtype, shape and data_offsets, counted in the bytes behind the
// header; the bytes of the tensors, without gaps. Files written here have
// tensors of one type, F32, BF16 or F16; folders of weights have any.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINT_SAFETENSORS_H
#define OPTIMUS_RUNTIME_CHECKPOINT_SAFETENSORS_H

#include "optimus-runtime/CheckpointPieces.h"
#include "optimus-runtime/Status.h"
#include "optimus-support/ElementType.h"
#include "optimus-support/InputFile.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace optrt {

/// The bytes before the tensors' data, and where each tensor lies, in the given
/// order and gapless. The data begins at a multiple of 64 bytes. `type` is F32,
/// BF16 or F16. Fails with InvalidArgument for a name that is not valid UTF-8.
struct SafetensorsLayout {
  std::string header;
  std::vector<TensorExtent> tensors;
  size_t fileBytes = 0;
};
StatusOr<SafetensorsLayout>
layOutSafetensors(const std::vector<TensorInfo> &tensors,
                  optimus_support::ElementType type);

/// A tensor and its type, as "BF16".
struct TypedInfo {
  TensorInfo info;
  std::string type;
};
/// The same of tensors of any types.
StatusOr<SafetensorsLayout>
layOutSafetensors(const std::vector<TypedInfo> &tensors);

/// Bytes of an element of one of the format's types; 0 of others.
int64_t bytesOfElement(std::string_view type);

/// Hugging Face's index of a sharded model, from each tensor's name and file.
std::string
formatIndex(const std::vector<std::pair<std::string, std::string>> &places,
            int64_t totalBytes);

/// A file's first bytes, which say where its header ends.
inline constexpr size_t kSafetensorsLengthBytes = 8;

/// How many bytes of a file of `fileBytes` come before the tensors' data, from
/// its first kSafetensorsLengthBytes, or all if it has fewer. Fails with
/// DataLoss; `path` is for messages.
StatusOr<size_t> beginOfSafetensorsData(std::string_view first,
                                        size_t fileBytes,
                                        const std::string &path);

/// The bytes of a file before its tensors' data. Fails with DataLoss.
StatusOr<std::string>
readSafetensorsHeader(const optimus_support::InputFile &file);

/// Reads the header of a file of `fileBytes`, from at least the bytes before
/// the data, and checks it against that size. The tensors come in the order of
/// their offsets, all of one type. Fails with DataLoss; `path` is for messages.
struct UniformTensors {
  optimus_support::ElementType type = optimus_support::ElementType::F32;
  std::vector<TensorExtent> extents;
};
StatusOr<UniformTensors> readSafetensors(std::string_view first,
                                         size_t fileBytes,
                                         const std::string &path);

/// A tensor as any writer of the format stores it, at any byte.
struct TypedTensor {
  TensorExtent extent;
  std::string type; ///< "BF16"
};

/// As readSafetensors(), for tensors of all element types.
StatusOr<std::vector<TypedTensor>>
readTypedSafetensors(std::string_view first, size_t fileBytes,
                     const std::string &path);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINT_SAFETENSORS_H
