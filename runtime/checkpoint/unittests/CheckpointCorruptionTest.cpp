//===- CheckpointCorruptionTest.cpp - Files that are damaged --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointFixture.h"

#include "../Safetensors.h"
#include "optimus-support/Hash.h"

#include <nlohmann/json.hpp>

#include <cstring>

using namespace optrt;
using namespace optimus_support;
using nlohmann::json;

namespace {
class Corruption : public CheckpointTest {
protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    CheckpointWriterOptions options;
    options.shardLimitBytes = 400; // so that there is an index to damage
    options.pieceBytes = 128;      // and more than one piece of a file
    ASSERT_TRUE(save(dir, 4, options).ok());
  }

  void expectDamage(const std::string &message,
                    CheckpointReaderOptions options = {}) {
    auto checkpoint = Checkpoint::open(dir, options);
    ASSERT_FALSE(checkpoint.ok());
    EXPECT_EQ(checkpoint.status().code(), StatusCode::DataLoss);
    EXPECT_NE(checkpoint.status().message().find(message), std::string::npos)
        << checkpoint.status().message();
  }

  /// Opens it and reads all of it, or passes over that.
  Status
  read(CheckpointReaderOptions options = {},
       Status (PieceReader::*next)(std::span<float>) = &PieceReader::read) {
    OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                           Checkpoint::open(dir, options));
    std::vector<float> elements;
    for (size_t i = 0; i != checkpoint->pieces().size(); ++i) {
      PieceReader piece(*checkpoint, i);
      // Not all at once.
      while (piece.numLeft() > 0) {
        elements.resize(std::min<size_t>(piece.numLeft(), 40));
        OPTRT_RETURN_IF_ERROR((piece.*next)(elements));
      }
    }
    return okStatus();
  }
  void expectDamageOnReading(const std::string &message) {
    EXPECT_TRUE(Checkpoint::open(dir).ok());
    Status status = read();
    EXPECT_EQ(status.code(), StatusCode::DataLoss);
    EXPECT_NE(status.message().find(message), std::string::npos)
        << status.message();
  }

  /// Makes state.json agree with the files again, so that their fault is found
  /// by its meaning and not by the checksum.
  void restate() {
    json state = json::parse(readFile(dir + "/state.json"));
    for (auto &[name, record] : state["files"].items()) {
      std::string bytes = readFile(dir + "/" + name);
      record["size"] = bytes.size();
      if (!record.contains("pieces")) {
        record["xxh64"] = hashToHex(hash64(bytes));
        continue;
      }
      uint64_t length;
      std::memcpy(&length, bytes.data(), sizeof(length));
      const size_t dataBegin = sizeof(length) + length;
      record["header"] = {
          {"size", dataBegin},
          {"xxh64", hashToHex(hash64(bytes.substr(0, dataBegin)))}};
      const size_t pieceBytes = record["pieces"]["size"];
      std::string hashes;
      for (size_t begin = dataBegin, end; begin < bytes.size(); begin = end) {
        end = std::min(begin / pieceBytes * pieceBytes + pieceBytes,
                       bytes.size());
        hashes += hashToHex(hash64(bytes.substr(begin, end - begin)));
      }
      record["pieces"]["xxh64"] = hashes;
    }
    restate(state);
  }
  /// Makes it one of an earlier version, with a checksum of each file.
  void restateWithoutPieces() {
    json state = json::parse(readFile(dir + "/state.json"));
    state["format"] = 1;
    for (auto &[name, record] : state["files"].items()) {
      std::string bytes = readFile(dir + "/" + name);
      record = {{"size", bytes.size()}, {"xxh64", hashToHex(hash64(bytes))}};
    }
    restate(state);
  }
  void restate(json state) {
    state.erase("xxh64");
    state["xxh64"] = hashToHex(hash64(state.dump()));
    writeFile(dir + "/state.json", state.dump());
  }
};
} // namespace

TEST_F(Corruption, AnyFlippedBitOfATensorFileIsFound) {
  for (const char *name :
       {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
        "model.safetensors.index.json", "optimizer.safetensors"}) {
    std::string path = dir + "/" + name;
    std::string bytes = readFile(path);
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::string damaged = bytes;
      damaged[i] ^= 1 << (i % 8);
      writeFile(path, damaged);
      Status status = read();
      ASSERT_FALSE(status.ok()) << name << " byte " << i;
      ASSERT_EQ(status.code(), StatusCode::DataLoss);
      ASSERT_NE(status.message().find(name), std::string::npos);
    }
    writeFile(path, bytes);
  }
  EXPECT_TRUE(read().ok());
}

