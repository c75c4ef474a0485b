//===- CheckpointState.cpp - The state.json of a checkpoint ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointState.h"

#include "CheckpointFolder.h"
#include "model/ModelRecordJson.h"
#include "optimus-runtime/CheckpointPieces.h"
#include "optimus-support/Hash.h"
#include "optimus-support/JsonCursor.h"
#include "optimus-support/Sizes.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

using namespace optrt;
using namespace optimus_support;
using nlohmann::json;

static constexpr const char *kChecksum = "xxh64";
/// 1 had a checksum of each file and none of pieces.
static constexpr int64_t kWholeFormat = 2;
/// Adapters alone.
static constexpr int64_t kFormat = 3;

/// The checksum of all members but the checksum.
static std::string checksumOf(json state) {
  state.erase(kChecksum);
  return hashToHex(hash64(state.dump()));
}

/// Numbers as numbers, everything else as on the command line.
static json formatHyperparameters(const Hyperparameters &hyperparameters) {
  json list;
  forEachHyperparameter(
      [&](const HyperparameterInfo &info, const auto &values,
          const auto &field) {
        if constexpr (std::is_enum_v<std::decay_t<decltype(field)>>)
          list[info.name] = values.print(field);
        else if (std::isinf(double(field)))
          list[info.name] = values.print(field);
        else
          list[info.name] = field;
      },
      hyperparameters);
  return list;
}

/// Those that are missing keep their defaults: a later version may have more.
static Hyperparameters readHyperparameters(const JsonCursor &cursor) {
  Hyperparameters result;
  forEachHyperparameter(
      [&](const HyperparameterInfo &info, const auto &values, auto &field) {
        JsonCursor member = cursor.find(info.name);
        if (!member)
          return;
        // "none" and the names of schedules are strings.
        std::string text = member.text();
        if (auto value = values.parse(text))
          field = *value;
        else
          member.fail(concat("expected ", values.expected(), ", found ", text));
      },
      result);
  return result;
}

static json formatData(const DataRecord &data) {
  json text;
  // A name is any bytes, JSON's strings are UTF-8.
  text["file"] = json::parse(
      json(data.file).dump(-1, ' ', false, json::error_handler_t::replace));
  text["token_type"] = toString(data.identity.type);
  text["tokens"] = data.identity.tokens;
  text["sample"] = hashToHex(data.identity.sample);
  if (data.identity.contents)
    text["contents"] = hashToHex(*data.identity.contents);
  text["sequence"] = data.sequence;
  text["batch"] = data.batch;
  text["position"] = data.position;
  if (!data.tokenizer.empty())
    text["tokenizer"] = data.tokenizer;
  return text;
}

static uint64_t readHash(const JsonCursor &cursor) {
  std::string text = cursor.string();
  std::optional<uint64_t> value = hashFromHex(text);
  if (!value)
    cursor.fail(concat("expected 16 hexadecimal digits, found \"", text, "\""));
  return value.value_or(0);
}

/// `sequences` is the position that earlier versions go on from.
static DataRecord readData(const JsonCursor &cursor, int64_t sequences) {
  DataRecord data;
  data.file = cursor["file"].string();
  std::string type = cursor["token_type"].string();
  if (std::optional<TokenType> known = parseTokenType(type))
    data.identity.type = *known;
  else
    cursor["token_type"].fail(
        concat("expected \"u8\", \"u16\" or \"u32\", found \"", type, "\""));
  constexpr int64_t kMost = int64_t(1) << 60;
  data.sequence = cursor["sequence"].integer(1, kMost);
  // A window and its last target.
  data.identity.tokens = cursor["tokens"].integer(
      std::max<int64_t>(data.sequence, 1) + 1, kMost + 1);
  data.identity.sample = readHash(cursor["sample"]);
  if (JsonCursor contents = cursor.find("contents"))
    data.identity.contents = readHash(contents);
  data.batch = cursor["batch"].integer(1, kMost);
  data.position = cursor["position"].integer(0, INT64_MAX);
  if (JsonCursor tokenizer = cursor.find("tokenizer"))
    data.tokenizer = tokenizer.string();
  if (data.sequence > 0 && (data.position % data.sequence != 0 ||
                            data.position / data.sequence != sequences))
    cursor["position"].fail(
        concat("expected data_position, ", sequences, ", sequences of ",
               data.sequence, " tokens, found ", data.position, " tokens"));
  return data;
}

/// Checksums of pieces stand one after the other in one string: a list would
/// take twice the bytes, of a model that has millions.
static json formatRecord(const FileRecord &file) {
  if (!file.pieces)
    return {{"size", file.size}, {"xxh64", hashToHex(file.hash)}};
  std::string hashes;
  for (uint64_t hash : file.pieces->pieces)
    hashes += hashToHex(hash);
  return {{"size", file.size},
          {"header",
           {{"size", file.pieces->headerBytes},
            {"xxh64", hashToHex(file.pieces->header)}}},
          {"pieces", {{"size", file.pieces->pieceBytes}, {"xxh64", hashes}}}};
}

