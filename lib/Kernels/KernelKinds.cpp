//===- KernelKinds.cpp - Kernels to attributes and back ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/AttentionKernels.h"
#include "optimus/Kernels/CopyKernels.h"
#include "optimus/Kernels/ElementwiseBodyOpInterface.h"
#include "optimus/Kernels/ElementwiseKernels.h"
#include "optimus/Kernels/Grouped.h"
#include "optimus/Kernels/HeadLossKernels.h"
#include "optimus/Kernels/NormKernels.h"
#include "optimus/Kernels/OptimizerKernels.h"
#include "optimus/Kernels/ReductionKernels.h"
#include "optimus/Kernels/RowChain.h"
#include "optimus/Kernels/RowSums.h"
#include "optimus/Kernels/TokenKernels.h"

#include "optimus-support/Sizes.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::optimus;

static constexpr StringLiteral kKindName = "kind";
/// Of a stage of a chain.
static constexpr StringLiteral kComputesName = "computes";
static constexpr StringLiteral kBuffersName = "buffers";
static constexpr StringLiteral kScalarsName = "scalars";

namespace {
/// Makes attributes of parameters.
class ParameterWriter final : public KernelParameters {
public:
  explicit ParameterWriter(MLIRContext *context, bool withExtents = true)
      : builder(context), withExtents(withExtents) {}

  void extent(StringRef name, int64_t &value) override {
    if (withExtents)
      integer(name, value);
  }
  void extents(StringRef name, SmallVectorImpl<int64_t> &values) override {
    if (withExtents)
      counts(name, values);
  }
  void counts(StringRef name, SmallVectorImpl<int64_t> &values) override {
    set(name, builder.getDenseI64ArrayAttr(values));
  }
  void integer(StringRef name, int64_t &value) override {
    set(name, builder.getI64IntegerAttr(value));
  }
  void integer(StringRef name, std::optional<int64_t> &value) override {
    if (value)
      integer(name, *value);
  }
  void number(StringRef name, double &value) override {
    set(name, builder.getF64FloatAttr(value));
  }
  void numbers(StringRef name, SmallVectorImpl<double> &values) override {
    if (!values.empty())
      set(name, builder.getDenseF64ArrayAttr(values));
  }
  void flag(StringRef name, bool &value) override {
    if (value)
      set(name, builder.getUnitAttr());
  }
  void operation(StringRef name, StringAttr &value) override {
    set(name, value);
  }
  void attributes(StringRef name, DictionaryAttr &value) override {
    if (!value.empty())
      set(name, value);
  }
  void stages(StringRef name,
              SmallVectorImpl<kernels::RowStage> &value) override {
    SmallVector<Attribute> stages;
    for (const kernels::RowStage &stage : value) {
      ParameterWriter writer(builder.getContext());
      writer.set(kComputesName,
                 stage.kernel.getParameters(builder.getContext()));
      writer.set(kBuffersName, getNames(stage.buffers));
      writer.set(kScalarsName, getNames(stage.scalars));
      stages.push_back(writer.getAttributes());
    }
    set(name, builder.getArrayAttr(stages));
  }
  void kernels(StringRef name, SmallVectorImpl<Kernel> &value) override {
    SmallVector<Attribute> kernels;
    for (const Kernel &kernel : value)
      kernels.push_back(kernel.getParameters(getContext()));
    set(name, builder.getArrayAttr(kernels));
  }
  void names(StringRef name, SmallVectorImpl<std::string> &value) override {
    set(name, getNames(value));
  }
  MLIRContext *getContext() const override { return builder.getContext(); }
  void require(bool, StringRef) override {}

  void set(StringRef name, Attribute value) { list.set(name, value); }
  DictionaryAttr getAttributes() {
    return list.getDictionary(builder.getContext());
  }

private:
  ArrayAttr getNames(ArrayRef<std::string> names) {
    return builder.getStrArrayAttr(
        SmallVector<StringRef>(names.begin(), names.end()));
  }

  Builder builder;
  bool withExtents;
  NamedAttrList list;
};

/// Reads parameters from attributes, which anybody may have written.
class ParameterReader final : public KernelParameters {
public:
  ParameterReader(DictionaryAttr source,
                  function_ref<InFlightDiagnostic()> emitError)
      : source(source), emitError(emitError), numRead(1) {}

