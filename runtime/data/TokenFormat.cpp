//===- TokenFormat.cpp - How a file holds its tokens ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TokenFormat.h"

#include "optimus-support/JsonCursor.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>

using namespace optrt;
using optimus_support::InputFile;
using optimus_support::JsonCursor;
using optimus_support::JsonDocument;
using namespace std::string_view_literals;

namespace {

/// Enough for every magic, and for a look at the first tokens.
constexpr size_t kBytesLookedAt = 1 << 16;
constexpr size_t kMostNoteBytes = 1 << 20;

uint32_t wordAt(std::string_view bytes, size_t at) {
  uint32_t word = 0;
  for (size_t i = 0; i != 4; ++i)
    word |= uint32_t(uint8_t(bytes[at + i])) << (8 * i);
  return word;
}

//===----------------------------------------------------------------------===//
// Files of other formats
//===----------------------------------------------------------------------===//

struct Magic {
  size_t offset;
  std::string_view bytes;
  const char *name;
};

/// No text begins so, and no tokens but by a chance of one in 2^32 and less.
constexpr Magic kMagics[] = {
    {0, "PK\x03\x04"sv, "a zip archive (NumPy's .npz, PyTorch's .pt)"},
    {0, "PK\x05\x06"sv, "a zip archive"},
    {0, "\x93NUMPY"sv, "a NumPy array (.npy)"},
    {0, "ARROW1\0\0"sv, "an Arrow file"},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    {0,
     "\x7f"
     "ELF"sv,
     "a program or library (ELF)"},
    {0, "\x28\xb5\x2f\xfd"sv, "compressed with zstd"},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     "compressed with xz"},
    {4, "1AY&SY"sv, "compressed with bzip2"},
    {0, "\x04\x22\x4d\x18"sv, "compressed with lz4"},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7-zip archive"},
    {257, "ustar"sv, "a tar archive"},
    {0, "MMIDIDX\0\0"sv, "the index of a Megatron data set, not its tokens"},
    {0, "SQLite format 3\0"sv, "an SQLite database"},
    {0, "Obj\x01"sv, "an Avro file"},
    {0, "\x80\x04\x95"sv, "a pickle of Python's"},
    {0, "\x80\x05\x95"sv, "a pickle of Python's"},
    {0, "\x8a\xd8\x34\x01"sv, "multiple-choice examples of llm.c's"},
    {0, "\xc6\xd7\x34\x01"sv, "a model of llm.c's"},
    {0, "\xc8\xd7\x34\x01"sv, "a tokenizer of llm.c's"},
};

bool hasAt(std::string_view bytes, size_t at, std::string_view magic) {
  return bytes.size() >= at && bytes.substr(at, magic.size()) == magic;
}

