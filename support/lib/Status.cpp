//===- Status.cpp - The outcome of an operation ---------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Status.h"

using namespace optimus_support;

struct Status::Failure {
  StatusCode code;
  std::string message;
  std::string_view file; ///< of a literal
  int line;
};

std::string_view optimus_support::toString(StatusCode code) {
  switch (code) {
  case StatusCode::Ok:
    return "ok";
  case StatusCode::InvalidArgument:
    return "invalid argument";
  case StatusCode::DataLoss:
    return "data loss";
  case StatusCode::Unavailable:
    return "unavailable";
  case StatusCode::Internal:
    return "internal error";
  }
  return "unknown";
}

Status::Status(StatusCode code, std::string message,
               std::source_location where) {
  if (code == StatusCode::Ok)
    return;
  std::string_view file = where.file_name();
  // npos + 1 is 0: a name without folders stays whole.
  file.remove_prefix(file.rfind('/') + 1);
  failure = std::make_shared<const Failure>(
      Failure{code, std::move(message), file, int(where.line())});
}

StatusCode Status::code() const {
  return failure ? failure->code : StatusCode::Ok;
}

const std::string &Status::message() const {
  static const std::string empty;
  return failure ? failure->message : empty;
}

std::string_view Status::file() const {
  return failure ? failure->file : std::string_view();
}

int Status::line() const { return failure ? failure->line : 0; }

int Status::exitCode() const {
  switch (code()) {
  case StatusCode::Ok:
    return 0;
  case StatusCode::Internal:
    return 2;
  default:
    return 1;
  }
}

Status Status::withContext(std::string_view context) const {
  if (ok())
    return *this;
  Status result;
  result.failure = std::make_shared<const Failure>(
      Failure{failure->code, concat(context, ": ", failure->message),
              failure->file, failure->line});
  return result;
}

Status Status::withAdvice(std::string_view advice) const {
  if (ok() || advice.empty())
    return *this;
  Status result;
  result.failure = std::make_shared<const Failure>(
      Failure{failure->code, concat(failure->message, "; ", advice),
              failure->file, failure->line});
  return result;
}

std::string Status::toString() const {
  if (ok())
    return "ok";
  return concat(optimus_support::toString(code()), ": ", message(), " [", file(), ":",
                line(), "]");
}
