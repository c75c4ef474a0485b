//===- SharedObject.cpp - What loading a shared object does ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedObject.h"

#include "ElfFile.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <unistd.h>
#include <vector>

namespace optrt {
namespace {

/// What the loader may be told to do where a relocation is.
struct Relocations {
  uint16_t machine;
  uint32_t relative, resolver;    ///< these name no symbol
  uint32_t address, global, jump; ///< these write a symbol's address
};

#if defined(__x86_64__)
constexpr Relocations kHost = {EM_X86_64,          R_X86_64_RELATIVE,
                               R_X86_64_IRELATIVE, R_X86_64_64,
                               R_X86_64_GLOB_DAT,  R_X86_64_JUMP_SLOT};
#elif defined(__aarch64__)
constexpr Relocations kHost = {EM_AARCH64,          R_AARCH64_RELATIVE,
                               R_AARCH64_IRELATIVE, R_AARCH64_ABS64,
                               R_AARCH64_GLOB_DAT,  R_AARCH64_JUMP_SLOT};
#else
#error "the ELF numbers of this kind of processor"
#endif

/// Tags that tell the loader where tables are, and nothing to do with them.
constexpr uint64_t kTables[] = {
    DT_HASH,    DT_GNU_HASH, DT_STRTAB,   DT_SYMTAB, DT_STRSZ,   DT_SYMENT,
    DT_PLTGOT,  DT_PLTRELSZ, DT_PLTREL,   DT_JMPREL, DT_RELA,    DT_RELASZ,
    DT_RELAENT, DT_SONAME,   DT_SYMBOLIC, DT_FLAGS,  DT_FLAGS_1, DT_RELACOUNT};

/// The names of other tags one may meet.
std::string nameOfTag(uint64_t tag) {
  switch (tag) {
  case DT_INIT:
    return "DT_INIT";
  case DT_FINI:
    return "DT_FINI";
  case DT_INIT_ARRAY:
  case DT_INIT_ARRAYSZ:
    return "DT_INIT_ARRAY";
  case DT_FINI_ARRAY:
  case DT_FINI_ARRAYSZ:
    return "DT_FINI_ARRAY";
  case DT_PREINIT_ARRAY:
  case DT_PREINIT_ARRAYSZ:
    return "DT_PREINIT_ARRAY";
  case DT_TEXTREL:
    return "DT_TEXTREL";
  case DT_RPATH:
    return "DT_RPATH";
  case DT_RUNPATH:
    return "DT_RUNPATH";
  case DT_AUXILIARY:
    return "DT_AUXILIARY";
  case DT_FILTER:
    return "DT_FILTER";
  case DT_VERNEED:
  case DT_VERNEEDNUM:
    return "DT_VERNEED";
  default:
    return concat("the dynamic tag ", tag);
  }
}

bool runsCode(uint64_t tag) {
  return tag == DT_INIT || tag == DT_FINI ||
         (tag >= DT_INIT_ARRAY && tag <= DT_FINI_ARRAYSZ) ||
         tag == DT_PREINIT_ARRAY || tag == DT_PREINIT_ARRAYSZ;
}

class SharedObject {
public:
  explicit SharedObject(const ElfFile &elf) : elf(elf) {}

  Status check();

private:
  Status refuse(const std::string &what, const char *rule) const {
    return elf.refuse(concat(what, ", but a model library ", rule,
                             "; compile the model again with optimus-compile"));
  }
  Status checkSegments() const;
  Status readDynamic();
  Status checkTag(const Elf64_Dyn &entry) const;
  Status checkRelocations(uint64_t table, uint64_t bytes) const;
  Status checkRelocation(const Elf64_Rela &relocation) const;
  Status checkSymbol(uint64_t index) const;
  std::string nameAt(uint64_t offset) const;

  uint64_t valueOf(uint64_t tag) const {
    auto found = dynamic.find(tag);
    return found == dynamic.end() ? 0 : found->second;
  }

