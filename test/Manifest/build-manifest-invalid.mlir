// RUN: optimus-opt %s --split-input-file --verify-diagnostics --optimus-build-manifest

// expected-error @below {{has no function to export}}
// expected-error @below {{the manifest cannot be written}}
module {}

// -----

// expected-error @below {{optimus.model}}
// expected-error @below {{the manifest cannot be written}}
module {
  func.func @train_step(%arena: memref<64xi8>) {
    return
  }
}
