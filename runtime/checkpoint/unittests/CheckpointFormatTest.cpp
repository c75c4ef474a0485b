//===- CheckpointFormatTest.cpp - Other types, files for other programs ---===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointFixture.h"
#include "checkpoint/CheckpointFolder.h"
#include "checkpoint/Safetensors.h"
#include "checkpoint/WeightConfig.h"
#include "checkpoint/WeightTypes.h"
#include "optimus-runtime/WeightExport.h"
#include "optimus-support/BFloat16.h"
#include "optimus-support/Float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace optrt;
using namespace optimus_support;

namespace {
class Format : public CheckpointTest {
protected:
  static CheckpointWriterOptions of(ElementType type) {
    CheckpointWriterOptions options;
    options.modelType = type;
    options.pieceBytes = 100; // some end within a tensor, some hold several
    return options;
  }
};

/// 1 and a bit, which neither type has, with both ties among them.
float fractionOf(const std::string &, int64_t i) {
  return 1 + float(i) * 0x1p-12f;
}

float roundedTo(ElementType type, float value) {
  return type == ElementType::BF16 ? fromBFloat16(toBFloat16(value))
                                   : fromFloat16(toFloat16(value));
}
} // namespace

TEST_F(Format, ParametersAreRoundedAndStatesAreNot) {
  for (ElementType type : {ElementType::BF16, ElementType::F16}) {
    auto writer = declareAll(dir, of(type));
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    ASSERT_TRUE(writeAll(**writer, fractionOf, stateOf(2)).ok());
    auto checkpoint = Checkpoint::open(dir);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    for (const auto &[file, info] : allTensors()) {
      auto values = (*checkpoint)->readTensor(info.name);
      ASSERT_TRUE(values.ok()) << values.status().message();
      for (size_t i = 0; i != values->size(); ++i) {
        const float exact = fractionOf(info.name, int64_t(i));
        EXPECT_EQ((*values)[i], file == CheckpointFile::Model
                                    ? roundedTo(type, exact)
                                    : exact);
      }
    }
    const std::string note =
        concat(dir, ": its parameters were rounded to ", nameOfWeightType(type),
               " when they were saved");
    EXPECT_EQ((*checkpoint)->notesOn(expected()),
              std::vector<std::string>{note});
    EXPECT_EQ(
        std::filesystem::file_size(dir + "/model.safetensors") % 64,
        size_t(60 + 45 + 7) * 2 % 64);
  }
}

TEST_F(Format, IsTheSameByOneWriterAndByMany) {
  const CheckpointWriterOptions options = of(ElementType::BF16);
  ASSERT_TRUE(save(dir, 3, options).ok());
  const std::string together = root + "/together";
  auto first = declareAll(together, options);
  ASSERT_TRUE(first.ok() && (*first)->begin().ok());
  CheckpointWriter other(options);
  ASSERT_TRUE(declareAll(other).ok() && other.layOut().ok());
  ASSERT_TRUE(other.join(together, (*first)->folder()));
  const std::vector<size_t> pieces = piecesOf(other, 1, 2);
  ASSERT_TRUE(writePieces(other, pieces, valuesOf(3), 5).ok());
  for (size_t piece : pieces)
    (*first)->setChecksum(piece, other.checksum(piece));
  ASSERT_TRUE(
      writePieces(**first, piecesOf(**first, 0, 2), valuesOf(3)).ok());
  ASSERT_TRUE((*first)->commit(stateOf(3)).ok());
  for (const std::string &name : list(dir))
    EXPECT_TRUE(readFile(together + "/" + name) == readFile(dir + "/" + name))
        << name;
}

TEST_F(Format, NumbersBeyondTheRangeAreRefused) {
  struct Limit {
    ElementType type;
    float largest, beyond;
  };
  for (const Limit &limit :
       {Limit{ElementType::F16, std::nextafter(65520.0f, 0.0f), 65520.0f},
        {ElementType::BF16, std::nextafter(0x1.ffp127f, 0.0f), 0x1.ffp127f}}) {
    for (float sign : {1.0f, -1.0f})
      for (float magnitude : {limit.largest, limit.beyond}) {
        auto writer = declareAll(dir, of(limit.type));
        ASSERT_TRUE(writer.ok()) << writer.status().message();
        const Status saved = writeAll(
            **writer,
            [&](const std::string &name, int64_t i) {
              return name == "h.0.w" && i == 30 ? sign * magnitude : 0.0f;
            },
            stateOf(1));
        EXPECT_EQ(fits(limit.type, sign * magnitude),
                  magnitude == limit.largest);
        EXPECT_EQ(std::isfinite(roundedTo(limit.type, sign * magnitude)),
                  magnitude == limit.largest);
        EXPECT_EQ(saved.ok(), magnitude == limit.largest) << saved.message();
        if (!saved.ok()) {
          EXPECT_EQ(saved.message().rfind("the tensor h.0.w has an element "
                                          "that is beyond the range of ",
                                          0),
                    0u)
              << saved.message();
        }
      }
  }
}

TEST_F(Format, HasAtMostAsManyFilesAsAreRead) {
  CheckpointWriterOptions options;
  options.shardLimitBytes = 1;
  for (int64_t files : {512, 513}) {
    CheckpointWriter writer(options);
    const std::vector<int64_t> shape{1};
    for (int64_t i = 0; i != files; ++i)
      ASSERT_TRUE(
          writer.addTensor(CheckpointFile::Model, concat("w", i), shape).ok());
    const Status status = writer.layOut();
    EXPECT_EQ(status.ok(), files == 512) << status.message();
    if (!status.ok()) {
      EXPECT_EQ(status.message(), "with 1 bytes in a file the model has 513 "
                                  "files; expected at most 512");
    }
  }
}

