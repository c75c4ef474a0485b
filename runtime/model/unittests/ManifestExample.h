//===- ManifestExample.h - A manifest to be changed -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MODEL_UNITTESTS_MANIFESTEXAMPLE_H
#define OPTIMUS_RUNTIME_MODEL_UNITTESTS_MANIFESTEXAMPLE_H

#include "optimus-runtime/Manifest.h"

#include <nlohmann/json.hpp>

namespace optrt {

/// Like the example of docs/manifest.md: a 2x2 mesh and six heads padded to
/// eight.
inline nlohmann::json example() {
  return nlohmann::json::parse(R"json({
    "format": 3,
    "compiler": "optimus 0.1.0 (LLVM 22.1.8)",
    "source_hash": "9f86d081884c7d65",
    "model_hash": "60303ae22b998861",
    "target": {"name": "cpu", "cpu": "znver4", "features": ["avx2", "fma"]},
    "mesh": [{"axis": "row", "size": 2}, {"axis": "col", "size": 2}],
    "strategy": "summa",
    "model": {"batch": 16, "sequence": 128, "vocabulary": 256},
    "optimizer": "adamw",
    "config": "{\"model_type\":\"gpt2\"}",
    "function": {
      "version": 1, "hash": "0f0e0d0c0b0a0908",
      "facts": {"heads": {"value": 6, "flag": "--heads"},
                "epsilon": {"value": 1e-05}},
      "incidental": {"dropout": {"value": 0.1}}},
    "precision": "bf16",
    "dimensions": [
      {"name": "heads", "size": 6, "padded": 8, "axes": ["col"]}],
    "buffers": [
      {"name": "h.0.attn.c_attn.weight", "role": "parameter", "type": "f32",
       "shape": [192, 3, 6, 32], "local_shape": [96, 3, 4, 32],
       "sharding": [["row"], [], ["col"], []], "lifetime": "parameter",
       "init": {"kind": "normal", "stddev": 0.02, "stream": 2},
       "saved": {"file": "model", "name": "h.0.attn.c_attn.weight",
                 "shape": [192, 576]},
       "decay": true},
      {"name": "ln_f.weight", "role": "parameter", "type": "f32",
       "shape": [192], "local_shape": [96], "sharding": [["col"]],
       "lifetime": "parameter", "init": {"kind": "ones"},
       "saved": {"file": "model", "name": "ln_f.weight", "shape": [192]},
       "decay": false},
      {"name": "exp_avg:ln_f.weight", "role": "exp_avg", "of": 1,
       "type": "f32", "shape": [192], "local_shape": [48],
       "sharding": [["col", "row"]], "lifetime": "state",
       "init": {"kind": "zeros"},
       "saved": {"file": "optimizer", "name": "exp_avg.ln_f.weight",
                 "shape": [192]}},
      {"name": "grad_sum:ln_f.weight", "role": "grad_sum", "of": 1,
       "type": "f32", "shape": [192], "local_shape": [96],
       "sharding": [["col"]], "unreduced": ["row"], "lifetime": "sequence",
       "init": {"kind": "constant", "value": 0.5}, "reset": "step"},
      {"name": "tokens", "role": "tokens", "type": "i32", "shape": [16, 128],
       "local_shape": [8, 128], "sharding": [["row"], []],
       "lifetime": "call", "filled_by": "data"},
      {"name": "lr", "role": "lr", "type": "f32", "shape": [],
       "local_shape": [], "sharding": [], "lifetime": "call",
       "filled_by": "host"},
      {"name": "loss_sum", "role": "loss_sum", "type": "f32", "shape": [],
       "local_shape": [], "sharding": [], "lifetime": "call"},
      {"name": "real_count", "role": "real_count", "type": "f32", "shape": [],
       "local_shape": [], "sharding": [], "lifetime": "call"},
      {"name": "grad_norm", "role": "grad_norm", "type": "f32", "shape": [],
       "local_shape": [], "sharding": [], "lifetime": "call"},
      {"name": "keys", "role": "cache", "type": "bf16", "shape": [16, 128],
       "local_shape": [8, 128], "sharding": [["row"], []],
       "lifetime": "sequence", "init": {"kind": "zeros"}, "reset": "sequence"},
      {"name": "logits", "role": "logits", "type": "f32", "shape": [16, 256],
       "local_shape": [8, 256], "sharding": [["row"], []],
       "lifetime": "call"}],
    "functions": [
      {"name": "train_step",
       "entry": {"kind": "train", "batch": 16, "sequence": 128},
       "args": [
         {"buffer": 0, "access": "update"}, {"buffer": 2, "access": "update"},
         {"buffer": 1, "access": "update"}, {"buffer": 4, "access": "read"},
         {"buffer": 5, "access": "read"},
         {"buffer": 6, "access": "write", "rounding": 12.5},
         {"buffer": 7, "access": "write"}, {"buffer": 8, "access": "write"}],
       "commands": 812,
       "arena_bytes": 10485760, "lower_bound_bytes": 10395648,
       "peak_bytes": {"activation": 8388608, "gradient": 1048576},
       "communication": [
         {"axis": "row", "bytes": 4194304, "messages": 96},
         {"axis": "col", "bytes": 8388608, "messages": 120}],
       "schedule": {
         "predicted_step_ms": 12.5, "predicted_comm_ms": 4,
         "predicted_exposed_ms": 0.5, "extra_workspace_bytes": 4096,
         "not_overlapped": 7, "out_of_workspace": 2}},
      {"name": "eval_step",
       "entry": {"kind": "eval", "batch": 16, "sequence": 128},
       "args": [
         {"buffer": 0, "access": "read"}, {"buffer": 1, "access": "read"},
         {"buffer": 4, "access": "read"}, {"buffer": 6, "access": "write"},
         {"buffer": 7, "access": "write"}],
       "commands": 300, "arena_bytes": 0},
      {"name": "decode", "entry": {"kind": "other"},
       "args": [
         {"buffer": 0, "access": "read"}, {"buffer": 9, "access": "update"},
         {"buffer": 10, "access": "write"}],
       "commands": 30, "arena_bytes": 0}]
  })json");
}

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MODEL_UNITTESTS_MANIFESTEXAMPLE_H
