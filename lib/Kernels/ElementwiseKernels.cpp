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

Elementwise kernels::elementwise(Operation *op) {
  SmallVector<int64_t> operands;
  for (Type type : op->getOperandTypes())
    operands.push_back(cast<RankedTensorType>(type).getNumElements());
  auto own = dyn_cast_or_null<DictionaryAttr>(op->getPropertiesAsAttribute());
  return elementwise(op->getName().getIdentifier(),
                     own ? own : DictionaryAttr::get(op->getContext()),
                     operands, op->getNumResults());
}

void Elementwise::visit(KernelParameters &parameters) {
  parameters.operation("op", op);
  parameters.attributes("attributes", attributes);
  parameters.extent("rows", rows);
  parameters.extent("cols", cols);
  parameters.counts("repeats", repeats);
  parameters.require(llvm::all_of(repeats, [](int64_t r) { return r <= 1; }),
                     "an operand repeats neither 0 nor 1");
  parameters.integer("results", numResults);
  parameters.require(numResults >= 1 && numResults <= 16,
                     "there must be 1 to 16 results");
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
  auto *body = OperationName(op, op.getContext())
                   .getInterface<ElementwiseBodyOpInterface>();
  SmallVector<KernelBuffer> operands, results;
  for (size_t number = 0; number < repeats.size(); ++number)
    operands.push_back(k[("operand" + Twine(number)).str()]);
  for (int64_t number = 0; number < numResults; ++number)
    results.push_back(k[("result" + Twine(number)).str()]);
  k.forElements([&](Value at, Value column, Type type) {
    SmallVector<Num> values;
    for (auto [operand, repeat] : llvm::zip_equal(operands, repeats))
      values.push_back(operand.load(repeat ? column : at, type));
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
