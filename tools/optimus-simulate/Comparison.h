//===- Comparison.h - Plans of one program, term by term --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_SIMULATE_COMPARISON_H
#define OPTIMUS_TOOLS_OPTIMUS_SIMULATE_COMPARISON_H

#include "Output.h"

#include <ostream>
#include <string>
#include <vector>

namespace optimus_simulate {

/// Answers to one question for several plans, beside the first. The terms of a
/// step add up to it: computing by kind, waiting by collective and axis,
/// copies; those of memory to what a rank holds.
class Comparison {
public:
  /// `flags` are those of each plan. Both outlive this.
  Comparison(const std::vector<std::string> &flags,
             const std::vector<Answer> &answers);

  void print(std::ostream &out) const;
  /// Times are milliseconds.
  nlohmann::ordered_json describe() const;

private:
  /// A part of the step in milliseconds, or of memory in bytes, by plan.
  struct Term {
    std::string what, name;
    std::vector<double> values;
    double getChange(size_t plan) const { return values[plan] - values[0]; }
  };

  void add(std::vector<Term> &terms, const std::string &what,
           const std::string &name, size_t plan, double value) const;
  void addTimes(size_t plan);
  void addMemory(size_t plan);
  void printTerms(const std::vector<Term> &terms, const std::string &unit,
                  double size, std::ostream &out) const;
  /// The terms that differ most, as text; empty where none does.
  static std::string explain(const std::vector<Term> &terms, size_t plan,
                             const std::string &unit, double size);
  void printReasons(std::ostream &out) const;
  /// What 1 % more of anything would give each plan.
  void printGains(std::ostream &out) const;

  const std::vector<std::string> &flags;
  const std::vector<Answer> &answers;
  std::vector<Term> times, memory;
};

} // namespace optimus_simulate

#endif // OPTIMUS_TOOLS_OPTIMUS_SIMULATE_COMPARISON_H