TEST_F(Corruption, DamageIsNamedByItsPiece) {
  std::string path = dir + "/optimizer.safetensors";
  std::string bytes = readFile(path);
  bytes[bytes.size() - 1] ^= 1;
  writeFile(path, bytes);
  const size_t begin = (bytes.size() - 1) / 128 * 128;
  expectDamageOnReading(
      concat(" from byte ", begin, " to ", bytes.size(), ", state.json says "));
  // Only whoever reads that piece finds it.
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_TRUE((*checkpoint)->readTensor("wte.weight").ok());
  EXPECT_TRUE((*checkpoint)->readTensor("exp_avg.wte.weight").ok());
  EXPECT_EQ((*checkpoint)->readTensor("exp_avg_sq.ln_f.bias").status().code(),
            StatusCode::DataLoss);
}

// A header is verified before it is read.
TEST_F(Corruption, ADamagedHeaderIsNoOtherMistake) {
  std::string path = dir + "/optimizer.safetensors";
  std::string bytes = readFile(path);
  bytes[8] = 'x';
  writeFile(path, bytes);
  expectDamage("optimizer.safetensors is damaged: its checksum is ");
}

TEST_F(Corruption, FoldersOfEarlierVersionsAreVerifiedWhole) {
  restateWithoutPieces();
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  expectWhole(**checkpoint);
  ASSERT_TRUE(read().ok());
  std::string path = dir + "/optimizer.safetensors";
  const std::string bytes = readFile(path);
  for (size_t i = 0; i < bytes.size(); i += 7) {
    std::string damaged = bytes;
    damaged[i] ^= 1;
    writeFile(path, damaged);
    expectDamage("optimizer.safetensors is damaged: its checksum is ");
  }
}

TEST_F(Corruption, AnyFlippedBitOfTheStateIsFoundOrWithoutMeaning) {
  std::string path = dir + "/state.json";
  std::string bytes = readFile(path);
  int harmless = 0;
  // Two bits of every byte: each flip opens the whole checkpoint.
  for (size_t i = 0; i < bytes.size(); ++i)
    for (size_t bit : {i % 8, (i + 3) % 8}) {
      std::string damaged = bytes;
      damaged[i] ^= 1 << bit;
      writeFile(path, damaged);
      auto checkpoint = Checkpoint::open(dir);
      if (!checkpoint.ok())
        continue;
      // White space that became other white space, or an exponent's e an E.
      ++harmless;
      ASSERT_TRUE(isspace(bytes[i]) ||
                  (bytes[i] == 'e' && i > 0 && isdigit(bytes[i - 1])))
          << "byte " << i << " bit " << bit;
      expectWhole(**checkpoint);
    }
  EXPECT_LT(harmless, int(bytes.size()));
}

TEST_F(Corruption, TruncatedAndLengthenedFilesAreFound) {
  for (const std::string &name : list(dir)) {
    std::string path = dir + "/" + name;
    std::string bytes = readFile(path);
    for (size_t size : {size_t(0), size_t(1), size_t(7), size_t(8), size_t(9),
                        bytes.size() / 2, bytes.size() - 2}) {
      writeFile(path, bytes.substr(0, size));
      expectDamage(name);
    }
    if (name != "state.json") {
      writeFile(path, bytes + " ");
      expectDamage("bytes, state.json says");
    }
    writeFile(path, bytes);
  }
}

TEST_F(Corruption, MissingFilesAreFound) {
  for (const std::string &name : list(dir)) {
    if (name == "state.json")
      continue;
    std::filesystem::rename(dir + "/" + name, root + "/away");
    expectDamage("cannot open " + dir + "/" + name);
    std::filesystem::create_directory(dir + "/" + name);
    expectDamage("is a folder");
    std::filesystem::remove(dir + "/" + name);
    std::filesystem::rename(root + "/away", dir + "/" + name);
  }
}

// As one in a folder that others may not enter: not known to be none.
TEST_F(Corruption, AStateThatCannotBeReachedIsNoOtherFolder) {
  std::filesystem::remove(dir + "/state.json");
  std::filesystem::create_symlink("state.json", dir + "/state.json");
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_EQ(checkpoint.status().message(),
            "cannot read the checkpoint " + dir +
                ": Too many levels of symbolic links");
}