/// The magics that a text or tokens might begin with are looked at more
/// closely.
const char *nameOfOtherFormat(std::string_view bytes, const InputFile &file) {
  if (hasAt(bytes, 0, "\x1f\x8b\x08"sv) && bytes.size() > 3 &&
      uint8_t(bytes[3]) < 0x20)
    return "compressed with gzip";
  if (hasAt(bytes, 0, "\xff\xff\xff\xff"sv) && hasAt(bytes, 8, "\x10\0\0\0"sv))
    return "an Arrow stream";
  if (hasAt(bytes, 0, "GGUF"sv) && bytes.size() >= 8 && wordAt(bytes, 4) < 100)
    return "a GGUF model";
  if (hasAt(bytes, 0, "PAR1"sv)) {
    char end[4] = {};
    if (file.read(file.size() - sizeof(end), end, sizeof(end)).ok() &&
        std::string_view(end, sizeof(end)) == "PAR1")
      return "a Parquet file";
  }
  if (hasAt(bytes, 8, "{\""sv) && wordAt(bytes, 4) == 0 &&
      wordAt(bytes, 0) <= file.size() - 8)
    return "a safetensors file";
  for (const Magic &magic : kMagics)
    if (hasAt(bytes, magic.offset, magic.bytes) &&
        (magic.offset != 4 || hasAt(bytes, 0, "BZh"sv)))
      return magic.name;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// llm.c's header
//===----------------------------------------------------------------------===//

/// 256 words: a magic, a version, the number of tokens; the others are 0.
constexpr size_t kLlmcHeaderBytes = 256 * 4;
struct LlmcHeader {
  uint32_t magic, version;
  TokenType type;
};
constexpr LlmcHeader kLlmcHeaders[] = {{20240520, 1, TokenType::U16},
                                       {20240801, 7, TokenType::U32}};

StatusOr<bool> readLlmcHeader(std::string_view bytes, const InputFile &file,
                              TokenFormat &format) {
  if (bytes.size() < 12)
    return false;
  auto header = std::find_if(
      std::begin(kLlmcHeaders), std::end(kLlmcHeaders),
      [&](const LlmcHeader &one) { return one.magic == wordAt(bytes, 0); });
  if (header == std::end(kLlmcHeaders))
    return false;
  const uint32_t version = wordAt(bytes, 4), tokens = wordAt(bytes, 8);
  auto wrong = [&](const auto &...what) {
    return invalidArgument(concat("the data file ", file.path(),
                                  " has llm.c's header with magic ",
                                  header->magic, ": ", what...));
  };
  if (version != header->version)
    return wrong("its version is ", version, ", expected ", header->version);
  const uint64_t expected =
      kLlmcHeaderBytes + uint64_t(tokens) * bytesOf(header->type);
  if (file.size() != expected)
    return wrong("it says that ", tokens, " tokens of ", bytesOf(header->type),
                 " bytes follow, which makes ", expected,
                 " bytes, but the file has ", file.size());
  format.type = header->type;
  format.source = "llm.c's header";
  format.headerBytes = kLlmcHeaderBytes;
  return true;
}

//===----------------------------------------------------------------------===//
// The note beside a file
//===----------------------------------------------------------------------===//

std::string noteOf(const std::string &path) { return path + ".json"; }

struct Note {
  TokenType type = TokenType::U8;
  std::optional<int64_t> vocabulary, tokens;
};

/// Nothing where there is none.
StatusOr<std::optional<Note>> readNote(const std::string &dataPath) {
  const std::string path = noteOf(dataPath);
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error)
    return std::optional<Note>();
  OPTRT_ASSIGN_OR_RETURN(InputFile file,
                         InputFile::open(path, StatusCode::InvalidArgument));
  StatusOr<std::string> text = file.readAll(kMostNoteBytes);
  if (!text.ok())
    return invalidArgument(text.status().message());
  JsonDocument document(*text,
                        concat(path, ", which says how ", dataPath,
                               " holds its tokens, is wrong"),
                        StatusCode::InvalidArgument);
  JsonCursor root = document.root();
  Note note;
  const std::string type = root["token_type"].string();
  if (std::optional<TokenType> known = parseTokenType(type))
    note.type = *known;
  else
    root["token_type"].fail(
        concat("expected \"u8\", \"u16\" or \"u32\", found \"", type, "\""));
  if (JsonCursor vocabulary = root.find("vocabulary"))
    note.vocabulary = vocabulary.integer(
        1, std::min<int64_t>(int64_t(1) << (8 * bytesOf(note.type)),
                             std::numeric_limits<int32_t>::max()));
  if (JsonCursor tokens = root.find("tokens"))
    note.tokens = tokens.integer(0, INT64_MAX);
  OPTRT_RETURN_IF_ERROR(document.status());
  return std::optional<Note>(note);
}

//===----------------------------------------------------------------------===//
// What the tokens themselves say
//===----------------------------------------------------------------------===//

/// Whether 16-bit tokens are 0 at every second place and not everywhere: they
/// are the halves of 32-bit tokens.
bool lookLikeHalves(std::string_view bytes) {
  if (bytes.size() < 64)
    return false;
  bool some = false;
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    const uint32_t word = wordAt(bytes, i);
    if (word > UINT16_MAX)
      return false;
    some |= word != 0;
  }
  return some;
}

} // namespace

std::string optrt::adviceOnWidth(const TokenFormat &format,
                                 const std::string &path) {
  if (format.type == TokenType::U8)
    return "";
  const std::string other = format.type == TokenType::U16 ? "u32" : "u16";
  const std::string read =
      concat("its tokens were read as ", toString(format.type), " (",
             format.source, "), and may have been written as ", other);
  if (format.headerBytes > 0)
    return read;
  return concat(read, ": --token-type ", other, " reads them so, or ",
                noteOf(path), " with {\"token_type\": \"", other, "\"}");
}

