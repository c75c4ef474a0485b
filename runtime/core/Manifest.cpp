//===- Manifest.cpp - What the runtime knows of a model -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Manifest.h"

#include "core/JsonCursor.h"
#include "optimus-support/Hash.h"
#include "optimus-support/Philox.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace optrt;
using namespace optimus_support;

// Bounds beyond any real model that keep every product below in int64_t:
// elements of a tensor also stay below the generator's 2^49.
static constexpr int64_t kMaxElements = int64_t(1) << 48;
static constexpr int64_t kMaxBytes = int64_t(1) << 52;
static constexpr int64_t kMaxRanks = int64_t(1) << 24;
static constexpr size_t kMaxDims = 16;

static constexpr std::string_view kScalarNames[kNumScalars] = {
    "lr",    "weight_decay", "clip",        "beta1",
    "beta2", "epsilon",      "beta1_power", "beta2_power",
    "momentum"};
static constexpr std::string_view kOutputNames[kNumOutputs] = {
    "loss_sum", "real_count", "grad_norm"};
static constexpr std::string_view kArgKindNames[] = {
    "param",  "exp_avg", "exp_avg_sq", "momentum_buffer", "tokens", "targets",
    "random", "scalar",  "grad",       "output"};

std::string_view optrt::toString(Scalar scalar) {
  return kScalarNames[int(scalar)];
}
std::string_view optrt::toString(Output output) {
  return kOutputNames[int(output)];
}
std::string_view optrt::toString(ArgKind kind) {
  return kArgKindNames[int(kind)];
}

const Arg *Function::findGradient(int64_t param) const {
  for (const Arg &arg : args)
    if (arg.kind == ArgKind::Grad && arg.index == param)
      return &arg;
  return nullptr;
}

const Arg *Function::findOutput(Output output) const {
  for (const Arg &arg : args)
    if (arg.kind == ArgKind::Output && arg.output == output)
      return &arg;
  return nullptr;
}

bool Function::hasOutput(Output output) const { return findOutput(output); }

const Function *Manifest::findFunction(std::string_view name) const {
  for (const Function &function : functions)
    if (function.name == name)
      return &function;
  return nullptr;
}

int64_t Manifest::numParamElements() const {
  int64_t count = 0;
  for (const Param &param : params)
    count += param.layout.numElements();
  return count;
}

/// The index of the cursor's string among `names`; 0 after a mistake.
template <size_t N>
static int readEnum(const JsonCursor &cursor,
                    const std::string_view (&names)[N]) {
  std::string text = cursor.string();
  for (size_t i = 0; i < N; ++i)
    if (names[i] == text)
      return int(i);
  std::string known;
  for (std::string_view name : names)
    known += concat(known.empty() ? "" : ", ", name);
  cursor.fail(concat("expected one of ", known, "; found \"", text, "\""));
  return 0;
}

static std::string readHash(const JsonCursor &cursor) {
  std::string text = cursor.string();
  if (!hashFromHex(text))
    cursor.fail(concat("expected 16 lower-case hexadecimal digits, found \"",
                       text, "\""));
  return text;
}

static std::string readName(const JsonCursor &cursor,
                            std::set<std::string> &taken) {
  std::string name = cursor.string();
  if (name.empty())
    cursor.fail("expected a name, found an empty string");
  if (!taken.insert(name).second)
    cursor.fail(concat("the name \"", name, "\" is used twice"));
  return name;
}

/// Nothing after a mistake: the mesh may have no axis to stand in.
static std::optional<int> readAxis(const JsonCursor &cursor, const Mesh &mesh) {
  std::string name = cursor.string();
  std::optional<int> axis = mesh.findAxis(name);
  if (!axis)
    cursor.fail(concat("no axis \"", name, "\" in the mesh ", mesh.toString()));
  return axis;
}

/// Reads extents of at least 1 whose product is at most kMaxElements.
static std::vector<int64_t> readShape(const JsonCursor &cursor) {
  std::vector<int64_t> shape = cursor.integers(1, kMaxElements);
  if (shape.size() > kMaxDims) {
    cursor.fail(concat("expected at most ", kMaxDims, " dimensions, found ",
                       shape.size()));
    return {};
  }
  int64_t room = kMaxElements;
  for (int64_t extent : shape) {
    room /= extent;
    if (room == 0) {
      cursor.fail(concat("more than 2^48 elements in ", shapeToString(shape)));
      return {};
    }
  }
  return shape;
}