TEST_F(Corruption, WhatIsPassedOverIsReadForItsChecksumAlone) {
  std::string path = dir + "/optimizer.safetensors";
  std::string bytes = readFile(path);
  bytes.back() ^= 1;
  writeFile(path, bytes);
  EXPECT_EQ(read({}, &PieceReader::skip).code(), StatusCode::DataLoss);
  // An end that is gone is noticed where the file is read.
  CheckpointReaderOptions options;
  options.verifyChecksums = false;
  auto checkpoint = Checkpoint::open(dir, options);
  ASSERT_TRUE(checkpoint.ok());
  std::filesystem::resize_file(path, bytes.size() - 4);
  PieceReader passed(**checkpoint, (*checkpoint)->pieces().size() - 1),
      whole(**checkpoint, (*checkpoint)->pieces().size() - 1);
  std::vector<float> elements(passed.numLeft());
  EXPECT_TRUE(passed.skip(elements).ok());
  EXPECT_EQ(passed.numLeft(), 0u);
  EXPECT_EQ(whole.read(elements).code(), StatusCode::DataLoss);
}

TEST_F(Corruption, ChecksumsAreOptionalButSizesAreNot) {
  std::string path = dir + "/optimizer.safetensors";
  std::string bytes = readFile(path);
  bytes.back() ^= 1;
  writeFile(path, bytes);
  expectDamageOnReading("its checksum is");
  CheckpointReaderOptions options;
  options.verifyChecksums = false;
  EXPECT_TRUE(read(options).ok());
  bytes.pop_back();
  writeFile(path, bytes);
  expectDamage("bytes, state.json says", options);
}

TEST_F(Corruption, StateThatLiesIsFound) {
  const json good = json::parse(readFile(dir + "/state.json"));
  auto expectLie = [&](const char *pointer, json value,
                       const std::string &message) {
    json state = good;
    state[json::json_pointer(pointer)] = value;
    restate(state);
    expectDamage(message);
  };
  expectLie("/step", -1, "step: expected an integer from 0");
  expectLie("/seed", "1", "seed: expected a non-negative integer");
  expectLie("/files", 3, "files: expected an object");
  expectLie("/files", json::object(), "lists no file with parameters");
  expectLie("/files/..~1..~1secret", good["files"]["optimizer.safetensors"],
            "no file of this name");
  expectLie("/files/state.json", good["files"]["optimizer.safetensors"],
            "no file of this name");
  expectLie("/files/model.safetensors.index.json/xxh64", "abc",
            "expected 16 hexadecimal digits");
  const std::string file = "/files/optimizer.safetensors";
  const std::string header = file + "/header", pieces = file + "/pieces";
  expectLie((header + "/xxh64").c_str(), "abc",
            "expected 16 hexadecimal digits");
  expectLie((header + "/size").c_str(), 1 << 20, "expected an integer from 0");
  expectLie((header + "/size").c_str(), 8, "expected 16 hexadecimal digits");
  expectLie((pieces + "/size").c_str(), 0, "expected an integer from 1");
  expectLie((pieces + "/size").c_str(), 6, "expected a multiple of four");
  expectLie((pieces + "/size").c_str(), 4096,
            "expected 16 hexadecimal digits for each of 1 pieces");
  std::string hashes =
      good["files"]["optimizer.safetensors"]["pieces"]["xxh64"];
  expectLie((pieces + "/xxh64").c_str(), hashes.substr(1),
            "expected 16 hexadecimal digits for each of");
  hashes[3] = 'x';
  expectLie((pieces + "/xxh64").c_str(), hashes,
            "expected 16 hexadecimal digits for each of");
  json state = good;
  state["step"] = 5; // without a new checksum
  writeFile(dir + "/state.json", state.dump());
  expectDamage("the checksum is");
  state = good;
  state["format"] = 4;
  restate(state);
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_EQ(checkpoint.status().code(), StatusCode::InvalidArgument);
}

TEST_F(Corruption, IndexThatLiesIsFound) {
  std::string path = dir + "/model.safetensors.index.json";
  const json good = json::parse(readFile(path));
  auto expectLie = [&](const json &index, const std::string &message) {
    writeFile(path, index.dump());
    restate();
    expectDamage(message);
  };
  json index = good;
  index["weight_map"]["h.0.w"] = "model-00001-of-00002.safetensors";
  expectLie(index, "the tensor is not in "
                   "\"model-00001-of-00002.safetensors\"");
  index = good;
  index["weight_map"].erase("h.0.w");
  expectLie(index, "it lists 2 tensors, the files have 3");
  index = good;
  index.erase("weight_map");
  expectLie(index, "no member \"weight_map\"");
}

