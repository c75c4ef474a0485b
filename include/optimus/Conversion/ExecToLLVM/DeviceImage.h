//===- DeviceImage.h - Machine code that a library carries ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_EXECTOLLVM_DEVICEIMAGE_H
#define OPTIMUS_CONVERSION_EXECTOLLVM_DEVICEIMAGE_H

#include <string>
#include <vector>

namespace mlir::optimus {

/// The kernels of a model as a device loads them; optimus_image of model_abi.h.
struct DeviceImage {
  std::string architecture;
  std::string code;
};
using DeviceImages = std::vector<DeviceImage>;

} // namespace mlir::optimus

#endif // OPTIMUS_CONVERSION_EXECTOLLVM_DEVICEIMAGE_H
