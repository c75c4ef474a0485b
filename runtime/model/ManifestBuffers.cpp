//===- ManifestBuffers.cpp - The buffers of a model -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ManifestReader.h"

#include "optimus-support/Dropout.h"
#include "optimus-support/Philox.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

using namespace optrt;
using optimus_support::Initializer;
using optimus_support::InitKind;

/// A number whose f32 is finite.
static double readFloat(const JsonCursor &cursor, double least,
                        const char *expected) {
  double number = cursor.number();
  if (!std::isfinite(static_cast<float>(number)) || number < least)
    cursor.fail(
        concat("expected a finite number", expected, ", found ", number));
  return number;
}

static Initializer readInitializer(const JsonCursor &cursor) {
  static constexpr std::string_view kinds[] = {"normal", "zeros", "ones",
                                               "constant", "uniform"};
  Initializer init;
  init.kind = InitKind(readEnum(cursor["kind"], kinds));
  if (init.kind == InitKind::Constant)
    init.number = readFloat(cursor["value"], -HUGE_VAL, "");
  if (init.kind != InitKind::Normal && init.kind != InitKind::Uniform)
    return init;
  init.number = readFloat(
      cursor[init.kind == InitKind::Normal ? "stddev" : "bound"], 0, " from 0");
  init.stream = uint32_t(
      cursor["stream"].integer(0, optimus_support::kFirstReservedStream - 1));
  return init;
}

static SavedTensor readSaved(const JsonCursor &cursor,
                             std::set<std::string> &taken) {
  static constexpr std::string_view files[] = {"model", "optimizer"};
  SavedTensor saved;
  saved.file = CheckpointFile(readEnum(cursor["file"], files));
  saved.shape = readShape(cursor["shape"]);
  JsonCursor packed = cursor.find("packed");
  // Buffers that share a tensor are held against each other when all are there.
  std::set<std::string> none;
  saved.name = readName(cursor["name"], packed ? none : taken);
  if (!packed)
    return saved;
  const int64_t elements = optimus_support::numElements(saved.shape);
  saved.row = packed["row"].integer(1, std::max<int64_t>(elements, 1));
  if (elements % saved.row) {
    packed["row"].fail(concat("expected rows that fill ",
                              optimus_support::shapeToString(saved.shape)));
    saved.row = 1;
  }
  saved.begin = packed["begin"].integer(0, saved.row - 1);
  return saved;
}

/// Buffers that share a tensor fill its rows, each element once.
static void checkPacked(const JsonCursor &cursor,
                        const std::vector<Buffer> &buffers,
                        const std::set<std::string> &alone) {
  std::map<std::string_view, std::vector<const Buffer *>> tensors;
  for (const Buffer &buffer : buffers)
    if (buffer.saved && buffer.saved->row)
      tensors[buffer.saved->name].push_back(&buffer);
  for (auto &[name, members] : tensors) {
    std::ranges::stable_sort(
        members, {}, [](const Buffer *buffer) { return buffer->saved->begin; });
    const SavedTensor &first = *members.front()->saved;
    bool isFilled = !alone.contains(first.name);
    int64_t end = 0;
    for (const Buffer *member : members) {
      const SavedTensor &saved = *member->saved;
      isFilled &= saved.file == first.file && saved.shape == first.shape &&
                  saved.row == first.row && saved.begin == end;
      end += member->layout.numElements() / saved.numRows();
    }
    if (!isFilled || end != first.row)
      cursor.fail(concat("expected the buffers saved in \"", name,
                         "\" to fill its rows of ", first.row,
                         " elements, each once"));
  }
}

/// Of what is filled from outside: it is what Session fills.
static void checkFilled(const JsonCursor &cursor, const Buffer &buffer,
                        const Manifest &manifest) {
  if (buffer.filledBy == FilledBy::Program)
    return;
  std::string_view who = toString(buffer.filledBy);
  if (buffer.lifetime != Lifetime::Call || buffer.init || buffer.saved ||
      !buffer.unreduced.empty())
    cursor["filled_by"].fail(
        concat("expected what the ", who,
               " fills to have the lifetime call, no init, no saved and no "
               "unreduced"));
  if (buffer.filledBy == FilledBy::Host) {
    // Of slots a rank is given its own.
    std::span<const int64_t> shape = buffer.layout.shape,
                             local = buffer.layout.localShape;
    const std::size_t first =
        buffer.type == ElementType::I32 && !shape.empty() ? 1 : 0;
    if (!std::ranges::equal(shape.subspan(first), local.subspan(first)))
      cursor["local_shape"].fail(
          "expected what the host fills to be whole on every rank, but for the "
          "first dimension of i32");
    return;
  }
  if (buffer.role != "tokens" && buffer.role != "targets" &&
      buffer.role != "positions")
    cursor["role"].fail(concat("expected tokens, targets or positions, which "
                               "the data fill; found \"",
                               buffer.role, "\""));
  if (buffer.type != ElementType::I32)
    cursor["type"].fail(concat("expected i32 of what the data fill, found ",
                               toString(buffer.type)));
  std::vector<int64_t> expected = {manifest.batch, manifest.sequence};
  if (buffer.layout.shape != expected)
    cursor["shape"].fail(
        concat("expected [batch, sequence] = ",
               optimus_support::shapeToString(expected), ", found ",
               optimus_support::shapeToString(buffer.layout.shape)));
}

