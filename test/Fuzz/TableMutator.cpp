//===- TableMutator.cpp - Mutants of tables of commands -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TableMutator.h"

#include "schema/program_bfbs_generated.h"

#include <algorithm>
#include <cstring>
#include <flatbuffers/reflection_generated.h>
#include <iterator>
#include <string_view>

using namespace optimus_support::program;

namespace optimus_fuzz {

namespace {

/// Numbers of a long list of them, such as a constant's, that are changed.
constexpr uint32_t kMaxNumbers = 16;

size_t sizeOf(reflection::BaseType type) {
  switch (type) {
  case reflection::UType:
  case reflection::Bool:
  case reflection::Byte:
  case reflection::UByte:
    return 1;
  case reflection::Short:
  case reflection::UShort:
    return 2;
  case reflection::Int:
  case reflection::UInt:
  case reflection::Float:
    return 4;
  case reflection::Long:
  case reflection::ULong:
  case reflection::Double:
    return 8;
  default:
    return 0;
  }
}

/// The schema that flatc has written, aligned.
const void *schemaBytes() {
  static const std::vector<uint64_t> copy = [] {
    std::vector<uint64_t> words(ProgramsBinarySchema::size() / 8 + 1);
    std::memcpy(words.data(), ProgramsBinarySchema::data(),
                ProgramsBinarySchema::size());
    return words;
  }();
  return copy.data();
}

template <typename T> T readAt(const std::string &bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

} // namespace

/// Finds the places of a buffer by its schema.
class TableMutator::Walker {
public:
  Walker(const std::string &packed, std::vector<Field> &fields)
      : packed(packed), fields(fields),
        schema(*reflection::GetSchema(schemaBytes())) {}

  void walk() {
    walkTable(*schema.root_table(), readAt<uint32_t>(packed, 0));
  }

private:
  void walkTable(const reflection::Object &object, size_t table) {
    const size_t layout = table - readAt<int32_t>(packed, table);
    const auto known = readAt<uint16_t>(packed, layout);
    for (const reflection::Field *field : *object.fields()) {
      const uint16_t offset =
          field->offset() < known ? readAt<uint16_t>(packed, layout + field->offset())
                                  : 0;
      if (offset == 0)
        continue;
      const size_t at = table + offset;
      if (field->type()->base_type() == reflection::Union)
        walkUnion(object, *field, table, layout, at);
      else
        walkValue(object, *field, at);
    }
  }

  void walkUnion(const reflection::Object &object,
                 const reflection::Field &field, size_t table, size_t layout,
                 size_t at) {
    // The field of its type is the one before it.
    const auto offset =
        readAt<uint16_t>(packed, layout + field.offset() - sizeof(uint16_t));
    const auto type = readAt<uint8_t>(packed, table + offset);
    const reflection::EnumVal *chosen =
        schema.enums()->Get(field.type()->index())->values()->LookupByKey(type);
    if (type != 0)
      walkTable(*schema.objects()->Get(chosen->union_type()->index()),
                at + readAt<uint32_t>(packed, at));
  }

  void walkStruct(const reflection::Object &object, size_t at) {
    for (const reflection::Field *field : *object.fields())
      walkValue(object, *field, at + field->offset());
  }

  void walkValue(const reflection::Object &object,
                 const reflection::Field &field, size_t at) {
    const reflection::Type &type = *field.type();
    const reflection::BaseType base = type.base_type();
    if (const size_t size = sizeOf(base))
      return add(object, field, at, size);
    if (base == reflection::Obj) {
      const reflection::Object &inner = *schema.objects()->Get(type.index());
      return inner.is_struct()
                 ? walkStruct(inner, at)
                 : walkTable(inner, at + readAt<uint32_t>(packed, at));
    }
    // A string or a vector: its length, then its elements.
    const size_t list = at + readAt<uint32_t>(packed, at);
    const auto length = readAt<uint32_t>(packed, list);
    add(object, field, list, sizeof(uint32_t));
    if (base == reflection::String)
      return add(object, field, list + 4, length ? 1 : 0);
    const reflection::BaseType element = type.element();
    if (const size_t size = sizeOf(element)) {
      for (uint32_t i = 0; i != std::min(length, kMaxNumbers); ++i)
        add(object, field, list + 4 + i * size, size);
      return;
    }
    if (element != reflection::Obj)
      return;
    const reflection::Object &inner = *schema.objects()->Get(type.index());
    for (uint32_t i = 0; i != length; ++i)
      if (inner.is_struct()) {
        walkStruct(inner, list + 4 + i * inner.bytesize());
      } else {
        const size_t entry = list + 4 + i * sizeof(uint32_t);
        if (i + 1 != length)
          add(object, field, entry, sizeof(uint32_t), /*isOffset=*/true);
        walkTable(inner, entry + readAt<uint32_t>(packed, entry));
      }
  }

