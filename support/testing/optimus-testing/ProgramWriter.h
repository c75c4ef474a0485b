//===- ProgramWriter.h - Tables of commands by hand -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes programs without a compiler: models for tests, and tests of what
// checks and executes programs.
//
//   ProgramWriter programs(Mesh({{"row", 2}}));
//   FunctionWriter f = programs.function("eval_step");
//   View x = f.argument(ElementType::F32, 16);
//   View arena = f.arena(ElementType::F32, 1024);
//   View y = f.at(arena, 512, 16);
//   f.launch("gelu", {.extent = 16}, {read(x), write(y)});
//   f.wait(f.collective(CollectiveKind::AllReduce, {0}, y, y));
//   ProgramsT all = programs.finish();
//
// Computing is on one queue, in the order of writing; collectives are on the
// queue of their mesh axes, after all that was computed before. What is wrong
// can be written too: check() refuses it.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TESTING_PROGRAMWRITER_H
#define OPTIMUS_TESTING_PROGRAMWRITER_H

#include "optimus-support/Program.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace optimus_support::program {

class ProgramWriter;

/// Elements that begin at an address of a function; View() is no buffer.
struct View {
  uint32_t address = kNone;
  ElementType type = ElementType::F32;
  int64_t elements = 0;
};

/// How a kernel touches a buffer.
struct Use {
  View view;
  Access access;
};
inline Use read(View view) { return {view, Access::Read}; }
inline Use write(View view) { return {view, Access::Write}; }
inline Use update(View view) { return {view, Access::Update}; }

/// How a kernel touches a buffer that it takes: the sum of `extents` elements.
struct Takes {
  Access access;
  std::vector<Extent> extents;
  ElementType type = ElementType::F32;
};
/// Elements, whatever the launch; for each iteration; or as many as a scalar
/// says, each time.
inline Extent once(int64_t elements) { return {elements, kNone, false}; }
inline Extent perIteration(int64_t elements = 1, uint32_t scalar = kNone) {
  return {elements, scalar, true};
}
inline Extent perScalar(uint32_t scalar, int64_t elements = 1) {
  return {elements, scalar, false};
}

/// A scalar that a kernel takes.
struct Bounds {
  int64_t least = INT64_MIN, most = INT64_MAX;
  ElementType type = ElementType::I64;
};

/// constant + terms, in [least, most].
struct Sum {
  int64_t constant = 0;
  std::vector<Term> terms = {}; ///< Term(scale, axis)
  int64_t least = INT64_MIN, most = INT64_MAX;
};

/// A kernel's iterations.
struct Iterations {
  int64_t extent = 1, grain = 1;
};

struct GemmViews {
  View a = {}, b = {}, c = {}, bias = {}, extra = {}, live = {};
};
struct AttentionViews {
  View q = {}, k = {}, v = {}, lengths = {}, positions = {}, out = {};
  View lse = {}, workspace = {}, pages = {};
};
struct AttentionGradViews {
  View dout = {}, q = {}, k = {}, v = {}, lengths = {}, positions = {};
  View out = {}, lse = {};
  View dq = {}, dk = {}, dv = {}, workspace = {};
};

/// Writes one function, one command after the other. Each returns its command's
/// number. Leading dimensions that are 0 become those of matrices without gaps.
/// Valid until its ProgramWriter is finished.
class FunctionWriter {
public:
  //===--------------------------------------------------------------------===//
  // Memory
  //===--------------------------------------------------------------------===//

  View arena(ElementType type, int64_t elements,
             MemorySpace space = MemorySpace::Device);
  /// `buffer` is its name in a manifest, if there is one.
  View argument(ElementType type, int64_t elements,
                const std::string &buffer = {});
  View constant(const std::vector<float> &values);
  /// `elements` of a view that is no choice, from an offset in elements on.
  View at(View base, int64_t offset, int64_t elements);
  View at(View base, const Sum &offset, int64_t elements);
  /// `mine` on ranks whose index on `axis` is `coordinate`, elsewhere `other`.
  View choose(uint32_t axis, int64_t coordinate, View mine, View other);
  /// Lists a view of an arena (one alike on all ranks) as a buffer that is
  /// alive from command `first` to `last`.
  BufferT &buffer(View view, uint32_t first, uint32_t last,
                  const std::string &category = "");

  //===--------------------------------------------------------------------===//
  // Scalars
  //===--------------------------------------------------------------------===//

  uint32_t integer(const Sum &sum);
  uint32_t real(float value);

  //===--------------------------------------------------------------------===//
  // Commands
  //===--------------------------------------------------------------------===//

