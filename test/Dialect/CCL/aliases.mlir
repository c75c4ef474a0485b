// Local types are printed by aliases that name the shape of the whole tensor.
// Both forms are read.
// RUN: optimus-opt %s --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --mlir-print-local-scope | FileCheck %s --check-prefix=WHOLE
// RUN: optimus-opt %s --mlir-print-local-scope | optimus-opt | FileCheck %s

// CHECK-DAG: #local_4x6 = #ccl.local<[4, 6], <@mesh, [{}, {"col"}]>>
// CHECK-DAG: #local_4x6_1 = #ccl.local<[4, 6], <@mesh, [{"row"}, {}]>>
// CHECK-DAG: #local_scalar = #ccl.local<[], <@mesh, [], unreduced = {"row"}>>
// CHECK-NOT: tensor<{{.*}}#ccl.local
// WHOLE-NOT: #local

#x = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"}]>>

module {
  optimus.mesh @mesh <["row" = 2, "col" = 2]>

  // CHECK: @columns(%{{.*}}: tensor<4x3xf32, #local_4x6>)
  // WHOLE: @columns(%{{.*}}: tensor<4x3xf32, #ccl.local<[4, 6], <@mesh, [{}, {"col"}]>>>)
  func.func @columns(%x: tensor<4x3xf32, #x>) {
    return
  }

  // CHECK: @rows(%{{.*}}: tensor<2x6xf32, #local_4x6_1>)
  func.func @rows(%x: tensor<2x6xf32, #ccl.local<[4, 6], <@mesh, [{"row"}, {}]>>>) {
    return
  }

  // CHECK: @sum(%{{.*}}: tensor<f32, #local_scalar>)
  func.func @sum(%x: tensor<f32, #ccl.local<[], <@mesh, [], unreduced = {"row"}>>>) {
    return
  }
}
