//===- ElfFile.h - What a shared object consists of -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MODEL_ELFFILE_H
#define OPTIMUS_RUNTIME_MODEL_ELFFILE_H

#include "optimus-runtime/Status.h"

#include <cstdint>
#include <elf.h>
#include <span>
#include <string>
#include <vector>

namespace optrt {

/// A 64-bit little-endian shared object of any processor whose segments and
/// sections, as its headers tell of them, lie within the file. Nothing is
/// executed. All errors are InvalidArgument and name the file.
class ElfFile {
public:
  /// Checks a file's contents, which must outlive the result; `path` is the
  /// file's name in messages.
  static StatusOr<ElfFile> parse(std::span<const uint8_t> file,
                                 const std::string &path);

  /// An EM_ constant of <elf.h>.
  uint16_t machine() const { return header.e_machine; }
  const std::vector<Elf64_Phdr> &segments() const { return segmentHeaders; }

  /// The file's bytes in the section called `name`. Fails where there is none,
  /// or where it is longer than `most` bytes.
  StatusOr<std::string_view> readSection(const std::string &name,
                                         uint64_t most) const;

  /// The `bytes` bytes that the loader puts at `address`, as far as they are
  /// the file's; `what` is their name in messages.
  StatusOr<std::span<const uint8_t>>
  atAddress(const std::string &what, uint64_t address, uint64_t bytes) const;

  /// Why the file is refused as a shared library.
  Status refuse(const std::string &why) const;

private:
  ElfFile(std::span<const uint8_t> file, std::string path)
      : file(file), path(std::move(path)) {}

  Status check();

  /// Fails when the file ends before `offset + size`.
  Status covers(const std::string &what, uint64_t offset, uint64_t bytes) const;

  /// Reads the table of `count` headers at `offset`.
  template <typename Header>
  Status readTable(const char *what, uint64_t offset, uint64_t count,
                   uint64_t entrySize, std::vector<Header> &headers) const;

  std::span<const uint8_t> file;
  std::string path;
  Elf64_Ehdr header{};
  std::vector<Elf64_Phdr> segmentHeaders;
  std::vector<Elf64_Shdr> sectionHeaders;
};

/// As the first part of a triple.
std::string nameOfMachine(uint16_t machine);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MODEL_ELFFILE_H
