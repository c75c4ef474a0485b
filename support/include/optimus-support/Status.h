//===- Status.h - The outcome of an operation -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every function of the runtime and of support that can fail returns a Status or
// a StatusOr; none throws. A message is one sentence or two: the expected and
// the found value, the place, and the remedy.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_STATUS_H
#define OPTIMUS_SUPPORT_STATUS_H

#include <cassert>
#include <memory>
#include <optional>
#include <source_location>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace optimus_support {

enum class StatusCode {
  Ok,
  InvalidArgument, ///< the user asked for something impossible
  DataLoss,        ///< a file of the user's is damaged
  Unavailable,     ///< the machine lacks something: a library, a device, space
  Internal,        ///< a fault of ours
};

/// "invalid argument", "data loss", ...
std::string_view toString(StatusCode code);

/// Success, or a code with a message and the line that raised it. Cheap to
/// copy; success is a null pointer.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message,
         std::source_location where = std::source_location::current());

  bool ok() const { return !failure; }
  StatusCode code() const;
  /// Empty for success.
  const std::string &message() const;
  /// The source file's name without folders, and the line, that raised it.
  std::string_view file() const;
  int line() const;

  /// The process's exit code: 0 for success, 2 for Internal, otherwise 1.
  int exitCode() const;
  /// The same failure, its message preceded by "`context`: ".
  Status withContext(std::string_view context) const;
  /// The same failure, its message followed by "; `advice`" if there is any.
  Status withAdvice(std::string_view advice) const;
  /// For logs: "data loss: MESSAGE [Checkpoint.cpp:12]".
  std::string toString() const;

private:
  struct Failure;
  std::shared_ptr<const Failure> failure;
};

/// The values' text, joined.
template <typename... Args>
std::string concat(const Args &...args) {
  std::ostringstream text;
  (text << ... << args);
  return std::move(text).str();
}

inline Status okStatus() { return Status(); }
inline Status
invalidArgument(std::string message,
                std::source_location where = std::source_location::current()) {
  return Status(StatusCode::InvalidArgument, std::move(message), where);
}
inline Status
dataLoss(std::string message,
         std::source_location where = std::source_location::current()) {
  return Status(StatusCode::DataLoss, std::move(message), where);
}
inline Status
unavailable(std::string message,
            std::source_location where = std::source_location::current()) {
  return Status(StatusCode::Unavailable, std::move(message), where);
}
inline Status
internal(std::string message,
         std::source_location where = std::source_location::current()) {
  return Status(StatusCode::Internal, std::move(message), where);
}

/// A value, or the failure that kept it from being made.
template <typename T>
class [[nodiscard]] StatusOr {
public:
  StatusOr(Status status) : failure(std::move(status)) {
    assert(!failure.ok() && "a StatusOr without value needs a failure");
  }
  StatusOr(T value) : held(std::move(value)) {}

  bool ok() const { return held.has_value(); }
  const Status &status() const { return failure; }

  T &value() & {
    assert(ok());
    return *held;
  }
  const T &value() const & {
    assert(ok());
    return *held;
  }
  T &&value() && {
    assert(ok());
    return *std::move(held);
  }
  T &operator*() & { return value(); }
  const T &operator*() const & { return value(); }
  T &&operator*() && { return std::move(*this).value(); }
  T *operator->() { return &value(); }
  const T *operator->() const { return &value(); }

private:
  std::optional<T> held;
  Status failure;
};

} // namespace optimus_support

#define OPTRT_CONCAT_IMPL(a, b) a##b
#define OPTRT_CONCAT(a, b) OPTRT_CONCAT_IMPL(a, b)

/// Returns from the function with the failure of `expr`, if it failed.
#define OPTRT_RETURN_IF_ERROR(expr)                                            \
  do {                                                                         \
    if (::optimus_support::Status optrtStatus = (expr); !optrtStatus.ok())               \
      return optrtStatus;                                                      \
  } while (false)

/// Declares or assigns `lhs` from the StatusOr `expr`, or returns its failure.
#define OPTRT_ASSIGN_OR_RETURN(lhs, ...)                                       \
  OPTRT_ASSIGN_OR_RETURN_IMPL(OPTRT_CONCAT(optrtResult, __LINE__), lhs,        \
                              __VA_ARGS__)
#define OPTRT_ASSIGN_OR_RETURN_IMPL(result, lhs, ...)                          \
  auto result = (__VA_ARGS__);                                                 \
  if (!result.ok())                                                            \
    return result.status();                                                    \
  lhs = std::move(result).value()

#endif // OPTIMUS_SUPPORT_STATUS_H
