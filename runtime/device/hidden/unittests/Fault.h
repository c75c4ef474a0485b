//===- Fault.h - How an access to hidden memory ends ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_HIDDEN_UNITTESTS_FAULT_H
#define OPTIMUS_RUNTIME_DEVICE_HIDDEN_UNITTESTS_FAULT_H

#include <csignal>
#include <gtest/gtest.h>

/// Its effect on a process, and the report on it. Sanitizers report the signal,
/// and exit with a code of theirs.
#if defined(__SANITIZE_ADDRESS__)
inline const testing::ExitedWithCode endedByFault(1);
inline constexpr char kFaultReport[] = "AddressSanitizer: SEGV";
#elif defined(__SANITIZE_THREAD__)
inline const testing::ExitedWithCode endedByFault(66);
inline constexpr char kFaultReport[] = "ThreadSanitizer: SEGV";
#else
inline const testing::KilledBySignal endedByFault(SIGSEGV);
inline constexpr char kFaultReport[] = "";
#endif

#endif // OPTIMUS_RUNTIME_DEVICE_HIDDEN_UNITTESTS_FAULT_H
