//===- Mailbox.cpp - How members of a fake communicator meet --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mailbox.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <system_error>

namespace optrt::nccl::fake {

std::string Mailbox::make() {
  std::error_code error;
  std::string folder =
      (std::filesystem::temp_directory_path(error) / "fake-nccl-XXXXXX")
          .string();
  return mkdtemp(folder.data()) ? folder : "";
}

void Mailbox::put(const std::string &name, int member,
                  const std::string &text) const {
  const std::filesystem::path path = pathOf(name, member);
  std::filesystem::path part = path;
  part += "+";
  std::ofstream(part, std::ios::binary) << text;
  std::error_code error;
  std::filesystem::rename(part, path, error);
}

bool Mailbox::has(const std::string &name, int member) const {
  std::error_code error;
  return std::filesystem::exists(pathOf(name, member), error);
}

bool Mailbox::hasAll(const std::string &name, int size) const {
  for (int member = 0; member != size; ++member)
    if (!has(name, member))
      return false;
  return true;
}

std::string Mailbox::get(const std::string &name, int member) const {
  std::ifstream file(pathOf(name, member), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Mailbox::remove(const std::string &name, int member) const {
  std::error_code error;
  std::filesystem::remove(pathOf(name, member), error);
}

void Mailbox::close() const {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
}

} // namespace optrt::nccl::fake
