//===- Gradients.cpp - Gradients against differences of the loss ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gradients.h"

#include "Functions.h"

#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Interpreter/GradientCheck.h"
#include "optimus/Interpreter/Interpreter.h"
#include "optimus/Tool/FlagValues.h"
#include "optimus/Tool/Tool.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::optimus;

int mlir::optimus::checkGradientsOf(ModuleOp module,
                                    const ArgumentSources &sources,
                                    const Flags &flags) {
  func::FuncOp loss = findFunction(module, {"loss"});
  func::FuncOp grad = findFunction(module, {"grad"});
  if (!loss)
    loss = findEntry(module, EntryKind::Eval);
  if (!grad)
    grad = findEntry(module, EntryKind::Grad);
  if (!loss || !grad)
    return fail("--gradcheck: expected @loss and @grad, or functions of the "
                "kinds eval and grad; found " +
                listFunctions(module));
  auto limit = readCount("--gradcheck-limit", flags.checkLimit, 1);
  if (!limit.ok())
    return fail(limit.status());
  if (failed(checkMemory(loss)) || failed(checkMemory(grad)))
    return kBadInput;
  auto arguments = collectArguments(loss, sources);
  if (!arguments.ok())
    return fail(arguments.status());
  FailureOr<SmallVector<GradientCheck>> checks =
      checkGradients(loss, grad, *arguments, *limit);
  if (failed(checks))
    return 1;
  bool passed = true;
  for (const GradientCheck &check : *checks) {
    llvm::outs() << check.parameter << ": " << check.numChecked
                 << " elements, max relative error "
                 << llvm::format("%.1e", check.maxRelativeError)
                 << (check.passed() ? "" : ", WRONG") << "\n";
    if (check.passed())
      continue;
    passed = false;
    llvm::outs().flush();
    fail("the gradient of '" + check.parameter + "' is wrong at element " +
         Twine(check.worst) + ": " + llvm::formatv("{0:e}", check.gradient) +
         ", by central differences " +
         llvm::formatv("{0:e}, within {1:e}", check.difference, check.tolerance)
             .str());
  }
  return passed ? 0 : 1;
}
