//===- Arguments.cpp - What a function is called with -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arguments.h"

#include "Npy.h"

#include "optimus-support/Dropout.h"
#include "optimus-support/Initialize.h"
#include "optimus-support/NearestName.h"
#include "optimus-support/Philox.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Interpreter/DeviceInterpreter.h"
#include "optimus/Interpreter/Interpreter.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::invalidArgument;
using optimus_support::StatusOr;

namespace {
class Collector {
public:
  Collector(func::FuncOp function, const ArgumentSources &sources)
      : function(function), sources(sources) {}

  StatusOr<Tensor> collect(unsigned argument) {
    std::string name = getArgumentName(function, argument);
    RankedTensorType type = getType(argument);
    // Arenas, and what a device program only writes.
    if (!type && exec::isDeviceProgram(function))
      return Tensor();
    if (!type || !type.hasStaticShape())
      return invalidArgument("argument '" + name +
                             "' is not a tensor of static shape");
    SmallVector<int64_t> shape = getWholeShape(type);

    std::string path = findArgumentFile(function, argument, sources);
    if (!path.empty())
      return read(path, argument, shape);
    auto scalar = sources.scalars.find(name);
    if (shape.empty() && scalar != sources.scalars.end())
      return Tensor::scalar(scalar->second);
    BufferAttr buffer = getArgumentBuffer(function, argument);
    // Others compute it: see prepareArguments().
    if (buffer && buffer.isPrepared())
      return Tensor::zeros(shape);
    InitAttr init = buffer ? buffer.getInit() : InitAttr();
    // With --draw, states and sums are drawn as well.
    if (init && (buffer.getLifetime() == Lifetime::Parameter ||
                 sources.vocabulary == 0))
      return initialize(init, shape);
    if (name == "random" &&
        ArrayRef(shape) == ArrayRef<int64_t>(optimus_support::kNumRandomWords))
      return firstStep();
    if (sources.vocabulary > 0)
      return draw(argument, type.getElementType(), name, shape);
    return invalidArgument(
        "no value for argument '" + name + "' of @" + function.getName().str() +
        (shape.empty() ? "; give it with --set '" + name + "=NUMBER' or"
                       : std::string("; give it")) +
        " as '" + name +
        ".npy' in the folder of --inputs, or let --draw draw it");
  }

private:
  RankedTensorType getType(unsigned argument) {
    if (exec::isDeviceProgram(function))
      return exec::getInputType(function, argument);
    return dyn_cast<RankedTensorType>(function.getArgument(argument).getType());
  }

  /// An array of the argument's shape, or of its shape in checkpoints.
  StatusOr<Tensor> read(const std::string &path, unsigned argument,
                        ArrayRef<int64_t> shape) {
    OPTRT_ASSIGN_OR_RETURN(NpyFile file, NpyFile::open(path));
    auto hfShape = function.getArgAttrOfType<DenseI64ArrayAttr>(
        argument, OptimusDialect::kHfShape);
    bool fits = file.getShape() == shape ||
                (hfShape && hfShape.asArrayRef() == file.getShape());
    if (!fits)
      return invalidArgument("'" + path + "': expected shape " +
                             toString(shape) + ", found " +
                             toString(file.getShape()));
    OPTRT_ASSIGN_OR_RETURN(Tensor tensor, file.read());
    if (getType(argument).getElementType().isInteger())
      for (double x : tensor.elements)
        if (!(std::abs(x) < 0x1p31) || x != std::trunc(x))
          return invalidArgument("'" + path +
                                 "': expected token ids of i32, found " +
                                 std::to_string(x));
    tensor.shape.assign(shape.begin(), shape.end());
    return tensor;
  }

  static std::string toString(ArrayRef<int64_t> shape) {
    return optimus_support::shapeToString({shape.data(), shape.size()});
  }

  /// The same bits as the runtime's.
  Tensor initialize(InitAttr init, ArrayRef<int64_t> shape) {
    using optimus_support::InitKind;
    auto kind = llvm::StringSwitch<InitKind>(init.getKind())
                    .Case("normal", InitKind::Normal)
                    .Case("uniform", InitKind::Uniform)
                    .Case("ones", InitKind::Ones)
                    .Case("constant", InitKind::Constant)
                    .Default(InitKind::Zeros);
    optimus_support::Initializer initializer{
        kind, init.getNumber(), static_cast<uint32_t>(init.getStream())};
    std::vector<int64_t> extents(shape.begin(), shape.end());
    optimus_support::ShardLayout layout{
        extents, extents, std::vector<std::vector<int>>(extents.size())};
    std::vector<float> values(layout.numElements());
    optimus_support::initializeShard(initializer, sources.seed, layout,
                                     optimus_support::Mesh(), /*rank=*/0,
                                     values.data());
    Tensor tensor = Tensor::zeros(shape);
    tensor.elements.assign(values.begin(), values.end());
    return tensor;
  }

  /// The random words of the first step.
  Tensor firstStep() {
    Tensor tensor = Tensor::zeros({optimus_support::kNumRandomWords});
    llvm::copy(optimus_support::randomWords(sources.seed, /*step=*/1),
               tensor.elements.begin());
    return tensor;
  }

  Tensor draw(unsigned argument, Type elementType, StringRef name,
              ArrayRef<int64_t> shape) {
    Tensor tensor = Tensor::zeros(shape);
    // Streams of their own: models number theirs from 0.
    uint32_t stream = (1u << 30) + argument;
    optimus_support::PhiloxSequence draws(sources.seed, stream, /*step=*/0);
    int64_t lowest = name == "targets" ? -1 : 0;
    // Documents of two tokens on average.
    if (name == "positions") {
      for (int64_t i = 0; i < tensor.getNumElements(); ++i)
        tensor[i] = i % shape.back() == 0 || draws.below(2) == 0
                        ? 0
                        : tensor[i - 1] + 1;
      return tensor;
    }
    for (int64_t i = 0; i < tensor.getNumElements(); ++i)
      tensor[i] =
          isa<IntegerType>(elementType)
              ? lowest + static_cast<int64_t>(
                             draws.below(sources.vocabulary - lowest))
              : optimus_support::normal(sources.seed, stream, /*step=*/0, i);
    return tensor;
  }

  func::FuncOp function;
  const ArgumentSources &sources;
};
} // namespace

std::string mlir::optimus::findArgumentFile(func::FuncOp function,
                                            unsigned argument,
                                            const ArgumentSources &sources) {
  if (sources.folder.empty())
    return "";
  SmallString<128> path(sources.folder);
  llvm::sys::path::append(path, getArgumentName(function, argument) + ".npy");
  return llvm::sys::fs::exists(path) ? path.str().str() : "";
}

StatusOr<SmallVector<Tensor>>
mlir::optimus::collectArguments(func::FuncOp function,
                                const ArgumentSources &sources) {
  std::vector<std::string> names;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    names.push_back(getArgumentName(function, i));
  for (StringRef name : sources.scalars.keys())
    if (!llvm::is_contained(names, name))
      return invalidArgument("--set: @" + function.getName().str() +
                             " has no argument '" + name.str() + "'" +
                             optimus_support::didYouMean(name, names));
  Collector collector(function, sources);
  SmallVector<Tensor> arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    OPTRT_ASSIGN_OR_RETURN(Tensor argument, collector.collect(i));
    arguments.push_back(std::move(argument));
  }
  return arguments;
}