TEST_F(Format, CompanionsAreThereWholeAndVerified) {
  const std::string words("{\"x\":\r\n\0 1}", 11);
  auto saveWith = [&](int64_t step) -> Status {
    OPTRT_ASSIGN_OR_RETURN(auto writer, declareAll(dir));
    OPTRT_RETURN_IF_ERROR(
        writer->addFile({"config.json", R"({"z":1e-05,"a":[2]})"}));
    OPTRT_RETURN_IF_ERROR(writer->addFile({"tokenizer.json", words}));
    EXPECT_EQ(writer->addFile({"README.md", ""}).code(), StatusCode::Internal);
    return writeAll(*writer, valuesOf(step), stateOf(step));
  };
  // The second replaces the first.
  for (int64_t step : {1, 2})
    ASSERT_TRUE(saveWith(step).ok());
  EXPECT_EQ(list(root), std::vector<std::string>{"run"});
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  expectWhole(**checkpoint);
  auto found = (*checkpoint)->readCompanions();
  ASSERT_TRUE(found.ok()) << found.status().message();
  const std::vector<CompanionFile> known{
      {"config.json", "{\n  \"z\": 1e-05,\n  \"a\": [\n    2\n  ],\n  "
                      "\"torch_dtype\": \"float32\"\n}\n"},
      {"tokenizer.json", words}};
  EXPECT_EQ(*found, known);

  writeFile(dir + "/tokenizer.json", std::string("{\"x\":\r\n\0 2}", 11));
  EXPECT_EQ(Checkpoint::open(dir).status().message(),
            concat(dir, "/tokenizer.json is damaged: its checksum is ",
                   hashToHex(hash64(readFile(dir + "/tokenizer.json"))),
                   ", state.json says ", hashToHex(hash64(words)),
                   "; use another checkpoint"));
  EXPECT_EQ((*checkpoint)->readCompanions().status().code(),
            StatusCode::DataLoss);
  std::filesystem::remove(dir + "/tokenizer.json");
  EXPECT_EQ(Checkpoint::open(dir).status().code(), StatusCode::DataLoss);
}

TEST_F(Format, OfAConfigTheTypeAloneChanges) {
  EXPECT_EQ(withElementType(R"({"dtype": "float32", "b": null})",
                            ElementType::BF16),
            "{\n  \"dtype\": \"bfloat16\",\n  \"b\": null\n}\n");
  EXPECT_EQ(withElementType(R"({"torch_dtype": "x", "dtype": 1})",
                            ElementType::F16),
            "{\n  \"torch_dtype\": \"float16\",\n  \"dtype\": \"float16\"\n}\n");
  for (const char *other : {"[]", "{", "{\"a\": 1, \"a\": 2}"})
    EXPECT_EQ(withElementType(other, ElementType::F32), other);
  const std::string deep(100000, '[');
  EXPECT_EQ(withElementType(deep, ElementType::F32), deep);
}

TEST(WeightTypes, RoundTheNearestTiesToEven) {
  for (ElementType type : {ElementType::BF16, ElementType::F16}) {
    const bool isBF16 = type == ElementType::BF16;
    const uint16_t infinity = isBF16 ? 0x7F80 : 0x7C00;
    for (uint32_t bits = 0; bits + 1 < infinity; ++bits) {
      float neighbours[2];
      const uint16_t two[2] = {uint16_t(bits), uint16_t(bits + 1)};
      widen(type, std::as_bytes(std::span(two)), neighbours);
      // Exact: there is room for another bit.
      const float middle = neighbours[0] / 2 + neighbours[1] / 2;
      const float given[3] = {std::nextafter(middle, 0.0f), middle,
                              std::nextafter(middle, INFINITY)};
      uint16_t found[3];
      narrow(type, given, std::as_writable_bytes(std::span(found)));
      // BF16's subnormal numbers are F32's: halves of them are rounded.
      if (isBF16 && bits < 0x80)
        continue;
      ASSERT_EQ(found[0], two[0]) << bits;
      ASSERT_EQ(found[1], two[bits % 2]) << bits;
      ASSERT_EQ(found[2], two[1]) << bits;
    }
  }
}

TEST_F(Format, ExportedWeightsAreLoadedByOurReader) {
  ASSERT_TRUE(save(dir, 3).ok());
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const std::string to = root + "/weights";
  EXPECT_EQ(exportWeights(**checkpoint, to).status().message(),
            concat(dir, " has no config.json: a library of its model has one"));
  WeightExportOptions options;
  options.config = "{}";
  options.shardLimitBytes = 300;
  auto written = exportWeights(**checkpoint, to, options);
  ASSERT_TRUE(written.ok()) << written.status().message();
  EXPECT_EQ(written->files, 2u);
  EXPECT_EQ(written->tensors, 3);
  EXPECT_EQ(written->bytes, 448);
  auto weights = Checkpoint::open(to);
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  EXPECT_TRUE((*weights)->hasWeightsAlone());
  ASSERT_TRUE((*weights)->findParameters(expected()).ok());
  for (const TensorInfo &param : params()) {
    auto values = (*weights)->readTensor(param.name);
    ASSERT_TRUE(values.ok()) << values.status().message();
    for (size_t i = 0; i != values->size(); ++i)
      EXPECT_EQ((*values)[i], valueOf(param.name, 3, int64_t(i)));
  }
  EXPECT_EQ(exportWeights(**checkpoint, to, options).status().message(),
            concat(to, " is not empty; weights are written to a folder of "
                       "their own"));
  EXPECT_EQ(list(root), (std::vector<std::string>{"run", "weights"}));
}