  void add(const reflection::Object &object, const reflection::Field &field,
           size_t at, size_t bytes, bool isOffset = false) {
    if (bytes)
      fields.push_back({&object, &field, at, static_cast<uint8_t>(bytes), isOffset});
  }

  const std::string &packed;
  std::vector<Field> &fields;
  const reflection::Schema &schema;
};

TableMutator::TableMutator(ProgramsT &programs) {
  programs.schema_hash = schemaHash();
  flatbuffers::FlatBufferBuilder builder;
  // What is left out cannot be changed.
  builder.ForceDefaults(true);
  FinishProgramsBuffer(builder, Programs::Pack(builder, &programs));
  packed.assign(reinterpret_cast<const char *>(builder.GetBufferPointer()),
                builder.GetSize());
  Walker(packed, fields).walk();
}

void TableMutator::keepToSequences() {
  static constexpr std::string_view kept[] = {
      "Sequence",    "Step", "Loop",    "Call", "Binding",
      "CounterTerm", "Send", "Receive", "Wait"};
  std::erase_if(fields, [](const Field &field) {
    const std::string name = field.object->name()->str();
    const std::string last = name.substr(name.rfind('.') + 1);
    // Of a table, too, which sequences it has.
    return std::ranges::find(kept, last) == std::end(kept) &&
           !(last == "ProgramTable" &&
             field.field->name()->string_view() == "sequences");
  });
}

/// A number that stands for one of so many bytes.
static uint64_t changeNumber(uint64_t old, unsigned bits, uint32_t way,
                             uint64_t noise) {
  const uint64_t sign = uint64_t(1) << (bits - 1);
  switch (way) {
  case 0:
    return 0;
  case 1:
    return 1;
  case 2:
    return ~uint64_t(0);
  case 3:
    return old + 1;
  case 4:
    return old - 1;
  case 5:
    return -old;
  case 6:
    return sign;
  case 7:
    return sign - 1;
  case 8:
    return old * 2;
  case 9:
    return old / 2;
  case 10:
    return old ^ (uint64_t(1) << noise % bits);
  default:
    return noise;
  }
}

void TableMutator::apply(std::string &bytes, size_t number, uint32_t way,
                         uint64_t noise, std::string &what) const {
  const Field &field = fields[number];
  what += (what.empty() ? "" : ", ") + field.object->name()->str() + "." +
          field.field->name()->str();
  if (field.isOffset) {
    // Offsets count from where they lie.
    const auto mine = readAt<uint32_t>(bytes, field.at),
               next = readAt<uint32_t>(bytes, field.at + 4);
    const uint32_t swapped = next + 4, back = mine - 4;
    std::memcpy(bytes.data() + field.at, &swapped, 4);
    // Now and then one of them is there twice.
    if (way % 3 != 0)
      std::memcpy(bytes.data() + field.at + 4, &back, 4);
    what += way % 3 ? " exchanged" : " twice";
    return;
  }
  uint64_t old = 0;
  std::memcpy(&old, bytes.data() + field.at, field.bytes);
  const uint64_t changed = changeNumber(old, field.bytes * 8u, way, noise);
  std::memcpy(bytes.data() + field.at, &changed, field.bytes);
  uint64_t shown = 0;
  std::memcpy(&shown, bytes.data() + field.at, field.bytes);
  what += " " + std::to_string(int64_t(shown)) + " for " +
          std::to_string(int64_t(old));
}

std::string TableMutator::change(size_t field, uint32_t way,
                                 std::string &what) const {
  std::string bytes = packed;
  apply(bytes, field, way, (field * 0x9e3779b97f4a7c15u) >> 7, what);
  return bytes;
}

std::string TableMutator::change(std::mt19937 &random,
                                 std::string &what) const {
  std::string bytes = packed;
  // Most mutants of many changes die of the first.
  for (uint32_t count = random() % 4 ? 1 : 2 + random() % 3; count; --count) {
    const size_t field = random() % fields.size();
    const uint32_t way = random() % kWays;
    apply(bytes, field, way, random() % 4 ? random() % 256 : random(), what);
  }
  return bytes;
}

} // namespace optimus_fuzz