static Mesh readMesh(const JsonCursor &cursor) {
  std::vector<MeshAxis> axes;
  std::set<std::string> taken;
  int64_t room = kMaxRanks;
  for (const JsonCursor &entry : cursor.elements()) {
    MeshAxis axis;
    axis.name = readName(entry["axis"], taken);
    axis.size = entry["size"].integer(1, kMaxRanks);
    room /= axis.size;
    if (room == 0) {
      entry.fail(concat("the mesh has more than ", kMaxRanks, " ranks"));
      return Mesh();
    }
    axes.push_back(axis);
  }
  return Mesh(std::move(axes));
}

/// Reads local_shape and sharding of a tensor of some shape, and checks that
///  the shards cover the tensor with no more padding than `dimensions` say.
static ShardLayout readLayout(const JsonCursor &cursor,
                              std::vector<int64_t> shape,
                              const Manifest &manifest) {
  ShardLayout layout;
  layout.shape = std::move(shape);
  layout.localShape = readShape(cursor["local_shape"]);
  std::set<int> used;
  for (const JsonCursor &dimension : cursor["sharding"].elements()) {
    std::vector<int> &axes = layout.axes.emplace_back();
    for (const JsonCursor &entry : dimension.elements()) {
      std::optional<int> axis = readAxis(entry, manifest.mesh);
      if (!axis)
        return {};
      axes.push_back(*axis);
      if (!used.insert(*axis).second)
        entry.fail(
            concat("the axis \"", entry.string(), "\" cuts the tensor twice"));
    }
  }
  const size_t dims = layout.shape.size();
  if (layout.localShape.size() != dims || layout.axes.size() != dims) {
    cursor.fail(concat("shape, local_shape and sharding need one entry a "
                       "dimension; they have ",
                       dims, ", ", layout.localShape.size(), " and ",
                       layout.axes.size()));
    return {};
  }

  int64_t room = kMaxElements;
  for (size_t d = 0; d < dims; ++d) {
    // At most 2^48 times 2^24 ranks would overflow; divide instead.
    int64_t parts = manifest.mesh.combinedSize(layout.axes[d]);
    int64_t local = layout.localShape[d];
    if (local > room / parts) {
      cursor.fail("more than 2^48 elements with padding");
      return {};
    }
    int64_t padded = local * parts;
    room /= padded;
    if (padded < layout.shape[d])
      cursor.fail(concat("local_shape[", d, "]: ", parts, " shards of ", local,
                         " do not cover the extent ", layout.shape[d]));
    if (padded == layout.shape[d])
      continue;
    bool known = false;
    for (const Dimension &dimension : manifest.dimensions)
      known |= dimension.size == layout.shape[d] && dimension.padded == padded;
    if (!known)
      cursor.fail(concat("local_shape[", d, "]: ", parts, " shards of ", local,
                         " pad the extent ", layout.shape[d], " to ", padded,
                         ", which no entry of \"dimensions\" says"));
  }
  return layout;
}

static Dimension readDimension(const JsonCursor &cursor, const Mesh &mesh,
                               std::set<std::string> &taken) {
  Dimension dimension;
  dimension.name = readName(cursor["name"], taken);
  dimension.size = cursor["size"].integer(1, kMaxElements);
  dimension.padded = cursor["padded"].integer(dimension.size, kMaxElements);
  for (const JsonCursor &axis : cursor["axes"].elements())
    if (std::optional<int> index = readAxis(axis, mesh))
      dimension.axes.push_back(*index);
  return dimension;
}

static Initializer readInitializer(const JsonCursor &cursor) {
  static constexpr std::string_view kinds[] = {"normal", "zeros", "ones"};
  Initializer init;
  init.kind = InitKind(readEnum(cursor["kind"], kinds));
  if (init.kind != InitKind::Normal)
    return init;
  init.stddev = cursor["stddev"].number();
  if (!std::isfinite(init.stddev) || init.stddev < 0)
    cursor["stddev"].fail(
        concat("expected a finite number from 0, found ", init.stddev));
  init.stream = uint32_t(cursor["stream"].integer(0, kFirstReservedStream - 1));
  return init;
}

