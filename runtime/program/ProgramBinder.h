//===- ProgramBinder.h - What a rank decides about a function ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROGRAM_PROGRAMBINDER_H
#define OPTIMUS_RUNTIME_PROGRAM_PROGRAMBINDER_H

#include "BoundProgram.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace optrt {

/// Fills in what one rank decides about a function.
class ProgramBinder {
  using CommandT = optimus_support::program::CommandT;
  using FunctionT = optimus_support::program::FunctionT;

public:
  ProgramBinder(BoundProgram &result, const KernelTable &kernels,
                std::vector<int64_t> coordinates, Device &device,
                std::span<char *const> arenas, std::span<void *const> arguments,
                bool isQueued)
      : result(result), kernels(kernels), coordinates(std::move(coordinates)),
        device(device), arenas(arenas), arguments(arguments),
        isQueued(isQueued), function(*result.described) {}

  Status bind();
  /// After that, where nothing is placed when a command is executed.
  void addLanes(int64_t lanes);

private:
  Status bindCommand(const CommandT &command);
  void bindOrder();
  Status bind(const optimus_support::program::GemmT &gemm,
              const CommandT &command);
  Status bind(const optimus_support::program::LaunchT &launch,
              const CommandT &command);
  void bindCopyingKernel(const optimus_support::program::CopyT &copy,
                         const CommandT &command, BoundProgram::Bound &bound);
  Status bind(const optimus_support::program::CollectiveT &collective,
              const CommandT &command);
  Status bind(const optimus_support::program::AttentionShapeT &shape,
              const CommandT &command, bool isDeterministic);
  Status bind(const optimus_support::program::SendT &send,
              const CommandT &command);
  Status bind(const optimus_support::program::ReceiveT &receive,
              const CommandT &command);
  template <typename Message>
  Status bindMessage(const Message &message, int32_t kind,
                     const CommandT &command);
  /// Finds what starts together.
  Status bindGroups();
  Status expectTypes(const CommandT &command) const;
  /// The same for what may be bf16, too.
  Status expectComputable(std::string_view what, const CommandT &command) const;

  /// A vector that was reserved keeps its elements where they are.
  template <typename T>
  static T &append(std::vector<T> &list, T element) {
    list.push_back(std::move(element));
    return list.back();
  }
  /// As descriptors have it; of an absent operand, the type is f32.
  static int32_t typeOf(const CommandT &command, size_t operand);
  void addPointers(const CommandT &command, size_t count);
  void addPointer(uint32_t address);
  char *baseOf(const optimus_support::program::PlaceT &place) const;
  /// From one lane's to the next one's.
  int64_t strideOf(const optimus_support::program::PlaceT &place) const;

  Status notHere(std::string_view what) const {
    return unavailable(concat("this device has no ", what));
  }

  BoundProgram &result;
  const KernelTable &kernels;
  const std::vector<int64_t> coordinates;
  Device &device;
  std::span<char *const> arenas;
  std::span<void *const> arguments;
  const bool isQueued;
  const FunctionT &function;
  bool hasCaches = false; ///< whether attention sees keys of earlier calls
  /// Why an address cannot be placed dynamically.
  Status notPlaced;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROGRAM_PROGRAMBINDER_H