TEST_F(Corruption, TensorInTwoFilesIsFound) {
  std::filesystem::copy_file(dir + "/model-00001-of-00002.safetensors",
                             dir + "/model-00002-of-00002.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  restate();
  expectDamage("wte.weight is also in another file");
}

//===----------------------------------------------------------------------===//
// The safetensors header
//===----------------------------------------------------------------------===//

/// A file with this header and `dataBytes` bytes of data.
static std::string makeFile(std::string header, size_t dataBytes) {
  header.append(-(8 + header.size()) % 8, ' ');
  uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(dataBytes, '\0');
}

static Status read(const std::string &bytes) {
  // A copy of exactly this size lets the address sanitizer see overruns.
  std::unique_ptr<char[]> copy(new char[bytes.size()]);
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  return readSafetensors({copy.get(), bytes.size()}, bytes.size(), "FILE")
      .status();
}

static void expectBad(const std::string &bytes, const std::string &message) {
  Status status = read(bytes);
  EXPECT_EQ(status.code(), StatusCode::DataLoss);
  EXPECT_NE(status.message().find(message), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("FILE"), std::string::npos);
}

TEST(SafetensorsHeader, AcceptsWhatTheFormatAllows) {
  EXPECT_TRUE(read(makeFile("{}", 0)).ok());
  EXPECT_TRUE(read(makeFile(R"({"__metadata__":{"x":"y"}})", 0)).ok());
  // Tensors in any order of the header; a scalar has an empty shape.
  EXPECT_TRUE(
      read(makeFile(R"({"b":{"dtype":"F32","shape":[],"data_offsets":[8,12]},)"
                    R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                    12))
          .ok());
}

TEST(SafetensorsHeader, NamesWhatIsWrong) {
  expectBad("", "it has 0 bytes");
  expectBad("1234567", "it has 7 bytes");
  expectBad(std::string(8, '\xff'), "announces a header of "
                                    "18446744073709551615");
  expectBad(std::string("\x09\0\0\0\0\0\0\0{}      ", 16),
            "announces a header of 9");
  expectBad(makeFile("", 0), "not valid JSON");
  expectBad(makeFile("[]", 0), "expected an object");
  expectBad(makeFile("{\"a\":", 0),
            "not valid JSON: parse error at line 1, column 9: ");
  expectBad(makeFile("{}", 4), "its tensors end at byte 16, the file at 20");

  auto one = [](const std::string &entry, size_t dataBytes = 8) {
    return makeFile("{\"a\":" + entry + "}", dataBytes);
  };
  EXPECT_TRUE(
      read(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})")).ok());
  expectBad(one(R"({"dtype":"F64","shape":[1],"data_offsets":[0,8]})"),
            "a.dtype: expected F32, BF16 or F16, found F64");
  expectBad(
      makeFile(R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
               R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]}})",
               8),
      "tensor b has elements of type BF16, the first one has F16");
  expectBad(one(R"({"shape":[2],"data_offsets":[0,8]})"), "no member \"dtype");
  expectBad(one(R"({"dtype":"F32","data_offsets":[0,8]})"),
            "no member \"shape\"");
  expectBad(one(R"({"dtype":"F32","shape":[2]})"),
            "no member \"data_offsets\"");
  expectBad(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
            "a.shape: the shape [3] does not have the 8 bytes");
  expectBad(one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"),
            "a.shape[0]: expected an integer from 1");
  expectBad(one(R"({"dtype":"F32","shape":[0],"data_offsets":[0,0]})", 0),
            "a.shape[0]: expected an integer from 1");
  // A product of 2^65 elements wraps to 0 in 64 bits.
  expectBad(one(R"({"dtype":"F32","shape":[4294967296,4294967296,2],)"
                R"("data_offsets":[0,8]})"),
            "does not have the 8 bytes");
  expectBad(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,12]})"),
            "a.data_offsets: expected [begin, end] within the 8 bytes");
  expectBad(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
            "a.data_offsets");
  expectBad(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"),
            "a.data_offsets");
  expectBad(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,1e30]})"),
            "a.data_offsets[1]: expected an integer");
  expectBad(one(R"({"dtype":"F32","shape":[1],"data_offsets":[2,6]})"),
            "a.data_offsets: the data is not aligned");
  expectBad(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"),
            "tensor a begins at byte");
  expectBad(
      makeFile(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
               R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
               12),
      "tensor b begins at byte");
  expectBad(makeFile(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                     R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                     8),
            "the key \"a\" twice");
}