static Param readParam(const JsonCursor &cursor, const Manifest &manifest,
                       std::set<std::string> &taken) {
  Param param;
  param.name = readName(cursor["name"], taken);
  param.hfShape = readShape(cursor["hf_shape"]);
  param.layout = readLayout(cursor, readShape(cursor["shape"]), manifest);
  param.state = param.layout;
  if (JsonCursor state = cursor.find("state"))
    param.state = readLayout(state, param.layout.shape, manifest);
  if (numElements(param.hfShape) != param.layout.numElements())
    cursor.fail(concat("hf_shape ", shapeToString(param.hfShape), " and shape ",
                       shapeToString(param.layout.shape),
                       " have different numbers of elements"));
  param.init = readInitializer(cursor["init"]);
  param.decay = cursor["decay"].boolean();
  return param;
}

static Arg readArg(const JsonCursor &cursor, const Manifest &manifest) {
  Arg arg;
  arg.kind = ArgKind(readEnum(cursor["kind"], kArgKindNames));
  switch (arg.kind) {
  case ArgKind::Param:
  case ArgKind::ExpAvg:
  case ArgKind::ExpAvgSq:
  case ArgKind::MomentumBuffer:
  case ArgKind::Grad:
    arg.index = cursor["index"].integer(0, int64_t(manifest.params.size()) - 1);
    break;
  case ArgKind::Scalar:
    arg.scalar = ::Scalar(readEnum(cursor["name"], kScalarNames));
    break;
  case ArgKind::Output:
    arg.output = ::Output(readEnum(cursor["name"], kOutputNames));
    break;
  case ArgKind::Tokens:
  case ArgKind::Targets:
  case ArgKind::Random:
    break;
  }
  if (JsonCursor rounding = cursor.find("rounding")) {
    double units = rounding.number();
    if (!std::isfinite(units) || units < 0)
      rounding.fail(concat("expected a finite number from 0, found ", units));
    arg.rounding = units;
  }
  return arg;
}

static Schedule readSchedule(const JsonCursor &cursor) {
  auto readMs = [&](const char *name) {
    double ms = cursor[name].number();
    if (!std::isfinite(ms) || ms < 0)
      cursor[name].fail(concat("expected a finite number from 0, found ", ms));
    return ms;
  };
  Schedule schedule;
  schedule.stepMs = readMs("predicted_step_ms");
  schedule.commMs = readMs("predicted_comm_ms");
  schedule.exposedMs = readMs("predicted_exposed_ms");
  schedule.extraWorkspaceBytes =
      cursor["extra_workspace_bytes"].integer(0, kMaxBytes);
  schedule.notOverlapped = cursor["not_overlapped"].integer(0, UINT32_MAX);
  schedule.outOfWorkspace =
      cursor["out_of_workspace"].integer(0, schedule.notOverlapped);
  return schedule;
}

static Function readFunction(const JsonCursor &cursor, const Manifest &manifest,
                             std::set<std::string> &taken) {
  Function function;
  function.name = readName(cursor["name"], taken);

  // A buffer handed over twice would be written under the model's feet.
  std::set<std::tuple<ArgKind, int64_t, Scalar, Output>> seen;
  for (const JsonCursor &entry : cursor["args"].elements()) {
    Arg arg = readArg(entry, manifest);
    if (!seen.insert({arg.kind, arg.index, arg.scalar, arg.output}).second)
      entry.fail("the same argument as an earlier one");
    function.args.push_back(arg);
  }
  bool trains = function.name == "train_step";
  if (trains || function.name == "eval_step" || function.name == "grad_step")
    for (Output output : {Output::LossSum, Output::RealCount, Output::GradNorm})
      if ((trains || output != Output::GradNorm) && !function.hasOutput(output))
        cursor["args"].fail(concat("no output \"", toString(output),
                                   "\", which ", function.name, " must have"));

  function.commands = cursor["commands"].integer(0, UINT32_MAX);
  function.arenaBytes = cursor["arena_bytes"].integer(0, kMaxBytes);
  if (JsonCursor bound = cursor.find("lower_bound_bytes"))
    function.lowerBoundBytes = bound.integer(0, kMaxBytes);
  if (JsonCursor peaks = cursor.find("peak_bytes"))
    for (const auto &[category, bytes] : peaks.members())
      function.peakBytes[category] = bytes.integer(0, kMaxBytes);
  if (JsonCursor communication = cursor.find("communication"))
    for (const JsonCursor &entry : communication.elements()) {
      AxisTraffic traffic;
      traffic.axis = readAxis(entry["axis"], manifest.mesh).value_or(0);
      traffic.bytes = entry["bytes"].integer(0, INT64_MAX);
      traffic.messages = entry["messages"].integer(0, INT64_MAX);
      for (const AxisTraffic &other : function.communication)
        if (other.axis == traffic.axis)
          entry["axis"].fail("the same axis as an earlier entry");
      function.communication.push_back(traffic);
    }
  if (JsonCursor schedule = cursor.find("schedule"))
    function.schedule = readSchedule(schedule);
  return function;
}

