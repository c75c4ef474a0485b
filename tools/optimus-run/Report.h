//===- Report.h - Communication and memory, for people ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_REPORT_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_REPORT_H

#include "optimus-runtime/Session.h"
#include "tooling/MeasuresJson.h"

#include <span>

namespace optimus_run {

/// A line for each mesh axis with more than one rank.
void printCommunication(const optrt::Mesh &mesh,
                        std::span<const optrt::Traffic> traffic);
/// How much of the time in flight was hidden behind computing.
void printCommunicationTime(const optrt::CommunicationTime &time);
/// A line of what a step copies between memories.
void printPaging(const optrt::PagingTime &paging);
void printMemory(const optrt::RankMemory &memory);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_REPORT_H