TEST(SafetensorsHeader, SurvivesEveryDamagedByte) {
  std::string good =
      makeFile(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
               R"("b":{"dtype":"F32","shape":[1,3],"data_offsets":[8,20]}})",
               20);
  ASSERT_TRUE(read(good).ok());
  for (size_t i = 0; i < good.size(); ++i)
    for (int value = 0; value < 256; value += 5) {
      std::string damaged = good;
      damaged[i] = char(value);
      Status status = read(damaged);
      ASSERT_TRUE(status.ok() || status.code() == StatusCode::DataLoss);
    }
  for (size_t size = 0; size < good.size(); ++size)
    ASSERT_EQ(read(good.substr(0, size)).code(), StatusCode::DataLoss);
}

TEST_F(Corruption, WhatIsNotFiniteIsNamed) {
  // The last of three tensors, in the second file: 7 elements.
  std::string path = dir + "/model-00002-of-00002.safetensors";
  std::string bytes = readFile(path);
  float bad = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(&bytes[bytes.size() - sizeof(bad)], &bad, sizeof(bad));
  writeFile(path, bytes);
  restate();
  Status status = read();
  EXPECT_EQ(status.code(), StatusCode::DataLoss);
  for (std::string text : {path, std::string("the tensor ln_f.bias has an "
                                             "element that is not finite")})
    EXPECT_NE(status.message().find(text), std::string::npos)
        << status.message();
}

TEST_F(Corruption, AStateThatSaysTheImpossibleIsDamage) {
  const json good = json::parse(readFile(dir + "/state.json"));
  auto expect = [&](const json &state, const std::string &message) {
    restate(state);
    expectDamage(message);
  };
  json state = good;
  state["order"] = "random";
  expect(state, "order: expected \"shuffled\" or \"sequential\", found "
                "\"random\"");
  state = good;
  state["step"] = INT64_MAX - 1;
  expect(state, "step: expected an integer from 0 to 1000000000000");
  for (auto [name, value, message] :
       {std::tuple("token_type", json("u64"),
                   "\"u16\" or \"u32\", found \"u64\""),
        {"tokens", json(32), "expected an integer from 33"},
        {"sequence", json(0), "expected an integer from 1"},
        {"batch", json(0), "expected an integer from 1"},
        {"sample", json("zz"), "expected 16 hexadecimal digits"},
        {"contents", json(7), "expected a string"},
        {"file", json(7), "expected a string"},
        {"position", json(INT64_MAX), "expected data_position"},
        {"position", json(-1), "expected an integer from 0"}}) {
    state = good;
    state["data"][name] = value;
    expect(state, std::string("data.") + name + ": ");
    expect(state, message);
  }
  state = good;
  state["data_position"] = INT64_MAX;
  expect(state, "data_position: expected an integer from 0 to");
  for (auto [name, value, message] :
       {std::tuple("lr", json(-1), "expected a number of at least 0, found -1"),
        {"lr", json("fast"), "expected a number of at least 0, found fast"},
        {"beta2", json(1), "below 1, found 1"},
        {"clip", json(0), "none or a number above 0, found 0"},
        {"schedule", json(7),
         "expected constant, cosine, linear, wsd or inverse-sqrt, found 7"},
        {"warmup", json(0.5), "a whole number from 0"},
        {"microbatches", json(0), "a whole number from 1"},
        {"steps", json::array(), "steps: expected a string, found array"}}) {
    state = good;
    state["hyperparameters"][name] = value;
    expect(state, std::string("hyperparameters.") + name + ": ");
    expect(state, message);
  }
  for (auto [name, value, message] :
       {std::tuple("loss", json("low"), "expected a number"),
        {"step", json(1'000'000), "expected an integer from 0 to"},
        {"evaluations_since", json(-1), "expected an integer from 0"}}) {
    state = good;
    state["best"][name] = value;
    expect(state, std::string("best.") + name + ": ");
    expect(state, message);
  }
  // Deep enough to overflow the stack of whoever prints it.
  writeFile(dir + "/state.json", std::string(1'000'000, '['));
  expectDamage("more than 64 deep");
  writeFile(dir + "/state.json",
            std::string(1'000'000, '[') + std::string(1'000'000, ']'));
  expectDamage("more than 64 deep");
}

TEST_F(Corruption, AStateOfAnEarlierVersionHasNoHyperparameters) {
  json state = json::parse(readFile(dir + "/state.json"));
  state.erase("hyperparameters");
  restate(state);
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_FALSE((*checkpoint)->state().hyperparameters.has_value());
  // One that a later version added is not missed.
  state["hyperparameters"] = {{"lr", 0.5}, {"temperature", 3}};
  restate(state);
  checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  Hyperparameters expected;
  expected.rate.peak = 0.5;
  EXPECT_EQ((*checkpoint)->state().hyperparameters, expected);
}