static ShardLayout readInput(const JsonCursor &cursor,
                             const Manifest &manifest) {
  ShardLayout layout = readLayout(cursor, readShape(cursor["shape"]), manifest);
  std::vector<int64_t> expected = {manifest.batch, manifest.sequence};
  if (layout.shape != expected)
    cursor["shape"].fail(
        concat("expected [batch, sequence] = ", shapeToString(expected),
               ", found ", shapeToString(layout.shape)));
  return layout;
}

/// Nothing where the objective is the next token.
static std::optional<MaskedObjective> readObjective(const JsonCursor &cursor,
                                                    int64_t vocabulary) {
  static constexpr std::string_view kinds[] = {"next_token", "masked_token"};
  if (readEnum(cursor["kind"], kinds) == 0)
    return std::nullopt;
  MaskedObjective masked;
  masked.maskToken = cursor["mask_token"].integer(0, vocabulary - 1);
  if (JsonCursor pad = cursor.find("pad_token"))
    masked.padToken = pad.integer(0, vocabulary - 1);
  return masked;
}

/// The kinds of states that functions have, each once, in order.
static std::vector<ArgKind> collectStates(const Manifest &manifest) {
  std::vector<ArgKind> states;
  for (const Function &function : manifest.functions)
    for (const Arg &arg : function.args)
      if (isOptimizerState(arg.kind) &&
          std::find(states.begin(), states.end(), arg.kind) == states.end())
        states.push_back(arg.kind);
  return states;
}

StatusOr<Manifest> optrt::parseManifest(std::string_view json) {
  JsonDocument document(json, "the model's manifest",
                        StatusCode::InvalidArgument);
  JsonCursor root = document.root();
  Manifest manifest;

  manifest.format = root["format"].integer(0, INT64_MAX);
  if (manifest.format != 1)
    root["format"].fail(concat("this runtime reads format 1, the library has ",
                               manifest.format,
                               "; compile the model again with the "
                               "optimus-compile that came with this runtime"));
  manifest.sourceHash = readHash(root["source_hash"]);
  manifest.modelHash = readHash(root["model_hash"]);
  if (JsonCursor compiler = root.find("compiler"))
    manifest.compiler = compiler.string();
  if (JsonCursor strategy = root.find("strategy"))
    manifest.strategy = strategy.string();
  if (JsonCursor optimizer = root.find("optimizer"))
    manifest.optimizer = optimizer.string();
  if (JsonCursor target = root.find("target")) {
    manifest.targetCpu = target["cpu"].string();
    for (const JsonCursor &feature : target["features"].elements())
      manifest.targetFeatures.push_back(feature.string());
  }

  manifest.mesh = readMesh(root["mesh"]);
  JsonCursor model = root["model"];
  manifest.batch = model["batch"].integer(1, INT32_MAX);
  manifest.sequence = model["sequence"].integer(1, INT32_MAX);
  manifest.vocabulary = model["vocabulary"].integer(1, INT32_MAX);
  if (JsonCursor objective = root.find("objective"))
    manifest.masked = readObjective(objective, manifest.vocabulary);
  std::set<std::string> dimensionNames, paramNames, functionNames;
  if (JsonCursor dimensions = root.find("dimensions"))
    for (const JsonCursor &entry : dimensions.elements())
      manifest.dimensions.push_back(
          readDimension(entry, manifest.mesh, dimensionNames));
  for (const JsonCursor &entry : root["params"].elements())
    manifest.params.push_back(readParam(entry, manifest, paramNames));
  JsonCursor inputs = root["inputs"];
  manifest.tokens = readInput(inputs["tokens"], manifest);
  manifest.targets = readInput(inputs["targets"], manifest);
  for (const JsonCursor &entry : root["functions"].elements())
    manifest.functions.push_back(readFunction(entry, manifest, functionNames));
  manifest.optimizerState = collectStates(manifest);

  if (!document.status().ok())
    return document.status();
  return manifest;
}