StatusOr<TokenFormat> optrt::findTokenFormat(const InputFile &file,
                                             int64_t vocabulary,
                                             std::optional<TokenType> stated) {
  const std::string &path = file.path();
  const bool isText = path.ends_with(".txt");
  if (!isText && !path.ends_with(".bin"))
    return invalidArgument(
        concat("the data file ", path,
               " must end in .txt (one token a byte) or .bin (little-endian "
               "tokens of 16 or, with --token-type u32, 32 bits)"));
  TokenFormat format;
  std::string first(std::min(kBytesLookedAt, file.size()), '\0');
  OPTRT_RETURN_IF_ERROR(file.read(0, first.data(), first.size()));
  OPTRT_ASSIGN_OR_RETURN(std::optional<Note> note, readNote(path));
  OPTRT_ASSIGN_OR_RETURN(bool hasHeader, readLlmcHeader(first, file, format));
  if (hasHeader && isText)
    return invalidArgument(concat("the data file ", path,
                                  " has tokens of llm.c's, not a text: name it "
                                  ".bin"));
  // Whoever writes a note has looked.
  const char *other = note ? nullptr : nameOfOtherFormat(first, file);
  if (other)
    return invalidArgument(concat(
        "the data file ", path, " is ", other,
        ", not tokens; extract them to a file of their own, or, if it only "
        "begins like that, write ",
        noteOf(path), " with {\"token_type\": \"", isText ? "u8" : "u16",
        "\"}"));

  // The first that knows the width says so to the next.
  auto take = [&](TokenType type, const std::string &source) -> Status {
    if (format.source.empty()) {
      format.type = type;
      format.source = source;
    }
    if (format.type == type)
      return okStatus();
    return invalidArgument(concat("the data file ", path, " holds ",
                                  toString(format.type), " by ", format.source,
                                  " and ", toString(type), " by ", source,
                                  "; make them agree"));
  };
  if (isText)
    OPTRT_RETURN_IF_ERROR(take(TokenType::U8, "the ending .txt"));
  if (note)
    OPTRT_RETURN_IF_ERROR(take(note->type, noteOf(path)));
  if (stated && !isText)
    OPTRT_RETURN_IF_ERROR(take(*stated, "--token-type"));
  if (format.source.empty()) {
    OPTRT_RETURN_IF_ERROR(take(TokenType::U16, "default"));
    if (lookLikeHalves(first))
      return invalidArgument(
          concat("every second of the 16-bit tokens of the data file ", path,
                 " is 0, as where each is half of a 32-bit token; say "
                 "--token-type u32 "
                 "or --token-type u16"));
  }

  const int64_t width = bytesOf(format.type);
  const int64_t bytes = int64_t(file.size()) - format.headerBytes;
  if (bytes % width != 0)
    return invalidArgument(
        concat("the data file ", path, " has ", bytes, " bytes, ",
               width == 2 ? "an odd number" : concat("no multiple of ", width),
               "; with ", toString(format.type), " (by ", format.source,
               ") it has ", width, " bytes a token"));
  format.tokens = bytes / width;
  if (note && note->tokens && *note->tokens != format.tokens)
    return invalidArgument(concat(
        "the data file ", path, " has ", format.tokens, " tokens of type ",
        toString(format.type), ", ", noteOf(path), " says ", *note->tokens));
  if (note)
    format.vocabulary = note->vocabulary;
  if (format.vocabulary && *format.vocabulary > vocabulary)
    return invalidArgument(concat(
        "the data file ", path, " was written for a vocabulary of ",
        *format.vocabulary, " tokens, as ", noteOf(path),
        " says, but the model's has ", vocabulary,
        "; compile the model for a larger vocabulary or convert the file"));
  // A text goes with every model that knows all bytes.
  constexpr int64_t kMost16Bit = int64_t(1) << 16;
  if (format.type == TokenType::U16 && vocabulary > kMost16Bit &&
      !format.vocabulary)
    return invalidArgument(concat(
        "the model's vocabulary has ", vocabulary, " tokens, 16 bits tell ",
        kMost16Bit, " apart; of the data file ", path, " ",
        adviceOnWidth(format, path),
        "; if its vocabulary is smaller than the model's, ", noteOf(path),
        " has to say so: {\"token_type\": \"u16\", \"vocabulary\": N}"));
  return format;
}
