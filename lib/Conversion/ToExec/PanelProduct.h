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
  /// Panels with a part on this rank: all of a panel with an owner, or its
  /// slices of a gathered one.
  int64_t numLocal = 1;
  /// Ranks that have a part of a panel; 1 where it has an owner.
  int64_t sharers = 1;
  /// Blocks of the streamed index in this rank's part that a panel has a slice
  /// of; 1 where it has an owner.
  int64_t slices = 1;
  /// This rank's part of a panel, a matrix in memory where slices are 1.
  int64_t outer = 1, inner = 1, ld = 1;
  /// The rows and columns of a panel.
  int64_t panelRows = 0, panelCols = 0;

  /// A part that is one stretch of memory.
  bool isContiguous() const {
    return inner == ld || (outer == 1 && slices == 1);
  }
  /// A part whose slices follow each other.
  bool isWhole() const { return slices == 1 || inner == ld; }
  /// A part that is a matrix [panelRows, panelCols] where it lies.
  bool isMatrix() const {
    return isContiguous() || (slices == 1 && outer == panelRows);
  }
  /// A row of a panel.
  int64_t getPanelInner() const { return sharers * inner; }
  /// A slice, as a row of a matrix of all slices.
  int64_t getSliceInner() const { return inner / slices; }
  int64_t getSliceLd() const { return ld / slices; }
  int64_t getOwner(int64_t panel) const { return panel / numLocal; }
  /// Whether it is the tensor `other`, and its panels are the same matrices.
  bool hasPanelsOf(const PanelOperand &other) const {
    auto tie = [](const PanelOperand &o) {
      return std::tie(o.buffer, o.rows, o.cols, o.axis, o.isStreamed,
                      o.streamsRows, o.numLocal, o.slices, o.outer, o.inner,
                      o.ld);
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
  /// Whether each panel has an owner; else it is gathered or scattered.
  bool hasOwners = true;

private:
  /// The dimensions of a group in tensor `tensor`, as [first, last).
  std::pair<int64_t, int64_t> getDims(int tensor, PanelOperand::Group group);
  RankedTensorType getType(int tensor);
  /// The parameter that B is where it stays; else null.
  Value getWeight();
  LogicalResult describePanels(PanelOperand &operand, int tensor,
                               int64_t position, StringRef axis);

  Lowering &lowering;
  PanelOperand::Group streamed = PanelOperand::K;
  int64_t blocks = 1;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_TOEXEC_PANELPRODUCT_H
