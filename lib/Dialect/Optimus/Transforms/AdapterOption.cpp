//===- AdapterOption.cpp - The adapters of a fine-tuned model ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/Transforms/AdapterOption.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

llvm::Expected<AdapterOption> AdapterOption::parse(StringRef text) {
  auto fail = [&](const Twine &expected, StringRef found) {
    return llvm::createStringError("expected " + expected + "; found '" +
                                   found + "' in '" + text + "'");
  };
  constexpr int64_t kMostRank = 1 << 16;
  AdapterOption option;
  bool isTargets = false;
  for (StringRef part : llvm::split(text, ',')) {
    auto [key, value] = part.split('=');
    if (key == "rank") {
      if (value.getAsInteger(10, option.rank) || option.rank < 1 ||
          option.rank > kMostRank)
        return fail("a rank from 1 to " + Twine(kMostRank), value);
      isTargets = false;
    } else if (key == "alpha") {
      if (value.getAsDouble(option.alpha) || !(option.alpha > 0) ||
          !std::isfinite(static_cast<float>(option.alpha)))
        return fail("a positive alpha", value);
      isTargets = false;
    } else {
      isTargets |= key == "targets";
      StringRef target = key == "targets" ? value : part;
      if (!isTargets || target.empty() || target.contains('='))
        return fail("rank=N,alpha=X,targets=MODULE,…, as "
                    "rank=16,alpha=32,targets=q_proj,v_proj",
                    part);
      if (llvm::is_contained(option.targets, target))
        return fail("each target once", target);
      option.targets.push_back(target.str());
    }
  }
  for (auto [isGiven, what] : {std::pair(option.rank > 0, "rank"),
                               {option.alpha > 0, "alpha"},
                               {!option.targets.empty(), "targets"}})
    if (!isGiven)
      return fail(Twine(what) + " beside the others, as "
                                "rank=16,alpha=32,targets=q_proj,v_proj",
                  text);
  return option;
}
