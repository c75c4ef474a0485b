//===- Mailbox.h - How members of a fake communicator meet ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_NCCL_FAKE_MAILBOX_H
#define OPTIMUS_RUNTIME_CCL_NCCL_FAKE_MAILBOX_H

#include <filesystem>
#include <string>

namespace optrt::nccl::fake {

/// A folder in which members leave texts for each other, whole or not at all,
/// whether they are threads of a process or processes.
class Mailbox {
public:
  explicit Mailbox(std::filesystem::path folder) : folder(std::move(folder)) {}

  const std::filesystem::path &path() const { return folder; }

  /// Makes one that nobody has; empty where the system does not let us.
  static std::string make();

  void put(const std::string &name, int member, const std::string &text) const;
  bool has(const std::string &name, int member) const;
  /// Whether `size` members have left it.
  bool hasAll(const std::string &name, int size) const;
  std::string get(const std::string &name, int member) const;
  void remove(const std::string &name, int member) const;
  /// Removes it with all that is left in it.
  void close() const;

private:
  std::filesystem::path pathOf(const std::string &name, int member) const {
    return folder / (name + "." + std::to_string(member));
  }

  std::filesystem::path folder;
};

} // namespace optrt::nccl::fake

#endif // OPTIMUS_RUNTIME_CCL_NCCL_FAKE_MAILBOX_H