  void extent(StringRef name, int64_t &value) override {
    integer(name, value);
    multiply(name, value, product);
  }
  void extents(StringRef name, SmallVectorImpl<int64_t> &values) override {
    readList(name, values);
    int64_t listed = 1;
    for (int64_t value : values)
      multiply(name, value, listed);
  }
  void counts(StringRef name, SmallVectorImpl<int64_t> &values) override {
    readList(name, values);
    for (int64_t value : values)
      if (value < 0 || value > optimus_support::kMaxElements)
        fail("parameter '" + name + "' has the count " + Twine(value));
  }
  void integer(StringRef name, int64_t &value) override {
    if (auto attr = get<IntegerAttr>(name, "an i64"))
      value = attr.getInt();
  }
  void integer(StringRef name, std::optional<int64_t> &value) override {
    if (source.contains(name))
      integer(name, value.emplace());
  }
  void number(StringRef name, double &value) override {
    if (auto attr = get<FloatAttr>(name, "a number"))
      value = attr.getValueAsDouble();
  }
  void numbers(StringRef name, SmallVectorImpl<double> &values) override {
    if (!source.contains(name))
      return;
    if (auto attr = get<DenseF64ArrayAttr>(name, "an array of numbers"))
      values.assign(attr.asArrayRef().begin(), attr.asArrayRef().end());
  }
  void flag(StringRef name, bool &value) override {
    value = source.contains(name);
    if (value)
      get<UnitAttr>(name, "without a value");
  }
  void operation(StringRef name, StringAttr &value) override {
    value = get<StringAttr>(name, "an operation's name");
    if (value && !OperationName(value, value.getContext())
                      .getInterface<ElementwiseBodyOpInterface>())
      fail("parameter '" + name +
           "' is no operation that computes element by "
           "element");
  }
  void attributes(StringRef name, DictionaryAttr &value) override {
    value = DictionaryAttr::get(source.getContext());
    if (source.contains(name))
      value = get<DictionaryAttr>(name, "a dictionary");
  }
  void stages(StringRef name,
              SmallVectorImpl<kernels::RowStage> &value) override {
    auto attr = get<ArrayAttr>(name, "an array of stages");
    if (!attr)
      return;
    require(!attr.empty(), "has no stages");
    for (Attribute each : attr)
      if (!hasFailed)
        readStage(each, value);
  }
  void kernels(StringRef name, SmallVectorImpl<Kernel> &value) override {
    auto attr = get<ArrayAttr>(name, "an array of kernels");
    if (!attr || !llvm::all_of(attr, llvm::IsaPred<DictionaryAttr>))
      return fail("parameter '" + name + "' must be an array of kernels");
    for (auto parameters : attr.getAsRange<DictionaryAttr>()) {
      FailureOr<Kernel> kernel = Kernel::read(parameters, emitError);
      hasFailed |= failed(kernel);
      if (hasFailed)
        return;
      value.push_back(std::move(*kernel));
    }
  }
  void names(StringRef name, SmallVectorImpl<std::string> &value) override {
    ++numRead;
    if (!readNames(source, name, value))
      fail("parameter '" + name + "' must be an array of names");
  }
  MLIRContext *getContext() const override { return source.getContext(); }
  void require(bool holds, StringRef otherwise) override {
    if (!holds)
      fail(otherwise);
  }

  /// Whether all was there, and nothing else.
  LogicalResult finish() {
    require(numRead == source.size(),
            "has parameters that are not the kernel's");
    return failure(hasFailed);
  }

private:
  template <typename AttrT>
  AttrT get(StringRef name, StringRef expected) {
    ++numRead;
    auto attr = source.getAs<AttrT>(name);
    bool isRight = bool(attr);
    if constexpr (std::is_same_v<AttrT, IntegerAttr>)
      isRight = isRight && attr.getType().isInteger(64);
    if (!isRight) {
      fail("parameter '" + name + "' must be " + expected);
      return {};
    }
    return attr;
  }

  void readList(StringRef name, SmallVectorImpl<int64_t> &values) {
    if (auto attr = get<DenseI64ArrayAttr>(name, "an array of i64"))
      values.assign(attr.asArrayRef().begin(), attr.asArrayRef().end());
    if (values.empty())
      fail("parameter '" + name + "' is empty");
  }

  static bool readNames(DictionaryAttr stage, StringRef name,
                        SmallVectorImpl<std::string> &names) {
    auto attr = stage.getAs<ArrayAttr>(name);
    if (!attr || !llvm::all_of(attr, llvm::IsaPred<StringAttr>))
      return false;
    for (StringRef text : attr.getAsValueRange<StringAttr>())
      names.push_back(text.str());
    return true;
  }

