//===- TokenFileTest.cpp - Files that tokens are read from ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DatasetFixture.h"

#include <algorithm>
#include <vector>

using namespace optrt;

namespace {

class TokenFileTest : public DatasetTest {};

} // namespace

TEST_F(TokenFileTest, ReadsSixteenBitTokensInLittleEndian) {
  constexpr int64_t s = 5, b = 2;
  auto dataset =
      Dataset::open(writeBinary(41), s, 50021, DataOrder::Sequential);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  std::vector<int32_t> tokens(b * s), targets(b * s);
  ASSERT_TRUE(
      (*dataset)->fillBatch(b, b, 0, b, tokens.data(), targets.data()).ok());
  for (int64_t i = 0; i < b * s; ++i) {
    EXPECT_EQ(tokens[i], wideTokenAt(2 * s + i));
    EXPECT_EQ(targets[i], wideTokenAt(2 * s + i + 1));
  }
}

TEST_F(TokenFileTest, BytesAboveAsciiAreNotNegative) {
  auto dataset = Dataset::open(write("high.txt", "\xff\x80\x7f"), 2, 256,
                               DataOrder::Sequential);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  std::vector<int32_t> tokens(2), targets(2);
  ASSERT_TRUE(
      (*dataset)->fillBatch(0, 1, 0, 1, tokens.data(), targets.data()).ok());
  EXPECT_EQ(tokens, (std::vector<int32_t>{255, 128}));
  EXPECT_EQ(targets, (std::vector<int32_t>{128, 127}));
}

TEST_F(TokenFileTest, NamesWhatIsWrongWithTheFile) {
  expectError(folder + "/none.txt", 4, 256, "No such file");
  std::filesystem::create_directory(folder + "/folder.txt");
  expectError(folder + "/folder.txt", 4, 256, "is a folder");
  expectError(write("data.csv", "a,b,c,d,e,f"), 4, 256, ".txt");
  expectError(write("odd.bin", "abcdefghijklm"), 4, 256, "13 bytes, an odd");
  expectError(write("empty.txt", ""), 4, 256, "has 0 tokens");
  expectError(write("short.txt", "abcd"), 4, 256,
              "has 4 tokens; one sequence of 4 and its last target need 5");
  expectError(write("short.bin", "abcdefgh"), 4, 65536,
              "has 4 tokens; one sequence of 4 and its last target need 5");
  expectError(write("short.txt", "abcd"), INT64_MAX, 256, "has 4 tokens");
}

TEST_F(TokenFileTest, NamesTheFirstTokenOutsideTheVocabulary) {
  std::string bytes(200000, 'a');
  bytes[150001] = 'c';
  bytes[150000] = 'b';
  std::string path = write("data.txt", bytes);
  EXPECT_TRUE(Dataset::open(path, 4, 'c' + 1).ok());
  expectError(path, 4, 'c', "token 99 at offset 150001 (byte 150001)");
  expectError(path, 4, 'b', "token 98 at offset 150000");
  expectError(path, 4, 'a', "token 97 at offset 0");
  // The last token is only a target, and is checked too.
  expectError(write("last.txt", "aaaab"), 4, 'b', "token 98 at offset 4");

  std::string wide("\x01\x00\x01\x01\x01\x00\x01\x00", 8);
  path = write("data.bin", wide);
  EXPECT_TRUE(Dataset::open(path, 2, 258).ok());
  expectError(path, 2, 257, "token 257 at offset 1 (byte 2)");
}

//===----------------------------------------------------------------------===//
// How files hold tokens
//===----------------------------------------------------------------------===//

namespace {

/// Little-endian words of `width` bytes.
std::string words(const std::vector<uint32_t> &values, int width) {
  std::string bytes;
  for (uint32_t value : values)
    for (int byte = 0; byte != width; ++byte)
      bytes += char(value >> (8 * byte));
  return bytes;
}

/// What llm.c's dev/data/data_common.py writes before the tokens.
std::string llmcHeader(uint32_t magic, uint32_t version, uint32_t tokens) {
  std::vector<uint32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = tokens;
  return words(header, 4);
}

const std::vector<uint32_t> kTokens = {70000, 2, 3, 100000, 5, 6, 70001, 8, 9};

std::vector<int32_t> readFirst(const Dataset &dataset) {
  std::vector<int32_t> tokens(4), targets(4);
  EXPECT_TRUE(
      dataset.fillBatch(0, 1, 0, 1, tokens.data(), targets.data()).ok());
  EXPECT_EQ(targets[0], tokens[1]);
  tokens.push_back(targets[3]);
  return tokens;
}

} // namespace

