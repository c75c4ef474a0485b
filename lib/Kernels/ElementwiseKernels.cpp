//===- ElementwiseKernels.cpp - One element at a time -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/ElementwiseKernels.h"

#include "optimus/Kernels/ElementwiseBodyOpInterface.h"
#include "optimus/Kernels/KernelBuilder.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

Elementwise kernels::elementwise(StringAttr op, DictionaryAttr attributes,
                                 ArrayRef<int64_t> operands,
                                 int64_t numResults) {
  int64_t most = *llvm::max_element(operands);
  int64_t cols = *llvm::min_element(operands);
  Elementwise kernel{op, attributes, most / cols, cols, {}, numResults};
  for (int64_t extent : operands) {
    assert(extent == most || extent == cols);
    kernel.repeats.push_back(extent < most);
  }
  return kernel;
}

static const ElementwiseBodyOpInterface::Concept *getBody(StringAttr op) {
  return OperationName(op, op.getContext())
      .getInterface<ElementwiseBodyOpInterface>();
}

Elementwise kernels::elementwise(StringAttr op, DictionaryAttr attributes,
                                 int64_t n, unsigned numOperands) {
  ElementwiseNames names = *getBody(op)->getNames(numOperands);
  Elementwise kernel{op, attributes, 1, n, {}, int64_t(names.results.size())};
  kernel.repeats.assign(names.tensors.size(), 0);
  kernel.repeats.append(names.numbers.size(), 2);
  return kernel;
}

Elementwise kernels::elementwise(Operation *op) {
  StringAttr name = op->getName().getIdentifier();
  auto own = dyn_cast_or_null<DictionaryAttr>(op->getPropertiesAsAttribute());
  DictionaryAttr attributes = own ? own : DictionaryAttr::get(op->getContext());
  auto count = [](Type type) {
    return cast<RankedTensorType>(type).getNumElements();
  };
  if (getBody(name)->getNames(op->getNumOperands()))
    return elementwise(name, attributes, count(op->getResultTypes().front()),
                       op->getNumOperands());
  return elementwise(name, attributes,
                     llvm::map_to_vector(op->getOperandTypes(), count),
                     op->getNumResults());
}

bool Elementwise::fitsNames() const {
  const auto *body = getBody(op);
  // That it has none was said of `op`.
  if (!body)
    return true;
  std::optional<ElementwiseNames> names = body->getNames(repeats.size());
  if (!names)
    return !llvm::is_contained(repeats, 2);
  SmallVector<int64_t> expected(names->tensors.size(), 0);
  expected.append(names->numbers.size(), 2);
  return rows == 1 && repeats == expected &&
         numResults == int64_t(names->results.size());
}

void Elementwise::visit(KernelParameters &parameters) {
  parameters.operation("op", op);
  parameters.attributes("attributes", attributes);
  parameters.extent("rows", rows);
  parameters.extent("cols", cols);
  parameters.counts("repeats", repeats);
  parameters.require(llvm::all_of(repeats, [](int64_t r) { return r <= 2; }),
                     "an operand repeats neither 0, 1 nor 2");
  parameters.integer("results", numResults);
  parameters.require(numResults >= 1 && numResults <= 16,
                     "there must be 1 to 16 results");
  parameters.require(!op || fitsNames(),
                     "has other operands than its operation names");
}

