//===- ProgramRoom.h - Commands that nothing emits yet ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_UNITTESTS_PROGRAMROOM_H
#define OPTIMUS_SUPPORT_UNITTESTS_PROGRAMROOM_H

#include "ProgramTest.h"

#include "optimus-support/ProgramPrinter.h"

namespace program_room {

using namespace optimus_support;
using namespace optimus_support::program;
using testing::HasSubstr;

/// One function on a mesh row:2,col:3 with 64 floats and 8 numbers.
class ProgramRoom : public ProgramTest {
protected:
  template <typename T> ActionUnion unite(T action) {
    ActionUnion result;
    result.Set(std::move(action));
    return result;
  }
  /// Puts a neighbour's index on an axis into a send or receive of 4 numbers.
  template <typename T> T peer(uint32_t axis, const IntegerT &peer) {
    T action;
    action.axis = axis;
    action.peer = std::make_unique<IntegerT>(peer);
    action.rows = 1;
    action.cols = 4;
    return action;
  }
  static IntegerT integer(int64_t constant, std::vector<Term> terms = {}) {
    IntegerT result;
    result.constant = constant;
    result.terms = std::move(terms);
    return result;
  }
  View part(int64_t offset, int64_t elements,
            ElementType type = ElementType::F32) {
    View view = f.at(arena, offset, elements);
    view.type = type;
    return view;
  }
  /// Of one row of 4, over the three ranks of a row.
  CollectiveT collective(CollectiveKind kind) {
    CollectiveT result;
    result.kind = kind;
    result.axes = {1};
    result.outer = 1;
    result.inner = 4;
    return result;
  }

  void accept(const std::string &printed = "") {
    all = programs.finish();
    auto read = unpack(pack(all));
    ASSERT_TRUE(read.ok()) << read.status().message();
    const TargetT &target = *read->targets.front();
    EXPECT_THAT(print(*read, target, *target.tables.front(),
                      *target.tables.front()->functions.front()),
                HasSubstr(printed));
  }

  FunctionWriter f = programs.function("f");
  View arena = f.arena(ElementType::F32, 64);
  View numbers = f.argument(ElementType::I32, 8);
  ProgramsT all;
};

} // namespace program_room

#endif // OPTIMUS_SUPPORT_UNITTESTS_PROGRAMROOM_H
