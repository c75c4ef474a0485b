//===- ElfFile.cpp - Whether a shared object is whole ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ElfFile.h"

#include "optimus-support/InputFile.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <functional>

namespace optrt {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
#error "the ELF number of this kind of processor"
#endif

/// As the first part of a triple.
std::string nameOfMachine(uint16_t machine) {
  switch (machine) {
  case EM_X86_64:
    return "x86_64";
  case EM_AARCH64:
    return "aarch64";
  case EM_RISCV:
    return "riscv64";
  default:
    return concat("ELF machine ", machine);
  }
}

/// Reads some bytes of a file, which somebody may be cutting short meanwhile.
using ReadAt =
    std::function<Status(uint64_t offset, void *to, std::size_t bytes)>;

class ElfFile {
public:
  ElfFile(uint64_t size, ReadAt read, const std::string &path)
      : size(size), read(std::move(read)), path(path) {}

  Status check();
  StatusOr<std::string> readSection(const std::string &name, uint64_t most);

private:
  Status fail(const std::string &why) const {
    return invalidArgument(
        concat("`", path, "` cannot be opened as a shared library: ", why));
  }

  /// Fails when the file ends before `offset + size`.
  Status covers(const std::string &what, uint64_t offset, uint64_t bytes) const;

  /// Checks the table of `count` headers at `offset`, then what each describes.
  template <typename Header, typename Check>
  Status forEach(const char *what, uint64_t offset, uint64_t count,
                 uint64_t entrySize, Check check) const;

  const uint64_t size;
  const ReadAt read;
  const std::string &path;
};

Status ElfFile::covers(const std::string &what, uint64_t offset,
                       uint64_t bytes) const {
  // In this order nothing overflows.
  if (offset <= size && bytes <= size - offset)
    return okStatus();
  return fail(concat("it is cut short: ", what, " has ", bytes,
                     " bytes from offset ", offset, ", but the file has ", size,
                     " bytes; copy or compile it again"));
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
    OPTRT_RETURN_IF_ERROR(
        read(offset + i * entrySize, &header, sizeof(header)));
    OPTRT_RETURN_IF_ERROR(check(concat(what, " ", i), header));
  }
  return okStatus();
}

Status ElfFile::check() {
  Elf64_Ehdr header{};
  OPTRT_RETURN_IF_ERROR(
      read(0, &header, std::min<uint64_t>(size, sizeof(header))));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return fail("it has no ELF header");
  OPTRT_RETURN_IF_ERROR(covers("the header", 0, sizeof(header)));
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != kMachine)
    return fail(concat("it is for another kind of processor (",
                       nameOfMachine(header.e_machine), ", this one is ",
                       nameOfMachine(kMachine),
                       "); compile the model on this machine, or for it with "
                       "--mcpu TRIPLE:NAME"));
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

StatusOr<std::string> ElfFile::readSection(const std::string &name,
                                           uint64_t most) {
  OPTRT_RETURN_IF_ERROR(check());
  Elf64_Ehdr header;
  OPTRT_RETURN_IF_ERROR(read(0, &header, sizeof(header)));
  auto headerAt = [&](uint64_t index, Elf64_Shdr &section) {
    return read(header.e_shoff + index * sizeof(section), &section,
                sizeof(section));
  };
  Elf64_Shdr names{};
  if (header.e_shstrndx < header.e_shnum)
    OPTRT_RETURN_IF_ERROR(headerAt(header.e_shstrndx, names));
  for (uint64_t i = 0; i != header.e_shnum; ++i) {
    Elf64_Shdr section;
    OPTRT_RETURN_IF_ERROR(headerAt(i, section));
    std::string found(name.size() + 1, ' ');
    if (section.sh_type == SHT_NOBITS || section.sh_name >= names.sh_size ||
        found.size() > names.sh_size - section.sh_name)
      continue;
    OPTRT_RETURN_IF_ERROR(
        read(names.sh_offset + section.sh_name, found.data(), found.size()));
    if (found != name + '\0')
      continue;
    if (section.sh_size > most)
      return fail(concat("its section ", name, " has ", section.sh_size,
                         " bytes, expected at most ", most));
    std::string contents(section.sh_size, '\0');
    OPTRT_RETURN_IF_ERROR(
        read(section.sh_offset, contents.data(), contents.size()));
    return contents;
  }
  return invalidArgument(concat("`", path,
                                "` is a shared library but no model library: "
                                "it has no section ",
                                name));
}

} // namespace

Status checkSharedObject(std::span<const uint8_t> file,
                         const std::string &path) {
  auto read = [file](uint64_t offset, void *to, std::size_t bytes) {
    std::memcpy(to, file.data() + offset, bytes);
    return okStatus();
  };
  return ElfFile(file.size(), read, path).check();
}

static ReadAt readerOf(const optimus_support::InputFile &file) {
  return [&file](uint64_t offset, void *to, std::size_t bytes) {
    return file.read(offset, to, bytes);
  };
}

Status checkSharedObject(const std::string &path) {
  using optimus_support::InputFile;
  OPTRT_ASSIGN_OR_RETURN(InputFile file,
                         InputFile::open(path, StatusCode::InvalidArgument));
  return ElfFile(file.size(), readerOf(file), path).check();
}

StatusOr<std::string> readSection(const std::string &path,
                                  const std::string &name, uint64_t most) {
  using optimus_support::InputFile;
  OPTRT_ASSIGN_OR_RETURN(InputFile file,
                         InputFile::open(path, StatusCode::InvalidArgument));
  return ElfFile(file.size(), readerOf(file), path).readSection(name, most);
}

} // namespace optrt