  const ElfFile &elf;
  std::map<uint64_t, uint64_t> dynamic;
};

Status SharedObject::check() {
  if (elf.machine() != kHost.machine)
    return elf.refuse(concat("it is for another kind of processor (",
                             nameOfMachine(elf.machine()), ", this one is ",
                             nameOfMachine(kHost.machine),
                             "); compile the model on this machine, or for it "
                             "with --mcpu TRIPLE:NAME"));
  OPTRT_RETURN_IF_ERROR(checkSegments());
  OPTRT_RETURN_IF_ERROR(readDynamic());
  if (valueOf(DT_RELASZ) != 0 && valueOf(DT_RELAENT) != sizeof(Elf64_Rela))
    return elf.refuse(concat("its relocations have ", valueOf(DT_RELAENT),
                             " bytes, expected ", sizeof(Elf64_Rela)));
  if (valueOf(DT_PLTRELSZ) != 0 && valueOf(DT_PLTREL) != DT_RELA)
    return elf.refuse("its relocations of calls have no addends");
  OPTRT_RETURN_IF_ERROR(checkRelocations(valueOf(DT_RELA), valueOf(DT_RELASZ)));
  return checkRelocations(valueOf(DT_JMPREL), valueOf(DT_PLTRELSZ));
}

/// The loader maps whole pages in the order of the headers. If two segments
/// share a page, the first one's checked content need not be there.
Status SharedObject::checkSegments() const {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t end = 0;
  bool hasStack = false;
  for (const Elf64_Phdr &segment : elf.segments()) {
    if (segment.p_type == PT_GNU_STACK) {
      hasStack = true;
      if (segment.p_flags & PF_X)
        return refuse("it asks for a stack that is executable", "has none");
    }
    if (segment.p_type != PT_LOAD)
      continue;
    if ((segment.p_flags & PF_W) && (segment.p_flags & PF_X))
      return refuse("one of its segments can be written and executed",
                    "has no such segment");
    const uint64_t last = segment.p_vaddr + segment.p_memsz;
    if (segment.p_memsz < segment.p_filesz || last < segment.p_vaddr ||
        last > UINT64_MAX - page || segment.p_vaddr / page * page < end)
      return elf.refuse("its segments overlap or are out of order");
    end = (last + page - 1) / page * page;
  }
  // The loader takes the absence of the header for a wish.
  return hasStack ? okStatus()
                  : refuse("it does not say that its stack is not executable",
                           "does");
}

Status SharedObject::readDynamic() {
  const Elf64_Phdr *table = nullptr;
  for (const Elf64_Phdr &segment : elf.segments()) {
    if (segment.p_type != PT_DYNAMIC)
      continue;
    if (table)
      return elf.refuse("it has two dynamic sections, expected one");
    table = &segment;
  }
  if (!table)
    return elf.refuse("it has no dynamic section");
  OPTRT_ASSIGN_OR_RETURN(
      std::span<const uint8_t> bytes,
      elf.atAddress("its dynamic section", table->p_vaddr, table->p_filesz));
  // Names are needed to say what is wrong.
  std::vector<Elf64_Dyn> entries(bytes.size() / sizeof(Elf64_Dyn));
  std::memcpy(entries.data(), bytes.data(), entries.size() * sizeof(Elf64_Dyn));
  auto end =
      std::find_if(entries.begin(), entries.end(), [](const Elf64_Dyn &entry) {
        return entry.d_tag == DT_NULL;
      });
  if (end == entries.end())
    return elf.refuse("its dynamic section has no end");
  entries.erase(end, entries.end());
  for (const Elf64_Dyn &entry : entries)
    dynamic[uint64_t(entry.d_tag)] = entry.d_un.d_val;
  for (const Elf64_Dyn &entry : entries)
    OPTRT_RETURN_IF_ERROR(checkTag(entry));
  return okStatus();
}

Status SharedObject::checkTag(const Elf64_Dyn &entry) const {
  const uint64_t tag = uint64_t(entry.d_tag), value = entry.d_un.d_val;
  if (tag == DT_NEEDED)
    return refuse(
        concat("it needs the library ", nameAt(value), " (DT_NEEDED)"),
        "needs no other");
  if (runsCode(tag))
    return refuse(concat("it has code that runs when it is loaded or unloaded "
                         "(",
                         nameOfTag(tag), ")"),
                  "runs nothing then");
  if (std::find(std::begin(kTables), std::end(kTables), tag) ==
      std::end(kTables))
    return refuse(concat("it has ", nameOfTag(tag)),
                  "asks the loader for nothing but its own relocations");
  constexpr uint64_t kFlags = DF_SYMBOLIC | DF_BIND_NOW;
  if (tag == DT_FLAGS && (value & ~kFlags) != 0)
    return refuse(concat("its DT_FLAGS are ", value),
                  "asks the loader for nothing but its own relocations");
  if (tag == DT_FLAGS_1 && (value & ~uint64_t(DF_1_NOW)) != 0)
    return refuse(concat("its DT_FLAGS_1 are ", value),
                  "asks the loader for nothing but its own relocations");
  return okStatus();
}

Status SharedObject::checkRelocations(uint64_t table, uint64_t bytes) const {
  if (bytes == 0)
    return okStatus();
  OPTRT_ASSIGN_OR_RETURN(
      std::span<const uint8_t> file,
      elf.atAddress("its table of relocations", table, bytes));
  for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= bytes;
       at += sizeof(Elf64_Rela)) {
    Elf64_Rela relocation;
    std::memcpy(&relocation, file.data() + at, sizeof(relocation));
    OPTRT_RETURN_IF_ERROR(checkRelocation(relocation));
  }
  return okStatus();
}

Status SharedObject::checkRelocation(const Elf64_Rela &relocation) const {
  const uint32_t type = ELF64_R_TYPE(relocation.r_info);
  if (type == kHost.resolver)
    return refuse("it has code that runs when it is loaded (an IFUNC "
                  "relocation)",
                  "runs nothing then");
  if (type != kHost.relative && type != kHost.address && type != kHost.global &&
      type != kHost.jump)
    return refuse(concat("it has a relocation of type ", type),
                  "has addresses of its own alone");
  const uint64_t offset = relocation.r_offset;
  const bool isWritable = std::any_of(
      elf.segments().begin(), elf.segments().end(),
      [&](const Elf64_Phdr &segment) {
        return segment.p_type == PT_LOAD && (segment.p_flags & PF_W) &&
               offset >= segment.p_vaddr &&
               segment.p_memsz >= sizeof(uint64_t) &&
               offset - segment.p_vaddr <= segment.p_memsz - sizeof(uint64_t);
      });
  if (!isWritable)
    return elf.refuse(concat("a relocation writes to address ", offset,
                             ", which is in none of its writable segments"));
  return type == kHost.relative ? okStatus()
                                : checkSymbol(ELF64_R_SYM(relocation.r_info));
}

Status SharedObject::checkSymbol(uint64_t index) const {
  // No table has 2^32 symbols: nothing overflows.
  OPTRT_ASSIGN_OR_RETURN(
      std::span<const uint8_t> bytes,
      elf.atAddress(concat("symbol ", index),
                    valueOf(DT_SYMTAB) + index * sizeof(Elf64_Sym),
                    sizeof(Elf64_Sym)));
  Elf64_Sym symbol;
  std::memcpy(&symbol, bytes.data(), sizeof(symbol));
  if (symbol.st_shndx == SHN_UNDEF)
    return refuse(concat("it imports the symbol ", nameAt(symbol.st_name)),
                  "imports none");
  if (ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC)
    return refuse(concat("it has code that runs when it is loaded (the IFUNC "
                         "symbol ",
                         nameAt(symbol.st_name), ")"),
                  "runs nothing then");
  return okStatus();
}

/// A name of the table of strings; its offset where there is none.
std::string SharedObject::nameAt(uint64_t offset) const {
  auto names = elf.atAddress("its table of names", valueOf(DT_STRTAB),
                             valueOf(DT_STRSZ));
  if (!names.ok() || offset >= names->size())
    return concat("with the name ", offset);
  const auto *begin = reinterpret_cast<const char *>(names->data()) + offset;
  return "'" + std::string(begin, strnlen(begin, names->size() - offset)) + "'";
}

} // namespace

Status checkSharedObject(const ElfFile &elf) {
  return SharedObject(elf).check();
}

} // namespace optrt
