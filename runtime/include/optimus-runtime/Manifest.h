//===- Manifest.h - What the runtime knows of a model -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The manifest of a model library (docs/manifest.md) as plain structures.
// Everything in a parsed manifest has been checked: indices are in range,
// products of extents fit int64_t, shards cover their tensors.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MANIFEST_H
#define OPTIMUS_RUNTIME_MANIFEST_H

#include "optimus-runtime/Dataset.h"
#include "optimus-runtime/Status.h"
#include "optimus-support/Initialize.h"
#include "optimus-support/Mesh.h"
#include "optimus-support/Shard.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace optrt {

using optimus_support::Mesh;
using optimus_support::ShardLayout;

/// A class of dimensions that some axis cuts or that is padded.
struct Dimension {
  std::string name;
  int64_t size = 0;
  int64_t padded = 0;    ///< at least size
  std::vector<int> axes; ///< mesh axes that cut it in some tensor
};

/// A trained tensor; its gradient has the same layout.
struct Param {
  std::string name;             ///< Hugging Face's
  std::vector<int64_t> hfShape; ///< same elements, same row-major order
  ShardLayout layout;
  ShardLayout state; ///< of its moments: may be cut by more axes
  optimus_support::Initializer init;
  bool decay = false; ///< whether weight decay applies
};

enum class ArgKind {
  Param,    ///< `index` is the parameter's
  ExpAvg,   ///< first moment of parameter `index`
  ExpAvgSq, ///< second moment of parameter `index`
  MomentumBuffer, ///< what SGD's momentum adds up for parameter `index`
  Tokens,   ///< i32, laid out as Manifest::tokens
  Targets,  ///< i32, laid out as Manifest::targets
  Random,   ///< optimus_support::kNumRandomWords i32 words of a step
  Scalar,   ///< pointer to one f32, see Scalar
  Grad,     ///< where the gradient of parameter `index` goes
  Output,   ///< pointer to one f32, see Output
};

/// Whether it is something that an optimizer keeps of a parameter.
inline bool isOptimizerState(ArgKind kind) {
  return kind == ArgKind::ExpAvg || kind == ArgKind::ExpAvgSq ||
         kind == ArgKind::MomentumBuffer;
}

/// The run-time scalars. The powers are beta to the number of the step, from 1.
enum class Scalar {
  Lr,
  WeightDecay,
  Clip,
  Beta1,
  Beta2,
  Epsilon,
  Beta1Power,
  Beta2Power,
  Momentum,
};
inline constexpr int kNumScalars = 9;

enum class Output { LossSum, RealCount, GradNorm };
inline constexpr int kNumOutputs = 3;

/// One entry of a function's args[].
struct Arg {
  ArgKind kind = ArgKind::Param;
  int64_t index = -1;              ///< of Param, Grad and what optimizers keep
  Scalar scalar = Scalar::Lr;      ///< of Scalar
  Output output = Output::LossSum; ///< of Output
  /// Of what grad_step writes: its relative rounding error in units of 2^-24,
  /// if the program handed on relative errors as they are.
  std::optional<double> rounding;
};

/// Communication of one call on one mesh axis, summed over ranks.
struct AxisTraffic {
  int axis = 0; ///< index in the mesh
  int64_t bytes = 0;
  int64_t messages = 0; ///< collectives that one rank starts
};

/// What the compiler predicted of one call, and what overlapping communication
/// with computation costs.
struct Schedule {
  double stepMs = 0;
  double commMs = 0;    ///< all collectives, one after the other
  double exposedMs = 0; ///< of them, what is waited for
  int64_t extraWorkspaceBytes = 0;
  int64_t notOverlapped = 0;  ///< collectives that overlap with nothing
  int64_t outOfWorkspace = 0; ///< of them, those for want of workspace
};

struct Function {
  std::string name; ///< "train_step", "eval_step", "grad_step"
  std::vector<Arg> args;
  int64_t commands = 0; ///< command ids are below it
  int64_t arenaBytes = 0;
  int64_t lowerBoundBytes = 0;              ///< most bytes live at once
  std::map<std::string, int64_t> peakBytes; ///< by category
  std::vector<AxisTraffic> communication;
  std::optional<Schedule> schedule;

  /// The argument that is the gradient of a parameter, or null.
  const Arg *findGradient(int64_t param) const;
  /// The argument that is an output, or null.
  const Arg *findOutput(Output output) const;
  /// Whether it writes this output.
  bool hasOutput(Output output) const;
};

struct Manifest {
  int64_t format = 1;
  std::string compiler;
  std::string sourceHash; ///< 16 hexadecimal digits
  std::string modelHash;  ///< 16 hexadecimal digits
  std::string targetCpu;
  std::vector<std::string> targetFeatures; ///< LLVM's names
  Mesh mesh;
  std::string strategy;
  int64_t batch = 0; ///< sequences of the global batch
  int64_t sequence = 0;
  int64_t vocabulary = 0;
  /// Nothing where the objective is the next token.
  std::optional<MaskedObjective> masked;
  std::string optimizer;
  /// What it keeps of each parameter.
  std::vector<ArgKind> optimizerState;
  std::vector<Dimension> dimensions;
  std::vector<Param> params;
  ShardLayout tokens;  ///< [batch, sequence]
  ShardLayout targets; ///< [batch, sequence]
  std::vector<Function> functions;

  /// The function called `name`, or null.
  const Function *findFunction(std::string_view name) const;
  /// Elements of all parameters, unpadded.
  int64_t numParamElements() const;
};

/// The manifest's spelling: "lr", "beta1_power"; "loss_sum"; "exp_avg".
std::string_view toString(Scalar scalar);
std::string_view toString(Output output);
std::string_view toString(ArgKind kind);

/// Reads and checks a manifest. A failure is InvalidArgument and names the
/// entry, for instance "params[3].local_shape[1]".
StatusOr<Manifest> parseManifest(std::string_view json);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MANIFEST_H
