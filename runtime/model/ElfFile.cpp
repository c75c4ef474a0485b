//===- ElfFile.cpp - Whether a shared object is whole ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ElfFile.h"

#include <algorithm>
#include <cstring>

namespace optrt {

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

StatusOr<ElfFile> ElfFile::parse(std::span<const uint8_t> file,
                                 const std::string &path) {
  ElfFile result(file, path);
  OPTRT_RETURN_IF_ERROR(result.check());
  return result;
}

Status ElfFile::refuse(const std::string &why) const {
  return invalidArgument(
      concat("`", path, "` cannot be opened as a shared library: ", why));
}

Status ElfFile::covers(const std::string &what, uint64_t offset,
                       uint64_t bytes) const {
  // In this order nothing overflows.
  if (offset <= file.size() && bytes <= file.size() - offset)
    return okStatus();
  return refuse(concat("it is cut short: ", what, " has ", bytes,
                       " bytes from offset ", offset, ", but the file has ",
                       file.size(), " bytes; copy or compile it again"));
}

template <typename Header>
Status ElfFile::readTable(const char *what, uint64_t offset, uint64_t count,
                          uint64_t entrySize,
                          std::vector<Header> &headers) const {
  if (count == 0)
    return okStatus();
  if (entrySize != sizeof(Header))
    return refuse(concat("its ", what, " headers have ", entrySize,
                         " bytes, expected ", sizeof(Header)));
  OPTRT_RETURN_IF_ERROR(
      covers(concat("the table of ", what, "s"), offset, count * entrySize));
  headers.resize(count);
  std::memcpy(headers.data(), file.data() + offset, count * entrySize);
  return okStatus();
}

Status ElfFile::check() {
  std::copy_n(file.begin(), std::min(file.size(), sizeof(header)),
              reinterpret_cast<uint8_t *>(&header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return refuse("it has no ELF header; optimus-compile makes a model library "
                  "of a program");
  OPTRT_RETURN_IF_ERROR(covers("the header", 0, sizeof(header)));
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB)
    return refuse("it is for another kind of processor, expected one of 64 "
                  "bits that stores the lowest byte first");
  if (header.e_type != ET_DYN)
    return refuse(concat("it is no shared object but has ELF type ",
                         header.e_type, ", expected ", ET_DYN));
  OPTRT_RETURN_IF_ERROR(readTable("segment", header.e_phoff, header.e_phnum,
                                  header.e_phentsize, segmentHeaders));
  for (std::size_t i = 0; i != segmentHeaders.size(); ++i)
    OPTRT_RETURN_IF_ERROR(covers(concat("segment ", i),
                                 segmentHeaders[i].p_offset,
                                 segmentHeaders[i].p_filesz));
  // The loader does not need the sections, but they lie behind the segments:
  // where they are complete, so is the file.
  OPTRT_RETURN_IF_ERROR(readTable("section", header.e_shoff, header.e_shnum,
                                  header.e_shentsize, sectionHeaders));
  for (std::size_t i = 0; i != sectionHeaders.size(); ++i)
    if (sectionHeaders[i].sh_type != SHT_NOBITS)
      OPTRT_RETURN_IF_ERROR(covers(concat("section ", i),
                                   sectionHeaders[i].sh_offset,
                                   sectionHeaders[i].sh_size));
  return okStatus();
}

StatusOr<std::string_view> ElfFile::readSection(const std::string &name,
                                                uint64_t most) const {
  Elf64_Shdr names{};
  if (header.e_shstrndx < sectionHeaders.size())
    names = sectionHeaders[header.e_shstrndx];
  if (names.sh_type == SHT_NOBITS)
    names.sh_size = 0;
  const std::string wanted = name + '\0';
  for (const Elf64_Shdr &section : sectionHeaders) {
    if (section.sh_type == SHT_NOBITS || section.sh_name >= names.sh_size ||
        wanted.size() > names.sh_size - section.sh_name ||
        std::memcmp(file.data() + names.sh_offset + section.sh_name,
                    wanted.data(), wanted.size()) != 0)
      continue;
    if (section.sh_size > most)
      return refuse(concat("its section ", name, " has ", section.sh_size,
                           " bytes, expected at most ", most));
    return std::string_view(reinterpret_cast<const char *>(file.data()) +
                                section.sh_offset,
                            section.sh_size);
  }
  return invalidArgument(concat("`", path,
                                "` is a shared library but no model library: "
                                "it has no section ",
                                name));
}

StatusOr<std::span<const uint8_t>> ElfFile::atAddress(const std::string &what,
                                                      uint64_t address,
                                                      uint64_t bytes) const {
  for (const Elf64_Phdr &segment : segmentHeaders)
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr <= segment.p_filesz &&
        bytes <= segment.p_filesz - (address - segment.p_vaddr))
      return file.subspan(segment.p_offset + (address - segment.p_vaddr),
                          bytes);
  return refuse(concat(what, " has ", bytes, " bytes at address ", address,
                       ", which are in none of its segments"));
}

} // namespace optrt
