//===- ToyProgram.cpp - The tables of the model written by hand -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToyModel.h"

#include "optimus-testing/ProgramWriter.h"

#include <array>

using namespace optimus_support::program;

namespace optimus_toy {

namespace {

constexpr auto F32 = ElementType::F32;
constexpr auto I32 = ElementType::I32;
/// The mesh's only axis.
constexpr uint32_t kRow = 0;

/// The buffers of the arena, in floats. Everything is a multiple of 16 floats.
struct Arena {
  Arena(FunctionWriter &f, const Sizes &s)
      : f(f), all(f.arena(F32, floats(s))),
        table(take(s.paddedRows * kVocabulary)),
        oneHot(take(s.tokens * s.paddedRows)),
        logits(take(s.tokens * kVocabulary)), losses(take(s.tokens)),
        tableGrad(take(s.paddedRows * kVocabulary)),
        shardGrad(take(s.rows * kVocabulary)), biasGrad(take(kVocabulary)),
        sums(take(16)) {}

  static int64_t floats(const Sizes &s) {
    return 2 * s.paddedRows * kVocabulary + s.tokens * s.paddedRows +
           s.tokens * kVocabulary + (s.tokens + 15) / 16 * 16 +
           s.rows * kVocabulary + kVocabulary + 16;
  }
  View take(int64_t elements) {
    View view = f.at(all, next, elements);
    next += (elements + 15) / 16 * 16;
    return view;
  }

  FunctionWriter &f;
  int64_t next = 0;
  View all;
  View table;     // [padded, V]
  View oneHot;    // [tokens, padded]
  View logits;    // [tokens, V], then their gradient
  View losses;    // [tokens]
  View tableGrad; // [padded, V]
  View shardGrad; // [local, V]
  View biasGrad;  // [V]
  View sums;      // loss, count, norm^2, scale of the gradient
};

/// Writes the parts that the functions share.
class Writer {
public:
  Writer(FunctionWriter f, const Sizes &sizes, Fault fault)
      : f(f), s(sizes), fault(fault), arena(this->f, sizes) {}

  void trainStep(bool isLast);
  void evalStep();
  void gradStep();

private:
  void collective(CollectiveKind kind, View src, View dst) {
    f.wait(f.collective(kind, {kRow}, src, dst));
  }
  void addModel(const std::string &table = "table.weight") {
    shard = f.argument(F32, s.rows * kVocabulary, table);
    bias = f.argument(F32, kVocabulary, "table.bias");
  }
  void addInputs() {
    tokens = f.argument(I32, s.tokens, "tokens");
    targets = f.argument(I32, s.tokens, "targets");
  }
  void addLoss() {
    lossSum = f.argument(F32, 1, "loss_sum");
    realCount = f.argument(F32, 1, "real_count");
  }
  /// Loss, count and logits' gradient of the batch.
  void forward();
  /// The complete gradients, of W's shard and of b.
  void backward(View shardGrad, View biasGrad);

