//===- HeadLoss.h - Head and loss on the parts of a vocabulary --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_INTERPRETER_HEADLOSS_H
#define OPTIMUS_LIB_INTERPRETER_HEADLOSS_H

#include "LocalOps.h"

namespace mlir::optimus {

/// The contribution of one of the ranks of a sharded vocabulary: the same
/// tokens' hidden states, whole rows of them, and its own rows of the table.
struct HeadPart {
  Tensor h;     ///< [tokens…, hidden]
  Tensor table; ///< [rows, hidden]
  Tensor targets;
  Tensor bias;       ///< [rows], or no elements
  Extent vocabulary; ///< of the table's rows
  /// For each token, whether it is padding; for each hidden element too.
  std::vector<bool> paddedTokens, paddedHidden;
};

/// What it gets. dh is a partial sum over the ranks.
struct HeadResult {
  double lossSum = 0, realCount = 0;
  Tensor dh, dtable, dbias;
};

/// The loss and its gradient from parts that make up a vocabulary of `total`
/// entries, in rank order. Errors are made by `emitError`.
FailureOr<std::vector<HeadResult>>
computeHeadLoss(ArrayRef<HeadPart> parts, int64_t total,
                llvm::function_ref<InFlightDiagnostic()> emitError);

/// The loss and gradient of `op`, one of the four head operations, with
/// operands (h, table, targets) and perhaps a bias in the frame, the vocabulary
/// being whole.
FailureOr<HeadResult> computeHeadLoss(Operation *op, Frame &frame);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_INTERPRETER_HEADLOSS_H
