//===- Npy.cpp - NumPy's files of one array ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The format: "\x93NUMPY", version bytes, the header's length (2 bytes little-
// endian in version 1, 4 in version 2), the header (a Python dictionary with
// 'descr', 'fortran_order' and 'shape'), then the elements.
//
//===----------------------------------------------------------------------===//

#include "Npy.h"

#include "optimus/Tool/Files.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/EndianStream.h"

using namespace mlir::optimus;
using llvm::StringRef;
using optimus_support::Status;
using optimus_support::StatusOr;
namespace endian = llvm::support::endian;

static constexpr StringRef kMagic("\x93NUMPY", 6);

static Status makeError(StringRef path, const llvm::Twine &what) {
  return optimus_support::invalidArgument(("'" + path + "': " + what).str());
}

/// What follows `'key':` in a header.
static StringRef getHeaderEntry(StringRef header, StringRef key) {
  std::string quoted = ("'" + key + "'").str();
  size_t at = header.find(quoted);
  if (at == StringRef::npos)
    return "";
  return header.drop_front(at + quoted.size()).ltrim(" :");
}

static double readElement(const char *at, StringRef type) {
  if (type == "<f8")
    return llvm::bit_cast<double>(endian::read64le(at));
  if (type == "<f4")
    return llvm::bit_cast<float>(endian::read32le(at));
  if (type == "<i8")
    return static_cast<double>(static_cast<int64_t>(endian::read64le(at)));
  return static_cast<int32_t>(endian::read32le(at));
}

/// Reads `(2, 3)`, `(4,)` or `()`.
static bool parseShape(StringRef text, llvm::SmallVectorImpl<int64_t> &shape) {
  if (!text.consume_front("("))
    return false;
  text = text.take_until([](char c) { return c == ')'; });
  for (StringRef extent : llvm::split(text, ',')) {
    int64_t size = 0;
    if (extent.trim().empty())
      continue;
    // A product that overflows cannot be in a file.
    if (extent.trim().getAsInteger(10, size) || size < 0 || size >> 31)
      return false;
    shape.push_back(size);
  }
  return shape.size() <= 8;
}

StatusOr<NpyFile> NpyFile::open(const std::string &path) {
  NpyFile npy;
  OPTRT_ASSIGN_OR_RETURN(
      npy.file, optimus_support::InputFile::open(
                    path, optimus_support::StatusCode::InvalidArgument));
  // Headers have some hundred bytes.
  constexpr size_t kMostHeaderBytes = size_t(1) << 16;
  std::string start(std::min(npy.file.size(), kMostHeaderBytes), '\0');
  OPTRT_RETURN_IF_ERROR(npy.file.read(0, start.data(), start.size()));
  StringRef data = start;
  size_t prefix = data.size() > 6 && data[6] >= 2 ? 12 : 10;
  if (!data.starts_with(kMagic) || data.size() < prefix)
    return makeError(path, "expected a .npy file");
  size_t headerSize = prefix == 10 ? endian::read16le(data.data() + 8)
                                   : endian::read32le(data.data() + 8);
  StringRef header = data.substr(prefix, headerSize);
  npy.offset = std::min(npy.file.size(), prefix + headerSize);

  StringRef descr = getHeaderEntry(header, "descr");
  for (StringRef known : {"<f4", "<f8", "<i4", "<i8"})
    if (descr.starts_with(("'" + known + "'").str()))
      npy.type = known;
  if (npy.type.empty())
    return makeError(path,
                     "expected elements of <f4, <f8, <i4 or <i8, found " +
                         descr.take_until([](char c) { return c == ','; }));
  if (!getHeaderEntry(header, "fortran_order").starts_with("False"))
    return makeError(path, "expected an array in C order");
  if (!parseShape(getHeaderEntry(header, "shape"), npy.shape))
    return makeError(path, "cannot read the shape in its header");
  for (int64_t extent : npy.shape)
    if (__builtin_mul_overflow(npy.count, static_cast<size_t>(extent),
                               &npy.count))
      return makeError(path, "cannot read the shape in its header");
  size_t width = npy.type.back() - '0', bytes = npy.file.size() - npy.offset;
  if (bytes / width < npy.count)
    return makeError(path, "is cut short: expected " + llvm::Twine(npy.count) +
                               " elements of " + llvm::Twine(width) +
                               " bytes, found " + llvm::Twine(bytes) +
                               " bytes");
  return npy;
}

StatusOr<Tensor> NpyFile::read() const {
  Tensor tensor;
  tensor.shape = shape;
  tensor.elements.reserve(count);
  constexpr size_t kPieceElements = size_t(1) << 17;
  size_t width = type.back() - '0';
  std::string piece(std::min(kPieceElements, count) * width, '\0');
  for (size_t done = 0; done < count;) {
    size_t now = std::min(kPieceElements, count - done);
    OPTRT_RETURN_IF_ERROR(
        file.read(offset + done * width, piece.data(), now * width));
    for (size_t i = 0; i < now; ++i)
      tensor.elements.push_back(readElement(piece.data() + i * width, type));
    done += now;
  }
  return tensor;
}

Status mlir::optimus::writeNpy(const std::string &path, const Tensor &tensor,
                               bool integers) {
  std::string header = "{'descr': '";
  header += integers ? "<i4" : "<f8";
  header += "', 'fortran_order': False, 'shape': (";
  for (int64_t extent : tensor.shape)
    header += std::to_string(extent) + ", ";
  header += "), }";
  // Elements begin at a multiple of 64 bytes.
  header.append(63 - (kMagic.size() + 4 + header.size()) % 64, ' ');
  header += '\n';

  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<OutputStream> file,
                         OutputStream::open(path));
  endian::Writer writer(*file, llvm::endianness::little);
  *file << kMagic << '\1' << '\0';
  writer.write(static_cast<uint16_t>(header.size()));
  *file << header;
  for (double element : tensor.elements) {
    if (integers)
      writer.write(static_cast<int32_t>(element));
    else
      writer.write(element);
  }
  return file->commit();
}
