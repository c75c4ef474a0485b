// What test/Dialect/CCL/verify-partition-serial.mlir is compared with.
func.func @f(%x: tensor<4x8xf32> {optimus.param = "x"}, %w: tensor<8x8xf32>, %b: tensor<8xf32>, %r: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = optimus.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("h.0.mlp.up"("model.py":7:0))
  %1 = optimus.add %0, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> loc("h.0.mlp.up"("model.py":8:0))
  %2 = optimus.gelu %1 : tensor<4x8xf32> loc("h.0.mlp.act"("model.py":9:0))
  %3 = optimus.add %2, %r : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0.mlp"("model.py":10:0))
  return %3 : tensor<4x8xf32>
}
