//===- ElfFileTest.cpp - Whether a shared object is whole -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/ElfFile.h"

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

} // namespace
