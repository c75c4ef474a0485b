//===- Provenance.h - Where operations and values come from -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A location tells where an operation comes from: the path of the calling
// module in the model, the line of source, and the transformation by a pass
// (`#optimus.origin`). Ids of values are made of these and of nothing else. See
// docs/provenance.md.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_PROVENANCE_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_PROVENANCE_H

#include "optimus/Dialect/Optimus/IR/Optimus.h"

namespace mlir::optimus {

/// The module path, as "h.3.mlp.up"; empty where the location has none. A fused
/// operation has the path of its result.
StringRef getPath(Location loc);

ProgramPhase getPhase(Location loc);

/// "h.3.mlp.up", outside of the forward "h.3.mlp.up backward"; empty without a
/// path.
std::string getPathWithPhase(Location loc);

/// The file and the line; null where the location has none.
FileLineColLoc getFileLine(Location loc);

/// For people: "h.3.mlp.up backward (gpt2.py:151)", without what is not known.
std::string describeLocation(Location loc);

/// `loc` with a path, if it has none.
Location withPath(Location loc, StringRef path);

/// `loc` in another part of the step.
Location withPhase(Location loc, ProgramPhase phase);

/// The location of an operation that computes `part` for the one at `loc`: its
/// results are values of their own.
Location withPart(Location loc, StringRef part);

/// The location of an operation whose first result is result `number` of the
/// one at `loc`.
Location withResult(Location loc, int64_t number);

/// The location of a fused operation with the result of the one at `result`,
/// and with the work of the one at `other`.
Location fuseLocations(Location result, Location other);

/// Where the results of an operation stand among those of the operation that
/// it stands for: the number of its first one.
int64_t getFirstResult(Location loc);

/// The name of a value, as "h.3.ln_1:0 backward". Ids of the values of a block
/// differ once `nameValues` has been there.
std::string getValueId(OpResult value);

/// Sets operations apart whose results would have the same ids, in program
/// order. Ids that are clear stay as they are.
void nameValues(Block &block);

/// From now on the messages of errors begin with the path, where there is one.
/// To be called after the handler that prints them was registered.
void prefixDiagnosticsWithPaths(MLIRContext &context);

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_PROVENANCE_H
