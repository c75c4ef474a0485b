//===- Passes.td - What model libraries say of themselves --*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_MANIFEST_PASSES
#define OPTIMUS_MANIFEST_PASSES

include "mlir/Pass/PassBase.td"

def RecordFunctionPass : Pass<"optimus-record-function", "::mlir::ModuleOp"> {
  let summary = "Keeps for the manifest what decides the function of the model";
  let description = [{
    Runs on the program as its builder wrote it. The module gets `optimus.function`:
    the facts of the model stated by the operations of `@loss`, and a hash of
    the computation of its results. The hash is of operations, attributes,
    parameters and how values flow. It does not depend on batch, sequence, names
    of values, dropout, precision and the head's chunk.

    ```mlir
    module attributes {optimus.model = {…}}
    // becomes
    module attributes {optimus.model = {…}, optimus.function = {
      version = 1 : i64, hash = "60303ae22b998861",
      facts = {heads = 6 : i64, mask = "causal"}, incidental = {chunk = 512 : i64}}}
    ```

    A module that has the attribute, or no `@loss`, is left as it is.
  }];
}

def RecordLayoutsPass : Pass<"optimus-record-layouts", "::mlir::ModuleOp"> {
  let summary = "Keeps for the manifest what buffers do not show";
  let description = [{
    Runs on local tensors, just before `--optimus-to-exec`. Every argument gets
    the type of its tensor (`exec.local_type`), and the module the hash of the
    program (`exec.source_hash`) and what rounding does to each gradient
    (`exec.rounding`).

    ```mlir
    func.func @f(%w: tensor<4x8xf32, #local>)
    // becomes
    func.func @f(%w: tensor<4x8xf32, #local> {exec.local_type = tensor<4x8xf32, #local>})
    ```
  }];
}

def BuildManifestPass : Pass<"optimus-build-manifest", "::mlir::ModuleOp"> {
  let summary = "Writes the manifest of a model library into the module";
  let description = [{
    Runs on placed device programs that went through `--optimus-record-layouts`.
    The module gets the text of its manifest (docs/manifest.md) as the attribute
    `exec.manifest`, which `--optimus-exec-to-llvm` puts into the library.

    Fails where the module does not say what every manifest needs.

    ```mlir
    module {
    // becomes
    module attributes {exec.manifest = "{\0A  \22compiler\22: …}"} {
    ```
  }];
  let options = [
    Option<"strategy", "strategy", "std::string", "\"serial\"",
           "The strategy that the program was sharded with">,
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"",
           "The optimizer: adamw, lamb, sgd, adagrad or lion">,
    Option<"precision", "precision", "std::string", "\"f32\"",
           "Of what activations and factors of products are: f32, bf16 or f16">,
    Option<"target", "target", "std::string", "\"cpu\"",
           "The device that the library is for: cpu or cuda">,
    Option<"cpu", "mcpu", "std::string", "\"native\"",
           "With target=cpu: the processor that the library is for">,
    Option<"isPlan", "plan", "bool", "false",
           "Say that the library has no kernels and cannot run">,
    ListOption<"tile", "tile", "int64_t",
               "The part of the mesh that a node is meant to have, one extent "
               "an axis">,
    Option<"nodeRanks", "node-ranks", "int64_t", "0",
           "Without a tile: how many ranks that follow each other a node is "
           "meant to have; 0 where nothing is known of nodes">
  ];
}

#endif // OPTIMUS_MANIFEST_PASSES