TEST_F(TokenFileTest, ReadsThirtyTwoBitTokensWhereSomebodySaysSo) {
  const std::vector<int32_t> first = {70000, 2, 3, 100000, 5};
  std::string path = write("stated.bin", words(kTokens, 4));
  auto stated = openBin(path, 100001, TokenType::U32);
  ASSERT_TRUE(stated.ok()) << stated.status().message();
  EXPECT_EQ(readFirst(**stated), first);
  EXPECT_EQ((*stated)->numTokens(), 9);
  EXPECT_EQ((*stated)->identity().type, TokenType::U32);

  write("noted.bin", words(kTokens, 4));
  write("noted.bin.json", R"({"token_type": "u32", "vocabulary": 100001,
                              "tokens": 9, "tokenizer": "of mine"})");
  auto noted = openBin(folder + "/noted.bin", 128256);
  ASSERT_TRUE(noted.ok()) << noted.status().message();
  EXPECT_EQ(readFirst(**noted), first);

  auto llama = openBin(
      write("llama.bin", llmcHeader(20240801, 7, 9) + words(kTokens, 4)),
      128256);
  ASSERT_TRUE(llama.ok()) << llama.status().message();
  EXPECT_EQ(readFirst(**llama), first);
  // The header is none of the data.
  EXPECT_EQ((*llama)->identity(), (*stated)->identity());

  std::vector<uint32_t> narrow = {7, 50256, 3, 4, 5, 6};
  auto gpt2 = openBin(
      write("gpt2.bin", llmcHeader(20240520, 1, 6) + words(narrow, 2)), 50257);
  ASSERT_TRUE(gpt2.ok()) << gpt2.status().message();
  EXPECT_EQ(readFirst(**gpt2), (std::vector<int32_t>{7, 50256, 3, 4, 5}));
  EXPECT_EQ((*gpt2)->numTokens(), 6);
}

