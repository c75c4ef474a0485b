//===- MemoryFunctions.cpp - What code generation calls ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryFunctions.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::internal;
using optimus_support::StatusOr;

/// Words of eight bytes, which are vectorised, then the remaining bytes.
/// `no-builtins` keeps LLVM from recognising them as calls of themselves.
static constexpr StringLiteral kFunctions = R"ir(
define hidden ptr @memset(ptr returned %to, i32 %value, i64 %bytes) #0 {
entry:
  %byte = trunc i32 %value to i8
  %wide = zext i8 %byte to i64
  %word = mul i64 %wide, 72340172838076673
  %words = lshr i64 %bytes, 3
  %whole = and i64 %bytes, -8
  %anyWords = icmp ne i64 %words, 0
  br i1 %anyWords, label %fillWords, label %checkTail
fillWords:
  %i = phi i64 [ 0, %entry ], [ %i.next, %fillWords ]
  %at = getelementptr inbounds i64, ptr %to, i64 %i
  store i64 %word, ptr %at, align 1
  %i.next = add nuw nsw i64 %i, 1
  %moreWords = icmp ult i64 %i.next, %words
  br i1 %moreWords, label %fillWords, label %checkTail
checkTail:
  %anyBytes = icmp ult i64 %whole, %bytes
  br i1 %anyBytes, label %fillBytes, label %done
fillBytes:
  %j = phi i64 [ %whole, %checkTail ], [ %j.next, %fillBytes ]
  %atByte = getelementptr inbounds i8, ptr %to, i64 %j
  store i8 %byte, ptr %atByte, align 1
  %j.next = add nuw nsw i64 %j, 1
  %moreBytes = icmp ult i64 %j.next, %bytes
  br i1 %moreBytes, label %fillBytes, label %done
done:
  ret ptr %to
}

define hidden ptr @memcpy(ptr noalias returned %to, ptr noalias readonly %from,
                          i64 %bytes) #0 {
entry:
  %words = lshr i64 %bytes, 3
  %whole = and i64 %bytes, -8
  %anyWords = icmp ne i64 %words, 0
  br i1 %anyWords, label %copyWords, label %checkTail
copyWords:
  %i = phi i64 [ 0, %entry ], [ %i.next, %copyWords ]
  %source = getelementptr inbounds i64, ptr %from, i64 %i
  %word = load i64, ptr %source, align 1
  %at = getelementptr inbounds i64, ptr %to, i64 %i
  store i64 %word, ptr %at, align 1
  %i.next = add nuw nsw i64 %i, 1
  %moreWords = icmp ult i64 %i.next, %words
  br i1 %moreWords, label %copyWords, label %checkTail
checkTail:
  %anyBytes = icmp ult i64 %whole, %bytes
  br i1 %anyBytes, label %copyBytes, label %done
copyBytes:
  %j = phi i64 [ %whole, %checkTail ], [ %j.next, %copyBytes ]
  %sourceByte = getelementptr inbounds i8, ptr %from, i64 %j
  %byte = load i8, ptr %sourceByte, align 1
  %atByte = getelementptr inbounds i8, ptr %to, i64 %j
  store i8 %byte, ptr %atByte, align 1
  %j.next = add nuw nsw i64 %j, 1
  %moreBytes = icmp ult i64 %j.next, %bytes
  br i1 %moreBytes, label %copyBytes, label %done
done:
  ret ptr %to
}

; Forward where the destination is before the source or behind all of it.
define hidden ptr @memmove(ptr returned %to, ptr %from, i64 %bytes) #0 {
entry:
  %toAddress = ptrtoint ptr %to to i64
  %fromAddress = ptrtoint ptr %from to i64
  %distance = sub i64 %toAddress, %fromAddress
  %isForward = icmp uge i64 %distance, %bytes
  %any = icmp ne i64 %bytes, 0
  br i1 %any, label %move, label %done
move:
  br i1 %isForward, label %forward, label %backward
forward:
  %i = phi i64 [ 0, %move ], [ %i.next, %forward ]
  %source = getelementptr inbounds i8, ptr %from, i64 %i
  %byte = load i8, ptr %source, align 1
  %at = getelementptr inbounds i8, ptr %to, i64 %i
  store i8 %byte, ptr %at, align 1
  %i.next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %i.next, %bytes
  br i1 %more, label %forward, label %done
backward:
  %j = phi i64 [ %bytes, %move ], [ %j.next, %backward ]
  %j.next = add nsw i64 %j, -1
  %lastSource = getelementptr inbounds i8, ptr %from, i64 %j.next
  %lastByte = load i8, ptr %lastSource, align 1
  %last = getelementptr inbounds i8, ptr %to, i64 %j.next
  store i8 %lastByte, ptr %last, align 1
  %isFirst = icmp eq i64 %j.next, 0
  br i1 %isFirst, label %done, label %backward
done:
  ret ptr %to
}

attributes #0 = { nounwind "no-builtins" }
)ir";

StatusOr<LLVMCode> mlir::optimus::createMemoryFunctions(
    std::unique_ptr<llvm::TargetMachine> machine) {
  auto context = std::make_unique<llvm::LLVMContext>();
  llvm::SMDiagnostic problem;
  std::unique_ptr<llvm::Module> module =
      llvm::parseAssemblyString(kFunctions, problem, *context);
  if (!module)
    return internal("the memory functions do not parse: " +
                    problem.getMessage().str());
  module->setModuleIdentifier("optimus-memory");
  return LLVMCode::create(std::move(context), std::move(module),
                          std::move(machine));
}