/// Of what is initialized, reset or saved: it is what Session can do.
static void checkValues(const JsonCursor &cursor, const Buffer &buffer) {
  if (buffer.init && !buffer.isFloat() && buffer.init->kind != InitKind::Zeros)
    cursor["init"].fail(
        concat("expected zeros where the type is no f32, bf16 or f16, "
               "found a buffer of ",
               toString(buffer.type)));
  if (buffer.reset != Reset::Never && (!buffer.init || buffer.init->isDrawn()))
    cursor["reset"].fail("expected an initial value to set it back to, zeros, "
                         "ones or a constant");
  if (!buffer.saved)
    return;
  if (!buffer.isFloat() || !buffer.unreduced.empty())
    cursor["saved"].fail(
        "expected what is saved to be f32, bf16 or f16, and no partial sums");
  const int64_t rows = buffer.saved->numRows();
  const int64_t most = optimus_support::numElements(buffer.saved->shape);
  if (buffer.saved->row ? buffer.layout.numElements() % rows != 0
                        : buffer.layout.numElements() != most)
    cursor["saved"].fail(
        concat("shape ", optimus_support::shapeToString(buffer.saved->shape),
               " and the buffer's ",
               optimus_support::shapeToString(buffer.layout.shape),
               " have different numbers of elements"));
}

/// The parameter that a buffer belongs to: an earlier one.
static int64_t readOwner(const JsonCursor &cursor, const Manifest &manifest) {
  int64_t of = cursor.integer(0, int64_t(manifest.buffers.size()) - 1);
  if (of < int64_t(manifest.buffers.size()) &&
      manifest.buffers[of].lifetime != Lifetime::Parameter)
    cursor.fail(concat("expected a parameter, found \"",
                       manifest.buffers[of].name, "\", whose lifetime is ",
                       toString(manifest.buffers[of].lifetime)));
  return of;
}

static Buffer readBuffer(const JsonCursor &cursor, const Manifest &manifest,
                         std::set<std::string> &names,
                         std::set<std::string> &savedNames) {
  Buffer buffer;
  buffer.name = readName(cursor["name"], names);
  // Any number of buffers have a role.
  std::set<std::string> none;
  buffer.role = readName(cursor["role"], none);
  buffer.type =
      ElementType(readEnum(cursor["type"], optimus_support::kElementTypeNames));
  readLayout(cursor, manifest, buffer);
  buffer.lifetime = Lifetime(readEnum(cursor["lifetime"], kLifetimeNames));
  bool isParameter = buffer.lifetime == Lifetime::Parameter;
  if (JsonCursor of = cursor.find("of"))
    buffer.of = readOwner(of, manifest);
  // Parameters must have what others may.
  auto find = [&](const char *key) {
    return isParameter ? cursor[key] : cursor.find(key);
  };
  if (JsonCursor init = find("init"))
    buffer.init = readInitializer(init);
  if (JsonCursor saved = find("saved"))
    buffer.saved = readSaved(saved, savedNames);
  if (JsonCursor decay = find("decay"))
    buffer.decay = decay.boolean();
  if (JsonCursor reset = cursor.find("reset"))
    buffer.reset = Reset(readEnum(reset, kResetNames));
  if (JsonCursor filledBy = cursor.find("filled_by"))
    buffer.filledBy = FilledBy(readEnum(filledBy, kFilledByNames));
  checkFilled(cursor, buffer, manifest);
  checkValues(cursor, buffer);
  return buffer;
}

void optrt::readBuffers(const JsonCursor &cursor, Manifest &manifest) {
  std::set<std::string> names, savedNames;
  CheckedSize bytes = 0;
  for (const JsonCursor &entry : cursor.elements()) {
    Buffer buffer = readBuffer(entry, manifest, names, savedNames);
    // No buffer is larger than 2^51.
    bytes = bytes + buffer.numBytes();
    if (!bytes.isAtMost(kMaxBytes)) {
      entry.fail("with this one the buffers of a rank have more than 2^52 "
                 "bytes");
      return;
    }
    manifest.bufferIndices.emplace(buffer.name, manifest.buffers.size());
    manifest.buffers.push_back(std::move(buffer));
  }
  checkPacked(cursor, manifest.buffers, savedNames);
}
