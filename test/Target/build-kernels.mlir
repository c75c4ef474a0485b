// RUN: optimus-opt %s --optimus-to-exec --verify-roundtrip | FileCheck %s --check-prefix=DECLARED
// RUN: optimus-opt %s --optimus-to-exec --optimus-build-kernels --optimus-verify-exec --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --optimus-to-exec --optimus-build-kernels --optimus-build-kernels | FileCheck %s

// Lowering says what is computed; the pass says how, and in how many iterations.
// Equal kernels are one function. What was built is left alone.
// DECLARED-LABEL: func.func @f
// DECLARED: exec.launch @gelu_10000(read %{{.*}} : memref<10000xf32>, write %{{.*}} : memref<10000xf32>)
// DECLARED: exec.launch @gelu_10000(
// DECLARED: exec.launch @layer_norm_100x100_3ee4f8b588e368f1(
// DECLARED: func.func private @gelu_10000(index, index, memref<10000xf32>, memref<10000xf32>) attributes {exec.computes = {cols = 10000 : i64, kind = "elementwise", op = "optimus.gelu", repeats = array<i64: 0>, results = 1 : i64, rows = 1 : i64}, exec.kernel}
// DECLARED: func.func private @layer_norm_100x100_3ee4f8b588e368f1(index, index, {{.*}}) attributes {exec.computes = {epsilon = 1.000000e-05 : f64, kind = "layer_norm", n = 100 : i64, rows = 100 : i64}, exec.kernel}

// CHECK-LABEL: func.func @f
// CHECK: exec.launch @gelu_10000 extent 3 grain 4(
// CHECK: exec.launch @gelu_10000 extent 3 grain 4(
// CHECK: exec.launch @layer_norm_100x100_3ee4f8b588e368f1 extent 100 grain 163(
// CHECK: func.func private @gelu_10000(%[[BEGIN:.*]]: index, %[[END:.*]]: index, %{{.*}}: memref<10000xf32>, %{{.*}}: memref<10000xf32>) attributes {exec.computes = {{.*}}, exec.kernel} {
// CHECK: scf.for %{{.*}} = %[[BEGIN]] to %[[END]]
// CHECK: vector.load {{.*}} vector<16xf32>
// CHECK: func.func private @layer_norm_100x100_3ee4f8b588e368f1(
// CHECK-NOT: func.func
func.func @f(%x: tensor<100x100xf32>, %gamma: tensor<100xf32>) -> (tensor<100x100xf32>, tensor<100xf32>, tensor<100xf32>) {
  %0 = optimus.gelu %x : tensor<100x100xf32>
  %1 = optimus.gelu %0 : tensor<100x100xf32>
  %y, %mean, %rstd = optimus.layer_norm %1, %gamma, %gamma {epsilon = 1.0e-5 : f64} : (tensor<100x100xf32>, tensor<100xf32>, tensor<100xf32>) -> (tensor<100x100xf32>, tensor<100xf32>, tensor<100xf32>)
  return %y, %mean, %rstd : tensor<100x100xf32>, tensor<100xf32>, tensor<100xf32>
}