  FunctionWriter f;
  const Sizes &s;
  const Fault fault;
  Arena arena;
  View shard, bias, tokens, targets, lossSum, realCount;
};

void Writer::forward() {
  f.from("table");
  collective(CollectiveKind::AllGather, shard, arena.table);
  f.fill(arena.oneHot);
  f.launch("one_hot", {.extent = s.tokens, .grain = 8},
           {read(tokens), update(arena.oneHot)},
           {f.integer({.constant = s.paddedRows})});
  GemmT gemm;
  gemm.m = s.tokens;
  gemm.n = kVocabulary;
  gemm.k = s.paddedRows;
  f.gemm(
      gemm,
      {.a = arena.oneHot, .b = arena.table, .c = arena.logits, .bias = bias});
  f.from("loss");
  f.launch("cross_entropy", {.extent = s.tokens, .grain = 8},
           {read(targets), update(arena.logits), write(arena.losses)});
  View sums = f.at(arena.sums, 0, 2);
  f.launch("sum_losses", {}, {read(targets), read(arena.losses), write(sums)},
           {f.integer({.constant = s.tokens})});
  collective(CollectiveKind::AllReduce, sums, sums);
  f.copy(f.at(arena.sums, 0, 1), lossSum);
  f.copy(f.at(arena.sums, 1, 1), realCount);
}

void Writer::backward(View shardGrad, View biasGrad) {
  f.from("table");
  GemmT gemm;
  gemm.m = s.paddedRows;
  gemm.n = kVocabulary;
  gemm.k = s.tokens;
  gemm.trans_a = true;
  f.gemm(gemm, {.a = arena.oneHot, .b = arena.logits, .c = arena.tableGrad});
  auto reduceTable = [&] {
    uint32_t start = f.collective(CollectiveKind::ReduceScatter, {kRow},
                                  arena.tableGrad, shardGrad);
    if (fault == Fault::Race)
      f.command(start).after.clear();
    f.wait(start);
  };
  if (fault != Fault::Order)
    reduceTable();
  f.launch("sum_columns", {.extent = kVocabulary, .grain = 64},
           {read(arena.logits), write(biasGrad)},
           {f.integer({.constant = s.tokens})});
  if (fault == Fault::Gradient)
    f.launch("spoil", {}, {update(f.at(biasGrad, 7, 1))}, {f.real(0.5f)});
  collective(CollectiveKind::AllReduce, biasGrad, biasGrad);
  if (fault == Fault::Order)
    reduceTable();
}

void Writer::trainStep(bool isLast) {
  addModel();
  auto ofParameters = [&](const std::string &role) -> std::array<View, 2> {
    return {f.argument(F32, s.rows * kVocabulary, role + ":table.weight"),
            f.argument(F32, kVocabulary, role + ":table.bias")};
  };
  const std::array<View, 2> firstMoments = ofParameters("exp_avg"),
                            secondMoments = ofParameters("exp_avg_sq");
  addInputs();
  auto number = [&](const char *name) { return f.argument(F32, 1, name); };
  View lr = number("lr"), decay = number("weight_decay"), clip = number("clip"),
       beta1 = number("beta1"), beta2 = number("beta2"),
       epsilon = number("epsilon"), beta1Power = number("beta1_power"),
       beta2Power = number("beta2_power");
  addLoss();
  View gradNorm = number("grad_norm");

  if (fault == Fault::Rank) {
    f.from("clock");
    if (isLast)
      f.launch("watch_step", {}, {});
    else
      f.fill(arena.sums);
  }
  if (fault == Fault::Stall) {
    f.from("clock", "toy.py:12");
    f.launch("stall", {}, {},
             {f.integer({.constant = 1 - s.ranks, .terms = {Term(1, kRow)}})});
  }
  forward();
  backward(arena.shardGrad, arena.biasGrad);

  f.from("optimizer");
  View squares = f.at(arena.sums, 2, 1), scale = f.at(arena.sums, 3, 1);
  // b is on every rank and counts once.
  f.launch("sum_squares", {},
           {read(arena.shardGrad), read(arena.biasGrad), write(squares)},
           {f.integer({.constant = s.rows * kVocabulary}),
            f.integer({.terms = {Term(1, kRow)}})});
  collective(CollectiveKind::AllReduce, squares, squares);
  f.launch("norm", {},
           {read(squares), read(realCount), read(clip), write(gradNorm),
            write(scale)});
  View params[] = {shard, bias};
  View grads[] = {arena.shardGrad, arena.biasGrad};
  for (int i = 0; i != 2; ++i)
    f.launch("adamw", {.extent = params[i].elements, .grain = 4096},
             {update(params[i]), update(firstMoments[i]),
              update(secondMoments[i]), read(grads[i]), read(scale), read(lr),
              read(decay), read(beta1), read(beta2), read(epsilon),
              read(beta1Power), read(beta2Power)},
             {f.integer({.constant = i == 0})});
}

void Writer::evalStep() {
  addModel(fault == Fault::Prepare ? "copy:table.weight" : "table.weight");
  addInputs();
  addLoss();
  forward();
}

void Writer::gradStep() {
  addModel();
  addInputs();
  View shardGrad = f.argument(F32, s.rows * kVocabulary, "grad:table.weight"),
       biasGrad = f.argument(F32, kVocabulary, "grad:table.bias");
  addLoss();
  forward();
  backward(shardGrad, biasGrad);
}

/// The signatures of kernels with launches of different sizes, or with sizes
/// given by a scalar. See ToyKernels.c.
void describeKernels(ProgramWriter &programs) {
  constexpr auto R = Access::Read, W = Access::Write, U = Access::Update;
  programs.kernel("one_hot",
                  {{R, {perIteration()}, I32}, {U, {perIteration(1, 0)}}},
                  {{.least = kVocabulary}});
  programs.kernel("cross_entropy", {{R, {perIteration()}, I32},
                                    {U, {perIteration(kVocabulary)}},
                                    {W, {perIteration()}}},
                  {});
  programs.kernel(
      "sum_losses",
      {{R, {perScalar(0)}, I32}, {R, {perScalar(0)}}, {W, {once(2)}}},
      {{.least = 0}});
  programs.kernel("sum_columns",
                  {{R, {perScalar(0, kVocabulary)}}, {W, {perIteration()}}},
                  {{.least = 0}}, /*iterations=*/kVocabulary);
  programs.kernel(
      "sum_squares",
      {{R, {perScalar(0)}}, {R, {once(kVocabulary)}}, {W, {once(1)}}},
      {{.least = 0}, {}});
  std::vector<Takes> tensors(3, {U, {perIteration()}});
  tensors.push_back({R, {perIteration()}});
  tensors.insert(tensors.end(), 8, {R, {once(1)}});
  programs.kernel("adamw", tensors, {{}});
}

void writePrepare(FunctionWriter f, const Sizes &sizes) {
  f.table().prepares = true;
  View table = f.argument(F32, sizes.rows * kVocabulary, "table.weight"),
       copy = f.argument(F32, sizes.rows * kVocabulary, "copy:table.weight");
  f.copy(table, copy);
}

void writeTable(ProgramWriter &programs, const Sizes &sizes, Fault fault,
                bool isLast) {
  Writer(programs.function("train_step"), sizes, fault).trainStep(isLast);
  if (fault == Fault::Prepare)
    writePrepare(programs.function("prepare"), sizes);
  Writer(programs.function("eval_step"), sizes, fault).evalStep();
  Writer(programs.function("grad_step"), sizes, fault).gradStep();
  programs.sequence("train", {{"train_step", 1}});
  if (fault == Fault::Prepare) {
    programs.sequence("eval", {{"prepare", 1}, {"eval_step", 0}});
    return;
  }
  programs.sequence("eval_twice", {{"eval_step", 0}, {"grad_step", 1}});
  // Of the averages of gradients, as if they were the table.
  const std::vector<std::string> average = {"exp_avg:table.weight"};
  programs.sequence("eval_average").call("eval_step", {{.buffers = average}});
  // Of both in turns, and then of the table again.
  programs.sequence("eval_both")
      .loop(2,
            [](SequenceWriter &body) {
              body.call("eval_step",
                        {{.buffers = {"table.weight", "exp_avg:table.weight"},
                          .terms = {CounterTerm(1, 0)}}})
                  .call("grad_step");
            })
      .loop(0, [](SequenceWriter &body) {
        body.call("eval_step").call("grad_step");
      });
}

std::vector<std::string> slotNames() {
  std::vector<std::string> names;
  for (int slot = 0; slot != kSlots; ++slot)
    names.push_back("slot" + std::to_string(slot));
  return names;
}

/// Moves a slot to or from the other rank, from or to another buffer.
void writeMessage(FunctionWriter f, bool isSend, int64_t peer,
                  const std::string &other = "") {
  View slot = f.argument(F32, kVocabulary, "slot0");
  if (isSend && !other.empty())
    f.copy(f.argument(F32, kVocabulary, other), slot);
  f.wait(f.message(isSend, kRow, peer, slot));
  if (!isSend && !other.empty())
    f.copy(slot, f.argument(F32, kVocabulary, other));
}

/// A loop over the slots with calls of two functions, after each other.
void writeEcho(ProgramWriter &programs, const char *first, const char *second) {
  auto turns = [&](const char *function) {
    return [function](SequenceWriter &body) {
      body.call(function,
                {{.buffers = slotNames(), .terms = {CounterTerm(1, 0)}}});
    };
  };
  programs.sequence("echo")
      .call("eval_step")
      .loop(kSlots, turns(first))
      .loop(kSlots, turns(second));
}

void writeStage(ProgramWriter &programs, int rank) {
  if (rank == 0) {
    writeMessage(programs.function("give"), true, 1, "table.bias");
    writeMessage(programs.function("check"), false, 1, "echo");
    writeEcho(programs, "give", "check");
  } else {
    writeMessage(programs.function("take"), false, 0);
    writeMessage(programs.function("give_back"), true, 0);
    writeEcho(programs, "take", "give_back");
  }
}

} // namespace

ProgramsT writePrograms(const Sizes &sizes, Fault fault) {
  ProgramWriter programs(optimus_support::Mesh({{"row", sizes.ranks}}));
  describeKernels(programs);
  if (fault == Fault::Rank) {
    programs.beginTable(sizes.ranks - 1);
    writeTable(programs, sizes, fault, /*isLast=*/false);
    programs.beginTable(1);
  }
  if (fault == Fault::Stages) {
    programs.beginTable(1);
    writeTable(programs, sizes, fault, /*isLast=*/false);
    writeStage(programs, 0);
    programs.beginTable(1);
  }
  writeTable(programs, sizes, fault, /*isLast=*/true);
  if (fault == Fault::Stages)
    writeStage(programs, 1);
  if (fault == Fault::Kernel)
    programs.kernel("forgotten");
  return programs.finish();
}

} // namespace optimus_toy
