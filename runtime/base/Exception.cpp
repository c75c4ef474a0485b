//===- Exception.cpp - What the standard library throws -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Exception.h"

#include <cstdio>
#include <exception>
#include <string_view>
#include <system_error>

namespace optrt {

OutOfMemory::OutOfMemory(std::size_t bytes) noexcept {
  // Nothing here may allocate.
  std::snprintf(text, sizeof(text), "cannot allocate %zu bytes", bytes);
}

Status statusOfException() {
  try {
    throw;
  } catch (const StatusException &error) {
    return error.status();
  } catch (const std::bad_alloc &error) {
    // Without a size where it is not our operator new that failed.
    std::string_view what = error.what();
    return unavailable(concat(
        "out of memory", what == "std::bad_alloc" ? "" : ": ",
        what == "std::bad_alloc" ? "" : what,
        "; use a smaller batch, a mesh with more ranks or fewer threads, or "
        "allow more (ulimit -v, the machine's or a container's limit)"));
  } catch (const std::system_error &error) {
    return unavailable(concat("the system refused: ", error.what()));
  } catch (const std::exception &error) {
    return internal(concat("unexpected exception: ", error.what()));
  } catch (...) {
    return internal("unexpected exception of an unknown type");
  }
}

} // namespace optrt