  /// Those that follow belong to `path` and are written at `source`; nothing
  /// where these are empty.
  void from(const std::string &path, const std::string &source = "");

  uint32_t gemm(GemmT gemm, const GemmViews &views);
  /// Into all of `dst`.
  uint32_t pack(PackMatrixT pack, View src, View dst);
  uint32_t launch(const std::string &kernel, const Iterations &iterations,
                  const std::vector<Use> &buffers,
                  std::vector<uint32_t> scalars = {});
  uint32_t copy(CopyT copy, View src, View dst);
  /// All elements.
  uint32_t copy(View src, View dst);
  uint32_t fill(View dst);
  uint32_t attention(const AttentionShapeT &shape, const AttentionViews &views);
  uint32_t attentionGrad(const AttentionShapeT &shape,
                         const AttentionGradViews &views);
  uint32_t collective(CollectiveT collective, View src, View dst);
  /// Of one row: all of the smaller view.
  uint32_t collective(CollectiveKind kind, std::vector<uint32_t> axes, View src,
                      View dst);
  /// To or from the rank whose index on `axis` is `peer`: one row, all of the
  /// view. `carried`: a later call waits for it under this number.
  uint32_t message(bool isSend, uint32_t axis, int64_t peer, View view,
                   uint32_t carried = 0);
  uint32_t wait(uint32_t command);
  uint32_t waitCarried(uint32_t number);
  /// Any action with operands in its order, for what is not above.
  uint32_t add(ActionUnion action, const std::vector<View> &operands);

  /// What was written, to be bent.
  FunctionT &table() { return function; }
  CommandT &command(uint32_t number) { return *function.commands[number]; }

private:
  friend class ProgramWriter;
  FunctionWriter(ProgramWriter &programs, FunctionT &function)
      : programs(programs), function(function) {}

  View addPlace(Base base, uint32_t index, ElementType type, int64_t elements);
  std::unique_ptr<IntegerT> convert(const Sum &sum, int64_t scale) const;
  /// The queue of an action; made where it is the first on it.
  uint32_t queueFor(const ActionUnion &action);
  uint32_t append(std::unique_ptr<CommandT> command);

  ProgramWriter &programs;
  FunctionT &function;
  uint32_t path = kNone, source = kNone;
  uint32_t lastComputed = kNone;
};

/// Chooses a buffer for an argument of a call: number constant + terms, a
/// CounterTerm(scale, loop) each.
struct Choose {
  uint32_t argument = 0;
  std::vector<std::string> buffers;
  int64_t constant = 0;
  std::vector<CounterTerm> terms = {};
};

/// Writes the steps of a sequence or of a loop.
class SequenceWriter {
public:
  SequenceWriter &call(std::string function, std::vector<Choose> bindings = {});
  /// Steps in a row, so often; 0: as often as the caller says.
  SequenceWriter &loop(uint32_t times,
                       const std::function<void(SequenceWriter &)> &body);

private:
  friend class ProgramWriter;
  explicit SequenceWriter(std::vector<std::unique_ptr<StepT>> &steps)
      : steps(steps) {}

  std::vector<std::unique_ptr<StepT>> &steps;
};

/// Programs of one target.
class ProgramWriter {
public:
  explicit ProgramWriter(Mesh mesh, const std::string &target = "cpu");

  /// Begins a table of its own for the next ranks. Without it, one table is for
  /// all ranks.
  void beginTable(int64_t ranks);
  /// Begins a function of the table. The writer must outlive what it returns.
  FunctionWriter function(const std::string &name);
  /// The number of a kernel, which code must be there for.
  uint32_t kernel(std::string_view name);
  /// Says what a kernel takes. Of one of which nobody says it, launches tell.
  void kernel(std::string_view name, const std::vector<Takes> &buffers,
              const std::vector<Bounds> &scalars,
              int64_t iterations = INT64_MAX);

  /// Begins a sequence of the table.
  SequenceT &sequence(std::string name, const Calls &calls) {
    return addSequence(table(), std::move(name), calls);
  }
  SequenceWriter sequence(std::string name) {
    return SequenceWriter(sequence(std::move(name), Calls()).steps);
  }

  /// Says how functions touch their arguments: as their commands do, together.
  /// The last that is asked of the writer.
  ProgramsT finish();

private:
  friend class FunctionWriter;

  TargetT &target() { return *programs.targets.front(); }
  ProgramTableT &table() { return *target().tables.back(); }
  uint32_t text(const std::string &text);

  const Mesh mesh;
  ProgramsT programs;
};

} // namespace optimus_support::program

#endif // OPTIMUS_TESTING_PROGRAMWRITER_H