std::string optrt::formatState(const TrainingState &state,
                               const std::vector<FileRecord> &files) {
  json text;
  text["format"] = state.base ? kFormat : kWholeFormat;
  text["step"] = state.step;
  text["seed"] = state.seed;
  text["data_position"] = state.dataPosition;
  text["order"] = state.order;
  if (state.data)
    text["data"] = formatData(*state.data);
  text["model_hash"] = state.modelHash;
  if (state.hyperparameters)
    text["hyperparameters"] = formatHyperparameters(*state.hyperparameters);
  if (state.model)
    text["model"] = toJson(*state.model);
  if (state.best)
    text["best"] = {{"loss", state.best->loss},
                    {"step", state.best->step},
                    {"evaluations_since", state.best->evaluationsSince}};
  if (!state.trained.empty())
    text["trained"] = state.trained;
  if (state.base)
    text["base"] = {{"xxh64", hashToHex(*state.base)}};
  for (const FileRecord &file : files)
    text["files"][file.name] = formatRecord(file);
  text[kChecksum] = checksumOf(text);
  return text.dump(2) + "\n";
}

static PieceChecksums readPieces(const JsonCursor &cursor,
                                 const JsonCursor &header, int64_t fileBytes) {
  PieceChecksums result;
  result.headerBytes = header["size"].integer(0, fileBytes);
  result.header = readHash(header["xxh64"]);
  // Whole elements, wherever the data begins.
  result.pieceBytes = cursor["size"].integer(1, kMaxBytes);
  if (result.pieceBytes % sizeof(float) != 0)
    cursor["size"].fail("expected a multiple of four");
  const std::string text = cursor["xxh64"].string();
  constexpr size_t kDigits = 16;
  for (size_t i = 0; i + kDigits <= text.size(); i += kDigits)
    if (std::optional<uint64_t> hash =
            hashFromHex(std::string_view(text).substr(i, kDigits)))
      result.pieces.push_back(*hash);
  CheckpointPieces expected;
  if (result.pieceBytes > 0)
    expected.addFile({CheckpointFile::Model,
                      result.headerBytes,
                      static_cast<size_t>(fileBytes),
                      result.pieceBytes,
                      {}});
  if (text.size() != expected.size() * kDigits ||
      result.pieces.size() != expected.size())
    cursor["xxh64"].fail(concat("expected 16 hexadecimal digits for each of ",
                                expected.size(), " pieces, found ",
                                text.size()));
  return result;
}

static FileRecord readRecord(const std::string &name,
                             const JsonCursor &cursor) {
  FileRecord record;
  record.name = name;
  // Also keeps names from leading out of the folder.
  if (!isCheckpointFileName(name) || name == kStateFile)
    cursor.fail("a checkpoint has no file of this name");
  record.size = cursor["size"].integer(0, kMaxBytes);
  JsonCursor pieces = cursor.find("pieces");
  if (pieces && !isCompanionFileName(name))
    record.pieces = readPieces(pieces, cursor["header"], record.size);
  else
    record.hash = readHash(cursor["xxh64"]);
  return record;
}

StatusOr<ParsedState> optrt::parseState(std::string_view text,
                                        const std::string &path) {
  JsonDocument document(text, concat(path, " is damaged"),
                        StatusCode::DataLoss);
  JsonCursor root = document.root();
  int64_t format = root["format"].integer(0, INT64_MAX);
  OPTRT_RETURN_IF_ERROR(document.status());
  if (format < 1 || format > kFormat)
    return invalidArgument(concat("the checkpoint ", path, " has format ",
                                  format, ", this program reads formats 1 to ",
                                  kFormat));
  std::string expected = root[kChecksum].string();
  if (document.status().ok() && checksumOf(document.contents()) != expected)
    root[kChecksum].fail(concat("the checksum is ",
                                checksumOf(document.contents()),
                                ", the file says \"", expected, "\""));

  ParsedState parsed;
  TrainingState &state = parsed.state;
  state.step = root["step"].integer(0, kMostSteps);
  state.seed = root["seed"].unsignedInteger();
  state.dataPosition = root["data_position"].integer(0, kMostDataPosition);
  state.order = root["order"].string();
  if (document.status().ok() && state.order != "shuffled" &&
      state.order != "sequential")
    root["order"].fail(
        concat("expected \"shuffled\" or \"sequential\", found \"", state.order,
               "\""));
  if (JsonCursor data = root.find("data"))
    state.data = readData(data, state.dataPosition);
  if (JsonCursor kept = root.find("hyperparameters"))
    state.hyperparameters = readHyperparameters(kept);
  state.modelHash = root["model_hash"].string();
  if (JsonCursor model = root.find("model"))
    state.model = readModelRecord(model);
  if (JsonCursor best = root.find("best"))
    state.best = BestEvaluation{
        best["loss"].number(), best["step"].integer(0, state.step),
        best["evaluations_since"].integer(0, kMostSteps)};
  if (JsonCursor trained = root.find("trained"))
    for (const JsonCursor &name : trained.elements())
      state.trained.push_back(name.string());
  if (JsonCursor base = root.find("base"))
    state.base = readHash(base["xxh64"]);
  for (const auto &[name, record] : root["files"].members())
    parsed.files.push_back(readRecord(name, record));
  OPTRT_RETURN_IF_ERROR(document.status());
  return parsed;
}