void Elementwise::describe(KernelDescription &description) const {
  description.setStem(OperationName(op, op.getContext()).stripDialect());
  for (NamedAttribute attribute : attributes) {
    // A mark is told by its name; what has a value, by both.
    description.option(attribute.getName());
    if (auto integer = dyn_cast<IntegerAttr>(attribute.getValue()))
      description.text(Twine(integer.getInt()));
    else if (auto number = dyn_cast<FloatAttr>(attribute.getValue()))
      description.number(number.getValueAsDouble());
  }
  if (rows == 1)
    description.size(cols);
  else
    description.size(rows, cols);
  description.overElements(rows, cols);

  if (std::optional<ElementwiseNames> names =
          getBody(op)->getNames(repeats.size())) {
    description.option(names->option, !names->option.empty());
    for (StringRef name : names->tensors)
      description.read(name, cols);
    for (StringRef name : names->numbers)
      description.read(name, 1);
    for (const ElementwiseNames::Result &result : names->results)
      description.write(result.name, cols).inPlaceOf(result.places);
    return;
  }
  description.setPositional();
  SmallVector<std::string> whole;
  for (auto [number, repeat] : llvm::enumerate(repeats)) {
    std::string name = ("operand" + Twine(number)).str();
    description.read(name, repeat ? cols : rows * cols);
    if (!repeat || rows == 1)
      whole.push_back(name);
  }
  for (int64_t number = 0; number < numResults; ++number)
    description.write(("result" + Twine(number)).str(), rows * cols)
        .inPlaceOf(SmallVector<StringRef>(whole.begin(), whole.end()));
}

void Elementwise::build(KernelBuilder &k) const {
  const auto *body = getBody(op);
  auto getBuffer = [&](size_t position) {
    return k[k.getDescription().getOperands()[position].name];
  };
  SmallVector<KernelBuffer> operands, results;
  for (size_t number = 0; number < repeats.size(); ++number)
    operands.push_back(getBuffer(number));
  for (int64_t number = 0; number < numResults; ++number)
    results.push_back(getBuffer(repeats.size() + number));
  SmallVector<Num> values(repeats.size());
  for (auto [value, operand, repeat] :
       llvm::zip_equal(values, operands, repeats))
    if (repeat == 2)
      value = operand.load();
  k.forElements([&](Value at, Value column, Type type) {
    for (auto [value, operand, repeat] :
         llvm::zip_equal(values, operands, repeats))
      if (repeat < 2)
        value = operand.load(repeat ? column : at, type);
    Terms computed = body->buildElement(k, values, attributes);
    for (auto [result, value] : llvm::zip_equal(results, computed))
      result.store(value, at);
  });
}

void SumLeading::describe(KernelDescription &description) const {
  description.size(rows, cols);
  description.overColumns(cols, rows);
  description.read("x", rows * cols).ofRows().write("result", cols);
}

void SumLeading::build(KernelBuilder &k) const {
  KernelBuffer x = k["x"], result = k["result"];
  k.forColumns([&](Value column, Type type) {
    Terms sums = k.columnSums(rows, 1, type, [&](Value row, Type type) {
      Value at = k.addIndex(k.mulIndex(row, k.index(cols)), column);
      return Terms{x.load(at, type)};
    });
    result.storeOnce(sums[0], column);
  });
}

void Repetition::visit(KernelParameters &parameters) {
  parameters.extent("rows", rows);
  parameters.extent("cols", cols);
  parameters.require(cols > 0 && rows % cols == 0,
                     "the rows are no multiple of the columns");
}

void Repetition::describe(KernelDescription &description) const {
  description.size(rows, cols);
  description.overItems(rows, cols);
  description.write("result", rows * cols);
}

void Repetition::build(KernelBuilder &k) const {
  KernelBuffer result = k["result"];
  ImplicitLocOpBuilder &b = k.getBuilder();
  Num one = k.constant(1, k.f32()), zero = k.constant(0, k.f32());
  k.forItems([&](Value row) {
    Value repeated = arith::DivUIOp::create(b, row, k.index(rows / cols));
    k.loop(k.index(0), k.index(cols), 1, [&](Value col) {
      Value isOne =
          arith::CmpIOp::create(b, arith::CmpIPredicate::eq, col, repeated);
      result.store(k.select(isOne, one, zero),
                   k.addIndex(k.mulIndex(row, k.index(cols)), col));
    });
  });
}

void Splat::describe(KernelDescription &description) const {
  description.size(n);
  description.number(value);
  description.overElements(1, n);
  description.write("result", n);
}

void Splat::build(KernelBuilder &k) const {
  KernelBuffer result = k["result"];
  k.forElements([&](Value at, Value, Type type) {
    result.store(k.constant(value, type), at);
  });
}
