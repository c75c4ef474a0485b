//===- SharedObjectTest.cpp - What loading a shared object does -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "model/SharedObject.h"

#include "model/ElfFile.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <unistd.h>
#include <vector>

using namespace optrt;
using testing::HasSubstr;

namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
constexpr uint32_t kRelative = R_X86_64_RELATIVE, kJump = R_X86_64_JUMP_SLOT,
                   kResolver = R_X86_64_IRELATIVE, kThread = R_X86_64_TPOFF64;
#else
constexpr uint16_t kMachine = EM_AARCH64;
constexpr uint32_t kRelative = R_AARCH64_RELATIVE, kJump = R_AARCH64_JUMP_SLOT,
                   kResolver = R_AARCH64_IRELATIVE,
                   kThread = R_AARCH64_TLS_TPREL;
#endif

/// A library written here: a segment for reading, with the headers and the
/// loader's tables, and one for writing, with the dynamic section. As it is it
/// keeps every promise; each test breaks one.
class SharedObjectTest : public testing::Test {
protected:
  static uint64_t page() { return uint64_t(sysconf(_SC_PAGESIZE)); }
  /// Where the loader puts what relocations write.
  static uint64_t data() { return page() + 2048; }

  void add(uint64_t tag, uint64_t value) {
    Elf64_Dyn entry{};
    entry.d_tag = int64_t(tag);
    entry.d_un.d_val = value;
    tags.push_back(entry);
  }
  void relocate(uint32_t type, uint64_t symbol = 0) {
    relocations.push_back({.r_offset = data(),
                           .r_info = ELF64_R_INFO(symbol, type),
                           .r_addend = 0});
  }
  /// The index of a new symbol.
  uint64_t addSymbol(unsigned char type, uint16_t section) {
    Elf64_Sym symbol{};
    symbol.st_name = uint32_t(names.find("a_name"));
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, type);
    symbol.st_shndx = section;
    symbols.push_back(symbol);
    return symbols.size() - 1;
  }

  std::vector<uint8_t> write() const {
    std::vector<uint8_t> file(page() + 4096);
    auto put = [&](uint64_t at, const void *from, std::size_t bytes) {
      // There may be no relocation.
      std::copy_n(static_cast<const uint8_t *>(from), bytes, file.data() + at);
      return at;
    };
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_DYN;
    header.e_machine = machine;
    header.e_phoff = sizeof(header);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = uint16_t(segments.size());
    put(0, &header, sizeof(header));
    put(sizeof(header), segments.data(), segments.size() * sizeof(Elf64_Phdr));

    std::vector<Elf64_Dyn> all = tags;
    auto table = [&](uint64_t tag, uint64_t value) {
      Elf64_Dyn entry{};
      entry.d_tag = int64_t(tag);
      entry.d_un.d_val = value;
      all.push_back(entry);
    };
    table(DT_STRTAB, put(1024, names.data(), names.size()));
    table(DT_STRSZ, names.size());
    table(DT_SYMTAB,
          put(1536, symbols.data(), symbols.size() * sizeof(Elf64_Sym)));
    table(DT_RELA, put(2048, relocations.data(),
                       relocations.size() * sizeof(Elf64_Rela)));
    table(DT_RELASZ, relocations.size() * sizeof(Elf64_Rela));
    table(DT_RELAENT, sizeof(Elf64_Rela));
    table(DT_NULL, 0);
    put(page(), all.data(), all.size() * sizeof(Elf64_Dyn));
    return file;
  }

  Status check() const {
    const std::vector<uint8_t> file = write();
    OPTRT_ASSIGN_OR_RETURN(ElfFile elf, ElfFile::parse(file, "x.so"));
    return checkSharedObject(elf);
  }
  void expect(const char *message) const {
    const Status status = check();
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("`x.so`"));
    EXPECT_THAT(status.message(), HasSubstr(message));
  }

  uint16_t machine = kMachine;
  std::string names = std::string("\0a_name\0", 8);
  std::vector<Elf64_Sym> symbols{Elf64_Sym{}};
  std::vector<Elf64_Rela> relocations;
  std::vector<Elf64_Dyn> tags;
  std::vector<Elf64_Phdr> segments{{.p_type = PT_LOAD,
                                    .p_flags = PF_R,
                                    .p_offset = 0,
                                    .p_vaddr = 0,
                                    .p_paddr = 0,
                                    .p_filesz = 4096,
                                    .p_memsz = 4096,
                                    .p_align = page()},
                                   {.p_type = PT_LOAD,
                                    .p_flags = PF_R | PF_W,
                                    .p_offset = page(),
                                    .p_vaddr = page(),
                                    .p_paddr = 0,
                                    .p_filesz = 4096,
                                    .p_memsz = 4096,
                                    .p_align = page()},
                                   {.p_type = PT_DYNAMIC,
                                    .p_flags = PF_R | PF_W,
                                    .p_offset = page(),
                                    .p_vaddr = page(),
                                    .p_paddr = 0,
                                    .p_filesz = 2048,
                                    .p_memsz = 2048,
                                    .p_align = 8},
                                   {.p_type = PT_GNU_STACK,
                                    .p_flags = PF_R | PF_W,
                                    .p_offset = 0,
                                    .p_vaddr = 0,
                                    .p_paddr = 0,
                                    .p_filesz = 0,
                                    .p_memsz = 0,
                                    .p_align = 16}};
};

