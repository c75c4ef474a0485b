//===- HeldTermination.h - SIGTERM while ranks are watched ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// When a rank dies, mpirun sends all others SIGTERM, at about the time at which
// they notice. Who died must be said first.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_PEERS_HELDTERMINATION_H
#define OPTIMUS_RUNTIME_CCL_PEERS_HELDTERMINATION_H

#include <chrono>

namespace optrt {

/// The process has one. A signal that is ignored stays so.
class HeldTermination {
public:
  /// From now on the signal is only noted.
  void hold();
  /// From now on it does what it did before.
  ~HeldTermination();

  /// To be called again and again: lets a noted signal have its former effect,
  /// unless a rank was found to be to blame meanwhile.
  void letPass();

  /// From now on it ends the process at once.
  void endWith(int exitCode);

private:
  std::chrono::steady_clock::time_point noticedAt;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_PEERS_HELDTERMINATION_H
