//===- ElfFileTest.cpp - Whether a shared object is whole -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "model/ElfFile.h"

#include <elf.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <vector>

using namespace optrt;
using testing::HasSubstr;

namespace {

/// A hand-written library, see tools/optimus-run/unittests.
class ElfFileTest : public testing::Test {
protected:
  void SetUp() override {
    std::ifstream in(OPTIMUS_TOY, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
    ASSERT_GT(bytes.size(), sizeof(Elf64_Ehdr));
  }
  static Status check(std::span<const uint8_t> file) {
    return ElfFile::parse(file, "x.so").status();
  }
  Status check() { return check(bytes); }
  Elf64_Ehdr &header() { return *reinterpret_cast<Elf64_Ehdr *>(bytes.data()); }
  void expect(const char *message) {
    Status status = check();
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("`x.so`"));
    EXPECT_THAT(status.message(), HasSubstr(message));
  }

  std::vector<uint8_t> bytes;
};

TEST_F(ElfFileTest, AcceptsAWholeLibrary) {
  EXPECT_TRUE(check().ok()) << check().message();
}

// The linker writes the sections' table last, so every length but the whole is
// too short; thirteen has no common divisor with the tables' entries.
TEST_F(ElfFileTest, RefusesShorterLengths) {
  std::span<const uint8_t> whole = bytes;
  ASSERT_FALSE(check(whole.first(whole.size() - 1)).ok());
  for (std::size_t length = 0; length < whole.size(); length += 13)
    ASSERT_FALSE(check(whole.first(length)).ok())
        << length << " of " << whole.size();
  bytes.resize(bytes.size() / 2);
  expect("it is cut short");
}

// Whoever only reads a file need not be of its kind.
TEST_F(ElfFileTest, AcceptsOtherProcessors) {
  header().e_machine = EM_RISCV;
  auto file = ElfFile::parse(bytes, "x.so");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->machine(), EM_RISCV);
}

TEST_F(ElfFileTest, RefusesOtherFiles) {
  header().e_ident[EI_DATA] = ELFDATA2MSB;
  expect("another kind of processor");
  header().e_ident[EI_DATA] = ELFDATA2LSB;
  header().e_ident[EI_CLASS] = ELFCLASS32;
  expect("another kind of processor");
}

TEST_F(ElfFileTest, RefusesPrograms) {
  header().e_type = ET_EXEC;
  expect("no shared object");
}

TEST_F(ElfFileTest, RefusesText) {
  bytes.assign({'t', 'e', 'x', 't', '\n'});
  expect("no ELF header");
}

// Offsets that overflow 64 bits must not pass for small ones.
TEST_F(ElfFileTest, RefusesHugeOffsets) {
  header().e_shoff = UINT64_MAX - 8;
  expect("the table of sections");
}

TEST_F(ElfFileTest, RefusesHugeSegments) {
  auto *segment =
      reinterpret_cast<Elf64_Phdr *>(bytes.data() + header().e_phoff);
  segment->p_offset = 4096;
  segment->p_filesz = UINT64_MAX - 64;
  expect("segment 0");
}

TEST_F(ElfFileTest, RefusesHeadersOfAnotherSize) {
  header().e_phentsize = 7;
  expect("segment headers have 7 bytes");
}

/// Sections of a file that is made of `bytes`.
class SectionTest : public ElfFileTest {
protected:
  StatusOr<std::string_view> section(const std::string &name,
                                     uint64_t most = 1 << 20) {
    OPTRT_ASSIGN_OR_RETURN(ElfFile file, ElfFile::parse(bytes, "x.so"));
    return file.readSection(name, most);
  }
  void expectNone(const char *message, uint64_t most = 1 << 20) {
    auto found = section(".optimus.programs", most);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.status().code(), StatusCode::InvalidArgument);
    EXPECT_THAT(found.status().message(), HasSubstr("`x.so`"));
    EXPECT_THAT(found.status().message(), HasSubstr(message));
  }
};

TEST_F(SectionTest, AreReadByTheirNames) {
  auto manifest = section(".optimus.manifest");
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_THAT(*manifest, testing::StartsWith("{\"format\":"));
  EXPECT_EQ(manifest->back(), '}');
  auto programs = section(".optimus.programs");
  ASSERT_TRUE(programs.ok()) << programs.status().message();
  EXPECT_EQ(programs->substr(4, 4), "OPTP");
  EXPECT_FALSE(section(".optimus.manifes").ok());
  EXPECT_FALSE(section("optimus.manifest").ok());
}

TEST_F(SectionTest, ThatAreTooLongAreRefused) {
  uint64_t size = section(".optimus.programs")->size();
  EXPECT_TRUE(section(".optimus.programs", size).ok());
  expectNone("its section .optimus.programs has ", size - 1);
}

TEST_F(SectionTest, HaveNoNamesWithoutATableOfThem) {
  header().e_shstrndx = 0;
  expectNone("it has no section .optimus.programs");
  header().e_shstrndx = UINT16_MAX;
  expectNone("it has no section .optimus.programs");
  header().e_shnum = 0;
  expectNone("it has no section .optimus.programs");
}

TEST_F(SectionTest, NamesDoNotLeaveTheirTable) {
  auto *sections =
      reinterpret_cast<Elf64_Shdr *>(bytes.data() + header().e_shoff);
  for (int i = 0; i != header().e_shnum; ++i)
    sections[i].sh_name = UINT32_MAX - i;
  expectNone("it has no section .optimus.programs");
}

TEST_F(SectionTest, OfHalfAFileAreRefused) {
  bytes.resize(bytes.size() / 2);
  expectNone("it is cut short");
}

} // namespace