  /// Stages must fit each other and the buffers that they name.
  void readStage(Attribute attr, SmallVectorImpl<kernels::RowStage> &value) {
    auto stage = dyn_cast<DictionaryAttr>(attr);
    auto computes =
        stage ? stage.getAs<DictionaryAttr>(kComputesName) : DictionaryAttr();
    SmallVector<std::string> buffers, scalars;
    if (!computes || !readNames(stage, kBuffersName, buffers) ||
        !readNames(stage, kScalarsName, scalars))
      return fail("a stage needs a dictionary 'computes' and the names "
                  "'buffers' and 'scalars'");
    FailureOr<Kernel> kernel = Kernel::read(computes, emitError);
    if (failed(kernel)) {
      hasFailed = true;
      return;
    }
    KernelDescription description = kernel->describe(source.getContext());
    const IterationSpace &space = description.getSpace();
    // Columns are those of as many rows.
    bool hasRows = space.kind != IterationSpace::Items && space.rows > 0;
    if (!hasRows || space.rows != stageRows.value_or(space.rows))
      return fail("a stage does not go over the rows of the first");
    stageRows = space.rows;
    if (buffers.size() != description.getOperands().size() ||
        scalars.size() != description.getScalars().size())
      return fail("a stage needs a name for each operand and scalar");
    for (auto [operand, buffer] :
         llvm::zip_equal(description.getOperands(), buffers)) {
      auto [known, isNew] =
          stageExtents.try_emplace(buffer, operand.extent, operand.elementType);
      if (known->second != std::pair(operand.extent, operand.elementType))
        return fail("stages use buffer '" + buffer + "' as different types");
    }
    value.push_back({std::move(*kernel), buffers, scalars});
  }

  void multiply(StringRef name, int64_t value, int64_t &total) {
    if (value < 1 || value > kMost / total)
      return fail("parameter '" + name + "' is " + Twine(value) +
                  ", which is below 1 or too large");
    total *= value;
  }

  void fail(const Twine &what) {
    if (!hasFailed)
      emitError() << "the description of a kernel of kind "
                  << source.get(kKindName) << ": " << what.str();
    hasFailed = true;
  }

  /// What all extents multiplied may be: then no part of them overflows.
  static constexpr int64_t kMost = int64_t(1) << 61;

  DictionaryAttr source;
  function_ref<InFlightDiagnostic()> emitError;
  unsigned numRead;
  int64_t product = 1;
  std::optional<int64_t> stageRows;
  llvm::StringMap<std::pair<int64_t, Type>> stageExtents;
  bool hasFailed = false;
};

struct Kind {
  StringRef name;
  Kernel (*read)(KernelParameters &parameters);
};
} // namespace

template <typename... Ts>
static ArrayRef<Kind> getKindsOf() {
  static const Kind kinds[] = {{Ts::kKind, [](KernelParameters &parameters) {
                                  Ts kernel{};
                                  kernel.visit(parameters);
                                  return Kernel(std::move(kernel));
                                }}...};
  return kinds;
}

static ArrayRef<Kind> getKinds() {
  using namespace kernels;
  return getKindsOf<
      Attention, AttentionKeyGrad, AttentionOfPieces, AttentionPieces,
      AttentionQueryGrad, Best, CacheAppend, Clip, CopyRows, CountReal, Dropout,
      Elementwise, Embedding, EmbeddingGrad, EmbeddingOfBlocks, ExpSum, Grouped,
      LayerNorm, LayerNormGrad, Lengths, LogProbabilities, LogitSums,
      LogitsGrad, MergeMoments, NormGradApply, NormGradSums, NormParamGrad,
      Normalize, PadLogits, PartialLogitSums, PartialLogitsGrad, ReduceRanks,
      Repetition, RmsNorm, RmsNormGrad, RmsParamGrad, RmsRstd, RmsScale, Rotary,
      RowChain, RowDot, RowMax, RowMoments, RowSums, SlotAppend, SoftmaxSums,
      Splat, SumLeading, SumPartials, SumSquares, SumTokens, Take, TokenLoss>();
}

DictionaryAttr Kernel::getParameters(MLIRContext *context) const {
  ParameterWriter writer(context);
  writer.set(kKindName, StringAttr::get(context, self->getKind()));
  self->visit(writer);
  return writer.getAttributes();
}

DictionaryAttr Kernel::getForm(MLIRContext *context) const {
  ParameterWriter writer(context, /*withExtents=*/false);
  writer.set(kKindName, StringAttr::get(context, self->getKind()));
  self->visit(writer);
  return writer.getAttributes();
}

FailureOr<Kernel> Kernel::read(DictionaryAttr parameters,
                               function_ref<InFlightDiagnostic()> emitError) {
  auto name = parameters.getAs<StringAttr>(kKindName);
  if (!name)
    return emitError() << "the description of a kernel needs a text 'kind', "
                          "but is "
                       << parameters;
  const Kind *kind = llvm::find_if(getKinds(), [&](const Kind &kind) {
    return kind.name == name.getValue();
  });
  if (kind == getKinds().end())
    return emitError() << "there are no kernels of kind " << name;
  ParameterReader reader(parameters, emitError);
  Kernel kernel = kind->read(reader);
  if (failed(reader.finish()))
    return failure();
  return kernel;
}
