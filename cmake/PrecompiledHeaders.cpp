//===- PrecompiledHeaders.cpp - A source for headers alone ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CMake precompiles headers for a target with a source: this one, which has
// nothing else in it. AddOptimus.cmake and OptimusMLIR.cmake name the headers.
//
//===----------------------------------------------------------------------===//