TEST_F(TokenFileTest, RefusesAWidthThatIsWrongOrContradicted) {
  auto refuse = [&](const std::string &name, int64_t vocabulary,
                    std::optional<TokenType> type,
                    const std::vector<std::string> &parts) {
    auto dataset = openBin(folder + "/" + name, vocabulary, type);
    ASSERT_FALSE(dataset.ok()) << name;
    EXPECT_EQ(dataset.status().code(), StatusCode::InvalidArgument);
    for (const std::string &part : parts)
      EXPECT_NE(dataset.status().message().find(part), std::string::npos)
          << dataset.status().message() << "\nlacks " << part;
  };
  const auto u16 = TokenType::U16, u32 = TokenType::U32;
  write("wide.bin", words(kTokens, 4));
  // 16 bits cannot tell so many apart, whoever says that there are 16.
  refuse("wide.bin", 128256, std::nullopt,
         {"vocabulary has 128256", "(default)", "65536", "--token-type u32",
          "wide.bin.json"});
  refuse("wide.bin", 128256, u16, {"read as u16 (--token-type)"});
  refuse("wide.bin", 65537, std::nullopt, {"65537"});
  // What 32-bit tokens of a small vocabulary are as 16-bit ones.
  std::vector<uint32_t> small(40, 300);
  write("halves.bin", words(small, 4));
  refuse("halves.bin", 50257, std::nullopt,
         {"every second", "is 0", "--token-type u32 or --token-type u16"});
  EXPECT_TRUE(openBin(folder + "/halves.bin", 50257, u16).ok());
  EXPECT_TRUE(openBin(folder + "/halves.bin", 50257, u32).ok());
  EXPECT_TRUE(openBin(write("zeros.bin", std::string(200, 0)), 257).ok());
  // The first token beyond the vocabulary, and why.
  write("narrow.bin", words({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 2));
  refuse("narrow.bin", 50257, u32,
         {"token 131073 at offset 0 (byte 0)", "read as u32 (--token-type)",
          "--token-type u16"});
  write("headed.bin",
        llmcHeader(20240520, 1, 6) + words({1, 2, 3, 400, 5, 6}, 2));
  refuse("headed.bin", 300, std::nullopt,
         {"token 400 at offset 3 (byte 1030)", "(llm.c's header)"});
  // Statements that disagree.
  refuse("headed.bin", 500, u32,
         {"u16 by llm.c's header", "u32 by --token-type"});
  write("narrow.bin.json", R"({"token_type": "u16"})");
  refuse("narrow.bin", 500, u32, {"narrow.bin.json", "u32 by --token-type"});
  write("narrow.bin.json", R"({"token_type": "u16", "tokens": 11})");
  refuse("narrow.bin", 500, std::nullopt, {"has 10 tokens", "says 11"});
  write("narrow.bin.json", R"({"token_type": "u16", "vocabulary": 50257})");
  refuse("narrow.bin", 500, std::nullopt, {"50257", "the model's has 500"});
  // A small vocabulary in a larger model, on purpose.
  EXPECT_TRUE(openBin(folder + "/narrow.bin", 128256).ok());
  for (auto [note, part] :
       {std::pair(R"({"token_type": "i16"})", "found \"i16\""),
        {R"({"vocabulary": 7})", "token_type"},
        {R"({"token_type": "u16", "vocabulary": 65537})", "vocabulary"},
        {R"({"token_type": "u16")", "narrow.bin.json"},
        {"[]", "narrow.bin.json"}}) {
    write("narrow.bin.json", note);
    refuse("narrow.bin", 500, std::nullopt, {part});
  }
  // Headers with false contents.
  write("cut.bin", llmcHeader(20240520, 1, 6) + words({1, 2, 3, 4, 5}, 2));
  refuse("cut.bin", 500, std::nullopt, {"1036", "but the file has 1034"});
  write("new.bin", llmcHeader(20240801, 8, 1) + words({1}, 4));
  refuse("new.bin", 500, std::nullopt, {"its version is 8, expected 7"});
  write("text.txt", llmcHeader(20240520, 1, 6) + words({1, 2, 3, 4, 5, 6}, 2));
  refuse("text.txt", 500, std::nullopt, {"name it .bin"});
  write("six.bin", "abcdef");
  refuse("six.bin", 500, u32, {"6 bytes, no multiple of 4"});
}

TEST_F(TokenFileTest, NamesFilesOfOtherFormats) {
  using namespace std::string_literals;
  const std::string rest(400, 'x');
  std::string tar(512, 'x');
  tar.replace(257, 5, "ustar");
  for (auto &[bytes, name] : std::vector<std::pair<std::string, std::string>>{
           {"\x1f\x8b\x08\0"s, "gzip"},
           {"PK\x03\x04"s, "zip archive (NumPy's .npz"},
           {"\x93NUMPY"s, ".npy"},
           {"ARROW1\0\0"s, "Arrow file"},
           {"\xff\xff\xff\xff\x70\0\0\0\x10\0\0\0"s, "Arrow stream"},
           {"\x7f"
            "ELF"s,
            "ELF"},
           {"\x28\xb5\x2f\xfd"s, "zstd"},
           {"\xfd"
            "7zXZ\0"s,
            "xz"},
           {"BZh91AY&SY"s, "bzip2"},
           {"\x04\x22\x4d\x18"s, "lz4"},
           {"\x89HDF\r\n\x1a\n"s, "HDF5"},
           {"GGUF\x03\0\0\0"s, "GGUF"},
           {"MMIDIDX\0\0"s, "Megatron"},
           {"\x20\0\0\0\0\0\0\0{\"a\""s, "safetensors"},
           {"\x80\x04\x95"s, "pickle"},
           {tar, "tar"},
           {llmcHeader(20240522, 1, 4), "multiple-choice examples of llm.c's"},
           {llmcHeader(20240326, 3, 4), "a model of llm.c's"}}) {
    for (const char *file : {"other.bin", "other.txt"})
      expectError(write(file, bytes + rest), 4, 257, name);
  }
  expectError(write("other.bin", "PAR1" + rest + "PAR1"), 4, 50257, "Parquet");
  // A text may begin with such letters, and whoever writes a note has looked.
  EXPECT_TRUE(Dataset::open(write("p.txt", "PAR1 is a magic"), 4, 256).ok());
  EXPECT_TRUE(Dataset::open(write("g.txt", "GGUF is a magic"), 4, 256).ok());
  EXPECT_TRUE(Dataset::open(write("b.txt", "BZh and more text"), 4, 256).ok());
  write("note.bin", "PK\x03\x04" + rest);
  write("note.bin.json", R"({"token_type": "u16"})");
  EXPECT_TRUE(Dataset::open(folder + "/note.bin", 4, 65536).ok());
}

//===----------------------------------------------------------------------===//
// Which tokens they are
//===----------------------------------------------------------------------===//

TEST_F(TokenFileTest, AFileThatShrinksOrChangesIsAFailureAndNoCrash) {
  constexpr int64_t s = 4;
  std::string path = writeText(100'000);
  auto dataset = Dataset::open(path, s, 101, DataOrder::Sequential);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  auto windowFrom = [&](int64_t window) {
    int32_t tokens[s], targets[s];
    return (*dataset)->fillBatch(window, 1, 0, 1, tokens, targets);
  };
  ASSERT_TRUE(windowFrom(24'000).ok());
  EXPECT_FALSE((*dataset)->wasWrittenTo());

  // Grown: what was there is there.
  std::ofstream(path, std::ios::app) << "abc";
  EXPECT_TRUE((*dataset)->wasWrittenTo());
  EXPECT_TRUE(windowFrom(24'000).ok());

  std::filesystem::resize_file(path, 5'000);
  EXPECT_TRUE(windowFrom(1'000).ok());
  Status status = windowFrom(24'000);
  EXPECT_EQ(status.code(), StatusCode::DataLoss);
  EXPECT_NE(status.message().find(path + " changed while it was read"),
            std::string::npos)
      << status.message();

  // A token that no table has a row for.
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << "\x70";
  status = windowFrom(0);
  EXPECT_EQ(status.code(), StatusCode::DataLoss);
  EXPECT_NE(status.message().find("it has token 112 now"), std::string::npos)
      << status.message();
  EXPECT_TRUE(windowFrom(1).ok());
}
