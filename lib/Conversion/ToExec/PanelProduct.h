//===- PanelProduct.h - A distributed product in memory ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_CONVERSION_TOEXEC_PANELPRODUCT_H
#define OPTIMUS_LIB_CONVERSION_TOEXEC_PANELPRODUCT_H

#include "Lowering.h"

namespace mlir::optimus {

/// One of the three tensors, as a matrix whose rows and columns are groups of
/// dimensions, and its panels.
struct PanelOperand {
  /// The dimensions that A and C, A and B, B and C share.
  enum Group { M, K, N };

  /// The tensor and where it lives.
  Value tensor, buffer;
  /// The groups of its rows and columns in memory.
  Group rowGroup, colGroup;
  int64_t rows, cols;

  /// The axis it moves over; empty where it does not move.
  StringRef axis;
  bool isStreamed = false;
  /// Whether the streamed index is in its rows.
  bool streamsRows = false;
  /// Panels this rank holds, and the panel's matrix in memory.
  int64_t numLocal = 1;
  int64_t outer = 1, inner = 1, ld = 1;
  /// The rows and columns of a panel.
  int64_t panelRows = 0, panelCols = 0;

  /// A panel that is one stretch of memory.
  bool isContiguous() const { return outer == 1 || inner == ld; }
  /// A panel that is a matrix [panelRows, panelCols] where it lies.
  bool isMatrix() const { return isContiguous() || outer == panelRows; }
  int64_t getOwner(int64_t panel) const { return panel / numLocal; }
  /// Whether it is the tensor `other`, and its panels are the same matrices.
  bool hasPanelsOf(const PanelOperand &other) const {
    auto tie = [](const PanelOperand &o) {
      return std::tie(o.buffer, o.rows, o.cols, o.axis, o.isStreamed,
                      o.streamsRows, o.numLocal, o.outer, o.inner, o.ld);
    };
    return tie(*this) == tie(other);
  }
};

/// One product's form, and its tensors in memory.
class PanelProduct {
public:
  PanelProduct(ccl::MatmulOp op, Lowering &lowering)
      : op(op), lowering(lowering) {}

  /// Reads the form; the product goes to `result`, its own or a sum's.
  LogicalResult describe(Value result);

  /// The product of one panel, its matrices left out.
  Gemm getGemm();

  ccl::MatmulOp op;
  PanelOperand operands[3];
  int stationary = 0;
  int64_t numPanels = 0;

private:
  /// The dimensions of a group in tensor `tensor`, as [first, last).
  std::pair<int64_t, int64_t> getDims(int tensor, PanelOperand::Group group);
  RankedTensorType getType(int tensor);
  LogicalResult describePanels(PanelOperand &operand, int tensor,
                               int64_t position, StringRef axis);

  Lowering &lowering;
  PanelOperand::Group streamed = PanelOperand::K;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_TOEXEC_PANELPRODUCT_H
