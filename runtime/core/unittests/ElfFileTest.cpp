//===- ElfFileTest.cpp - Whether a shared object is whole -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/ElfFile.h"

#include <cstdio>
#include <elf.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <unistd.h>
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
  Status check() { return checkSharedObject(bytes, "x.so"); }
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
  EXPECT_TRUE(checkSharedObject(OPTIMUS_TOY).ok());
}

// The linker writes the sections' table last, so every length but the whole is
// too short; thirteen has no common divisor with the tables' entries.
TEST_F(ElfFileTest, RefusesShorterLengths) {
  std::span<const uint8_t> whole = bytes;
  ASSERT_FALSE(checkSharedObject(whole.first(whole.size() - 1), "x.so").ok());
  for (std::size_t length = 0; length < whole.size(); length += 13)
    ASSERT_FALSE(checkSharedObject(whole.first(length), "x.so").ok())
        << length << " of " << whole.size();
  bytes.resize(bytes.size() / 2);
  expect("it is cut short");
}

TEST_F(ElfFileTest, RefusesOtherFiles) {
  header().e_machine = EM_SPARC;
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
  void TearDown() override { std::remove(path.c_str()); }
  StatusOr<std::string> section(const std::string &name,
                                uint64_t most = 1 << 20) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    return readSection(path, name, most);
  }
  void expectNone(const char *message, uint64_t most = 1 << 20) {
    auto found = section(".optimus.programs", most);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.status().code(), StatusCode::InvalidArgument);
    EXPECT_THAT(found.status().message(), HasSubstr("`" + path + "`"));
    EXPECT_THAT(found.status().message(), HasSubstr(message));
  }

  const std::string path =
      testing::TempDir() + "optimus-section-" + std::to_string(getpid());
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
