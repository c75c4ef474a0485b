//===- ModelFacts.h - What operations say of their model --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_MODELFACTS_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_MODELFACTS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/MapVector.h"

#include <type_traits>

namespace mlir::optimus {

/// Collects the facts of a model stated by its operations, under names known to
/// people: "heads" of 6. Where a model builder has a flag for the same thing,
/// the name is the flag's: "kv_heads" for --kv-heads.
class ModelFacts {
public:
  explicit ModelFacts(MLIRContext *context) : builder(context) {}

  /// A fact on which the model's function depends.
  template <typename T>
  void decide(StringRef name, T value) {
    deciding[name].push_back(toAttribute(value));
  }
  /// A fact of interest to people, on which the function does not depend.
  template <typename T>
  void mention(StringRef name, T value) {
    mentioned[name].push_back(toAttribute(value));
  }

  /// By name: one value where all operations say the same, else the values in
  /// program order.
  DictionaryAttr getDeciding() { return toDictionary(deciding); }
  DictionaryAttr getMentioned() { return toDictionary(mentioned); }

private:
  using Values = llvm::MapVector<StringRef, SmallVector<Attribute>>;

  template <typename T>
  Attribute toAttribute(T value) {
    if constexpr (std::is_convertible_v<T, Attribute>)
      return value;
    else if constexpr (std::is_same_v<T, bool>)
      return builder.getBoolAttr(value);
    else if constexpr (std::is_integral_v<T>)
      return builder.getI64IntegerAttr(value);
    else
      return builder.getStringAttr(value);
  }
  DictionaryAttr toDictionary(const Values &values) {
    NamedAttrList list;
    for (const auto &[name, said] : values)
      list.set(name, llvm::all_equal(said) ? said.front()
                                           : builder.getArrayAttr(said));
    return list.getDictionary(builder.getContext());
  }

  Builder builder;
  Values deciding, mentioned;
};

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_MODELFACTS_H