TEST_F(SharedObjectTest, AcceptsWhatKeepsEveryPromise) {
  relocate(kRelative);
  relocate(kJump, addSymbol(STT_FUNC, 1));
  Status status = check();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(SharedObjectTest, AcceptsALinkersLibrary) {
  std::ifstream in(OPTIMUS_TOY, std::ios::binary);
  const std::vector<uint8_t> toy(std::istreambuf_iterator<char>(in), {});
  auto elf = ElfFile::parse(toy, "toy");
  ASSERT_TRUE(elf.ok()) << elf.status().message();
  Status status = checkSharedObject(*elf);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(SharedObjectTest, RefusesOtherProcessors) {
  machine = EM_SPARC;
  expect("another kind of processor");
}

TEST_F(SharedObjectTest, RefusesOtherLibraries) {
  add(DT_NEEDED, names.find("a_name"));
  expect("it needs the library 'a_name' (DT_NEEDED)");
  tags.clear();
  // These make the loader open one, too.
  for (uint64_t tag : {DT_AUXILIARY, DT_FILTER, 0x6ffffefb, 0x6ffffefc}) {
    add(tag, names.find("a_name"));
    expect("asks the loader for nothing");
    tags.clear();
  }
}

TEST_F(SharedObjectTest, RefusesNamesBehindTheTable) {
  add(DT_NEEDED, UINT64_MAX - 1);
  expect("DT_NEEDED");
}

TEST_F(SharedObjectTest, RefusesInitialisers) {
  add(DT_INIT, 64);
  expect("runs when it is loaded or unloaded (DT_INIT)");
}

TEST_F(SharedObjectTest, RefusesConstructors) {
  add(DT_INIT_ARRAY, data());
  add(DT_INIT_ARRAYSZ, 8);
  expect("(DT_INIT_ARRAY)");
}

TEST_F(SharedObjectTest, RefusesEarlyConstructors) {
  add(DT_PREINIT_ARRAYSZ, 8);
  add(DT_PREINIT_ARRAY, data());
  expect("(DT_PREINIT_ARRAY)");
}

TEST_F(SharedObjectTest, RefusesFinalisers) {
  add(DT_FINI, 64);
  expect("(DT_FINI)");
  tags.clear();
  add(DT_FINI_ARRAY, data());
  expect("(DT_FINI_ARRAY)");
}

TEST_F(SharedObjectTest, RefusesResolvers) {
  relocate(kResolver);
  expect("an IFUNC relocation");
  relocations.clear();
  relocate(kJump, addSymbol(STT_GNU_IFUNC, 1));
  expect("the IFUNC symbol 'a_name'");
}

TEST_F(SharedObjectTest, RefusesImports) {
  relocate(kJump, addSymbol(STT_FUNC, SHN_UNDEF));
  expect("it imports the symbol 'a_name'");
  // Weak ones, too: another library may have them.
  symbols.back().st_info = ELF64_ST_INFO(STB_WEAK, STT_NOTYPE);
  expect("it imports the symbol 'a_name'");
}

TEST_F(SharedObjectTest, RefusesSymbolsThatAreNotThere) {
  relocate(kJump, 0xFFFFFFFF);
  expect("symbol 4294967295");
}

TEST_F(SharedObjectTest, RefusesOtherRelocations) {
  relocate(kThread);
  expect("it has a relocation of type ");
}

TEST_F(SharedObjectTest, RefusesRelocationsElsewhere) {
  relocate(kRelative);
  for (uint64_t at : {uint64_t(0), page() + 4096 - 7, UINT64_MAX - 3}) {
    relocations.back().r_offset = at;
    expect("in none of its writable segments");
  }
}

TEST_F(SharedObjectTest, RefusesTablesElsewhere) {
  add(DT_JMPREL, 2 * page());
  add(DT_PLTRELSZ, 24);
  add(DT_PLTREL, DT_RELA);
  expect("its table of relocations has 24 bytes at address");
}

TEST_F(SharedObjectTest, RefusesRelocationsOfCode) {
  add(DT_TEXTREL, 0);
  expect("it has DT_TEXTREL");
  tags.clear();
  add(DT_FLAGS, DF_TEXTREL);
  expect("its DT_FLAGS are 4");
  tags.clear();
  segments[1].p_flags |= PF_X;
  expect("written and executed");
}

TEST_F(SharedObjectTest, RefusesToStayWhenItIsClosed) {
  add(DT_FLAGS_1, DF_1_NODELETE);
  expect("its DT_FLAGS_1 are 8");
}

TEST_F(SharedObjectTest, RefusesStacksThatAreExecutable) {
  segments[3].p_flags |= PF_X;
  expect("a stack that is executable");
  segments.pop_back();
  expect("it does not say that its stack is not executable");
}

// A page has one of the two segments' contents: what was checked, or not.
TEST_F(SharedObjectTest, RefusesSegmentsThatOverlap) {
  segments[0].p_memsz = page() + 1;
  expect("its segments overlap");
}

TEST_F(SharedObjectTest, RefusesTwoDynamicSections) {
  segments.push_back(segments[2]);
  expect("two dynamic sections");
}

TEST_F(SharedObjectTest, RefusesADynamicSectionWithoutEnd) {
  segments[2].p_filesz = sizeof(Elf64_Dyn);
  expect("its dynamic section has no end");
  segments.erase(segments.begin() + 2);
  expect("it has no dynamic section");
}

// Whatever the loader's tables say, nothing outside the file is read, as
// AddressSanitizer watches, and every refusal has a message.
TEST_F(SharedObjectTest, SurvivesEveryWrongByte) {
  relocate(kRelative);
  relocate(kJump, addSymbol(STT_FUNC, 1));
  std::vector<uint8_t> file = write();
  int refused = 0;
  for (std::size_t at = 0; at != file.size(); ++at) {
    const uint8_t before = file[at];
    for (int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
      file[at] = uint8_t(value);
      auto elf = ElfFile::parse(file, "x.so");
      Status status = elf.ok() ? checkSharedObject(*elf) : elf.status();
      if (status.ok())
        continue;
      ++refused;
      ASSERT_THAT(status.message(), HasSubstr("`x.so`")) << at;
    }
    file[at] = before;
  }
  EXPECT_GT(refused, 500);
}

} // namespace
