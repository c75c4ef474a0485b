//===- ElfFile.cpp - Whether a shared object is whole ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ElfFile.h"

#include "MappedFile.h"

#include <cstring>
#include <elf.h>

namespace optrt {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
#error "the ELF number of this kind of processor"
#endif

class ElfFile {
public:
  ElfFile(std::span<const uint8_t> file, const std::string &path)
      : file(file), path(path) {}

  Status check();

private:
  Status fail(const std::string &why) const {
    return invalidArgument(
        concat("`", path, "` cannot be opened as a shared library: ", why));
  }

  /// Fails when the file ends before `offset + size`.
  Status covers(const std::string &what, uint64_t offset, uint64_t size) const;

  /// Checks the table of `count` headers at `offset`, then what each describes.
  template <typename Header, typename Check>
  Status forEach(const char *what, uint64_t offset, uint64_t count,
                 uint64_t entrySize, Check check) const;

  std::span<const uint8_t> file;
  const std::string &path;
};

Status ElfFile::covers(const std::string &what, uint64_t offset,
                       uint64_t size) const {
  // In this order nothing overflows.
  if (offset <= file.size() && size <= file.size() - offset)
    return okStatus();
  return fail(concat("it is cut short: ", what, " has ", size,
                     " bytes from offset ", offset, ", but the file has ",
                     file.size(), " bytes; copy or compile it again"));
}

template <typename Header, typename Check>
Status ElfFile::forEach(const char *what, uint64_t offset, uint64_t count,
                        uint64_t entrySize, Check check) const {
  if (count == 0)
    return okStatus();
  if (entrySize != sizeof(Header))
    return fail(concat("its ", what, " headers have ", entrySize,
                       " bytes, expected ", sizeof(Header)));
  OPTRT_RETURN_IF_ERROR(
      covers(concat("the table of ", what, "s"), offset, count * entrySize));
  for (uint64_t i = 0; i != count; ++i) {
    Header header;
    std::memcpy(&header, file.data() + offset + i * entrySize, sizeof(header));
    OPTRT_RETURN_IF_ERROR(check(concat(what, " ", i), header));
  }
  return okStatus();
}

Status ElfFile::check() {
  Elf64_Ehdr header;
  if (file.size() < SELFMAG || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0)
    return fail("it has no ELF header");
  OPTRT_RETURN_IF_ERROR(covers("the header", 0, sizeof(header)));
  std::memcpy(&header, file.data(), sizeof(header));
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != kMachine)
    return fail(concat("it is for another kind of processor (ELF machine ",
                       header.e_machine, ", this one is ", kMachine, ")"));
  if (header.e_type != ET_DYN)
    return fail(concat("it is no shared object but has ELF type ",
                       header.e_type, ", expected ", ET_DYN));
  OPTRT_RETURN_IF_ERROR(forEach<Elf64_Phdr>(
      "segment", header.e_phoff, header.e_phnum, header.e_phentsize,
      [&](const std::string &what, const Elf64_Phdr &segment) {
        return covers(what, segment.p_offset, segment.p_filesz);
      }));
  // The loader does not need the sections, but they lie behind the segments:
  // that they are there says that the file's end is.
  return forEach<Elf64_Shdr>(
      "section", header.e_shoff, header.e_shnum, header.e_shentsize,
      [&](const std::string &what, const Elf64_Shdr &section) {
        return section.sh_type == SHT_NOBITS
                   ? okStatus()
                   : covers(what, section.sh_offset, section.sh_size);
      });
}

} // namespace

Status checkSharedObject(std::span<const uint8_t> file,
                         const std::string &path) {
  return ElfFile(file, path).check();
}

Status checkSharedObject(const std::string &path) {
  OPTRT_ASSIGN_OR_RETURN(MappedFile file,
                         MappedFile::open(path, StatusCode::InvalidArgument));
  return checkSharedObject(std::span(file.data(), file.size()), path);
}

} // namespace optrt
