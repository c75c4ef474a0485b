// RUN: optimus-opt %s --split-input-file --verify-diagnostics

// One case for each constraint of each command.

func.func @gemm_c1(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>) {
  // expected-error @below {{m, n and k must be positive, found 0, 8, 8}}
  exec.gemm %a, %b, %c {m = 0 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @gemm_c9(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>, %live: memref<7xi32>) {
  // expected-error @below {{live has 7 elements; expected one for each of the 8 rows of an A that is not transposed}}
  exec.gemm %a, %b, %c live(%live : memref<7xi32>) {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @gemm_c2(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>) {
  // expected-error @below {{lda is 4, less than the 8 columns of A}}
  exec.gemm %a, %b, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 4 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @gemm_c3(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>) {
  // expected-error @below {{B needs 128 elements for [16, 8] with leading dimension 8, but its buffer has 64}}
  exec.gemm %a, %b, %c {m = 4 : i64, n = 8 : i64, k = 16 : i64, lda = 16 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @gemm_c3_bias(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>, %bias: memref<4xf32>) {
  // expected-error @below {{bias needs 8 elements, but has 4}}
  exec.gemm %a, %b, %c bias(%bias : memref<4xf32>) {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @gemm_c4(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>) {
  // expected-error @below {{epilogue add needs an extra operand}}
  exec.gemm %a, %b, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64, epilogue = #exec<epilogue add>} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @gemm_c5(%a: memref<64xf32>, %b: memref<64xf32>) {
  // expected-error @below {{writes the buffer of one of its inputs}}
  exec.gemm %a, %b, %a {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @gemm_c3_packed(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>) {
  // expected-error @below {{B has 63 elements of 64 in its buffer; expected at least 64 for a packed matrix}}
  exec.gemm %a, %b, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 63 : i64, ldc = 8 : i64, packed_b} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @gemm_c3_packed_room(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>) {
  // expected-error @below {{B has 65 elements of 64 in its buffer; expected at least 64 for a packed matrix}}
  exec.gemm %a, %b, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 65 : i64, ldc = 8 : i64, packed_b} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @gemm_c6(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>) {
  // expected-error @below {{has a packed B that is transposed; expected packed what is multiplied}}
  exec.gemm %a, %b, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 64 : i64, ldc = 8 : i64, packed_b, trans_b} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @gemm_c6_blocks(%a: memref<64xf32>, %b: memref<136xi32>, %c: memref<4xf32>) {
  // expected-error @below {{has blocks of int8; expected a packed B and an ldb of 136}}
  exec.gemm %a, %b, %c {m = 2 : i64, n = 2 : i64, k = 32 : i64, lda = 32 : i64, ldb = 128 : i64, ldc = 2 : i64, packed_b, blocks = #exec<blocks int8>} : memref<64xf32>, memref<136xi32>, memref<4xf32>
  return
}

// -----

func.func @gemm_c6_words(%a: memref<64xf32>, %b: memref<137xi32>, %c: memref<4xf32>) {
  // expected-error @below {{B has 137 words for blocks of 32 x 2 elements; expected 136, and a multiple of 32 rows}}
  exec.gemm %a, %b, %c {m = 2 : i64, n = 2 : i64, k = 32 : i64, lda = 32 : i64, ldb = 137 : i64, ldc = 2 : i64, packed_b, blocks = #exec<blocks int8>} : memref<64xf32>, memref<137xi32>, memref<4xf32>
  return
}

// -----

func.func @gemm_c7_panels(%a: memref<64xf32>, %b: memref<1024xi32>, %c: memref<4xf32>) {
  // expected-error @below {{A must be of 'bf16' elements, found 'f32'}}
  exec.gemm %a, %b, %c {m = 2 : i64, n = 2 : i64, k = 32 : i64, lda = 32 : i64, ldb = 1024 : i64, ldc = 2 : i64, packed_b, blocks = #exec<blocks bf16>} : memref<64xf32>, memref<1024xi32>, memref<4xf32>
  return
}

// -----

func.func @pack_c5_panels(%a: memref<99xf32>, %b: memref<1024xi32>) {
  // expected-error @below {{dst has 1024 words for blocks of 33 x 3 elements; expected 2048}}
  exec.pack %a into %b {rows = 33 : i64, cols = 3 : i64, ld = 3 : i64, blocks = #exec<blocks bf16>} : memref<99xf32>, memref<1024xi32>
  return
}

// -----

func.func @pack_c5(%a: memref<96xf32>, %b: memref<51xi32>) {
  // expected-error @below {{dst has 51 words for blocks of 48 x 2 elements; expected}}
  exec.pack %a into %b {rows = 48 : i64, cols = 2 : i64, ld = 2 : i64, blocks = #exec<blocks int8>} : memref<96xf32>, memref<51xi32>
  return
}

// -----

func.func @pack_c5_elements(%a: memref<64xf32>, %b: memref<64xi32>) {
  // expected-error @below {{dst must be of 'f32' elements, found 'i32'}}
  exec.pack %a into %b {rows = 32 : i64, cols = 2 : i64, ld = 2 : i64} : memref<64xf32>, memref<64xi32>
  return
}

// -----

func.func @pack_c1(%a: memref<64xf32>, %b: memref<64xf32>) {
  // expected-error @below {{rows and cols must be positive, found 0 and 8}}
  exec.pack %a into %b {rows = 0 : i64, cols = 8 : i64, ld = 8 : i64} : memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @pack_c2(%a: memref<64xf32>, %b: memref<64xf32>) {
  // expected-error @below {{src needs 68 elements for [9, 4] with leading dimension 8, but its buffer has 64}}
  exec.pack %a into %b {rows = 4 : i64, cols = 9 : i64, ld = 8 : i64, trans} : memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @pack_c3(%a: memref<64xf32>, %b: memref<60xf32>) {
  // expected-error @below {{dst has 60 elements of 60 in its buffer; expected at least 64 for a packed matrix}}
  exec.pack %a into %b {rows = 8 : i64, cols = 8 : i64, ld = 8 : i64} : memref<64xf32>, memref<60xf32>
  return
}

// -----

func.func @pack_c4(%a: memref<64xf32>) {
  // expected-error @below {{packs a buffer into itself}}
  exec.pack %a into %a {rows = 8 : i64, cols = 8 : i64, ld = 8 : i64} : memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func private @kernel(index, index, memref<64xf32>)
func.func @launch_c1(%a: memref<64xf32>) {
  // expected-error @below {{extent and grain must be positive, found 0 and 1}}
  exec.launch @kernel extent 0 grain 1 (update %a : memref<64xf32>)
  return
}

// -----

func.func private @kernel(index, index, memref<64xf32>)
func.func @launch_c1_half(%a: memref<64xf32>) {
  // expected-error @below {{extent and grain must be both there or both missing}}
  "exec.launch"(%a) <{kernel = @kernel, extent = 1 : i64, access = array<i32: 1>, operandSegmentSizes = array<i32: 1, 0>}> : (memref<64xf32>) -> ()
  return
}

// -----

func.func private @kernel(index, index, memref<64xf32>)
func.func @launch_c2(%a: memref<64xf32>) {
  // expected-error @below {{has 2 accesses for 1 buffers}}
  "exec.launch"(%a) <{kernel = @kernel, extent = 1 : i64, grain = 1 : i64, access = array<i32: 1, 2>, operandSegmentSizes = array<i32: 1, 0>}> : (memref<64xf32>) -> ()
  return
}

// -----

func.func private @kernel(index, index, memref<32xf32>)
func.func @launch_c3(%a: memref<64xf32>) {
  // expected-error @below {{kernel @kernel does not take a range and these operands}}
  exec.launch @kernel extent 1 grain 1 (update %a : memref<64xf32>)
  return
}

// -----

func.func @launch_c3_missing(%a: memref<64xf32>) {
  // expected-error @below {{there is no function @kernel}}
  exec.launch @kernel extent 1 grain 1 (update %a : memref<64xf32>)
  return
}

// -----

func.func @gemm_c8_no_kernel(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>, %d: memref<8xf32>) {
  // expected-error @below {{epilogue bias_grad needs a kernel}}
  exec.gemm %a, %b, %c bias(%d : memref<8xf32>) {m = 8, n = 8, k = 8, lda = 8, ldb = 8, ldc = 8, epilogue = #exec<epilogue bias_grad>}
    : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @gemm_c8_kernel(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>) {
  // expected-error @below {{epilogue none takes no kernel}}
  exec.gemm %a, %b, %c {m = 8, n = 8, k = 8, lda = 8, ldb = 8, ldc = 8, kernel = @k}
    : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @gemm_c8_transposed(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>, %d: memref<8xf32>) {
  // expected-error @below {{epilogue bias_grad expects a bias of C's type, a C that is not accumulated, and a B of rows one after the other}}
  exec.gemm %a, %b, %c bias(%d : memref<8xf32>) {m = 8, n = 8, k = 8, lda = 8, ldb = 8, ldc = 8, trans_b, kernel = @k,
    epilogue = #exec<epilogue bias_grad>} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @copy_c1(%a: memref<64xf32>, %b: memref<64xf32>) {
  // expected-error @below {{rows and cols must be positive, found 0 and 64}}
  exec.copy %a from %b : memref<64xf32> {rows = 0 : i64, cols = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>
  return
}

// -----

func.func @copy_c2(%a: memref<64xf32>, %b: memref<32xf32>) {
  // expected-error @below {{src needs 64 elements for [1, 64] with leading dimension 64, but its buffer has 32}}
  exec.copy %a from %b : memref<32xf32> {rows = 1 : i64, cols = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>
  return
}

// -----

func.func @copy_c3(%a: memref<64xf32>) {
  // expected-error @below {{copies a buffer to itself}}
  exec.copy %a from %a : memref<64xf32> {rows = 1 : i64, cols = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>
  return
}

// -----

func.func @attention_c1(%q: memref<64xf32>, %kv: memref<32xf32>, %lse: memref<8xf32>) {
  // expected-error @below {{lse needs 16 elements, but its buffer has 8}}
  exec.attention %q, %kv, %kv, %q, %lse {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 4 : i64} : memref<64xf32>, memref<32xf32>, memref<32xf32>, memref<64xf32>, memref<8xf32>
  return
}

// -----

func.func @attention_c2(%q: memref<64xf32>, %kv: memref<32xf32>, %lse: memref<16xf32>) {
  // expected-error @below {{kv_heads must divide heads, found 3 and 2}}
  exec.attention %q, %kv, %kv, %q, %lse {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 3 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 4 : i64} : memref<64xf32>, memref<32xf32>, memref<32xf32>, memref<64xf32>, memref<16xf32>
  return
}

// -----

func.func @attention_c3(%q: memref<64xf32>, %kv: memref<32xf32>, %lse: memref<16xf32>) {
  // expected-error @below {{q_ld and kv_ld must hold a token's heads, found 7 and 4}}
  exec.attention %q, %kv, %kv, %q, %lse {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, q_ld = 7 : i64, kv_ld = 4 : i64} : memref<64xf32>, memref<32xf32>, memref<32xf32>, memref<64xf32>, memref<16xf32>
  return
}

// -----

func.func @attention_c6(%q: memref<64xf32>, %kv: memref<32xf32>, %lse: memref<16xf32>, %p: memref<8xi32>) {
  // expected-error @below {{attention with positions must be causal}}
  exec.attention %q, %kv, %kv, %q, %lse positions(%p : memref<8xi32>) {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 4 : i64} : memref<64xf32>, memref<32xf32>, memref<32xf32>, memref<64xf32>, memref<16xf32>
  return
}

// -----

func.func @attention_c6_few(%q: memref<64xf32>, %kv: memref<32xf32>, %lse: memref<16xf32>, %p: memref<7xi32>) {
  // expected-error @below {{positions needs 8 elements, but its buffer has 7}}
  exec.attention %q, %kv, %kv, %q, %lse positions(%p : memref<7xi32>) {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 4 : i64, causal} : memref<64xf32>, memref<32xf32>, memref<32xf32>, memref<64xf32>, memref<16xf32>
  return
}

// -----

func.func @attention_c7(%q: memref<64xf32>, %kv: memref<32xf32>, %lse: memref<16xf32>) {
  // expected-error @below {{window must be positive, found 0}}
  exec.attention %q, %kv, %kv, %q, %lse {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 4 : i64, causal, window = 0 : i64} : memref<64xf32>, memref<32xf32>, memref<32xf32>, memref<64xf32>, memref<16xf32>
  return
}

// -----

func.func @attention_c7_causal(%q: memref<64xf32>, %kv: memref<32xf32>, %lse: memref<16xf32>) {
  // expected-error @below {{attention with a window must be causal}}
  exec.attention %q, %kv, %kv, %q, %lse {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 4 : i64, window = 3 : i64} : memref<64xf32>, memref<32xf32>, memref<32xf32>, memref<64xf32>, memref<16xf32>
  return
}

// -----

func.func @attention_c8(%q: memref<8xf32>, %kv: memref<32xf32>, %lse: memref<2xf32>, %l: memref<1xi32>, %p: memref<1xi32>) {
  // expected-error @below {{capacity must be positive, found 0}}
  exec.attention %q, %kv, %kv, %q, %lse lengths(%l : memref<1xi32>) positions(%p : memref<1xi32>) {batch = 1 : i64, seq = 1 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 4 : i64, causal, capacity = 0 : i64} : memref<8xf32>, memref<32xf32>, memref<32xf32>, memref<8xf32>, memref<2xf32>
  return
}

// -----

func.func @attention_c9_pages(%q: memref<8xf32>, %kv: memref<512xf32>, %lse: memref<2xf32>, %l: memref<1xi32>, %p: memref<1xi32>) {
  // expected-error @below {{expected pages and the pool they are of, or neither}}
  exec.attention %q, %kv, %kv, %q, %lse lengths(%l : memref<1xi32>) positions(%p : memref<1xi32>) {batch = 1 : i64, seq = 1 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 4 : i64, causal, capacity = 128 : i64, pool = 2 : i64} : memref<8xf32>, memref<512xf32>, memref<512xf32>, memref<8xf32>, memref<2xf32>
  return
}

// -----

func.func @attention_c9_capacity(%q: memref<8xf32>, %kv: memref<512xf32>, %lse: memref<2xf32>, %l: memref<1xi32>, %p: memref<1xi32>, %t: memref<2xi32>) {
  // expected-error @below {{expected a pool of as many pages for each sequence, a capacity of whole pages of 64, and one query a sequence}}
  exec.attention %q, %kv, %kv, %q, %lse lengths(%l : memref<1xi32>) positions(%p : memref<1xi32>) pages(%t : memref<2xi32>) {batch = 1 : i64, seq = 1 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 4 : i64, causal, capacity = 100 : i64, pool = 2 : i64} : memref<8xf32>, memref<512xf32>, memref<512xf32>, memref<8xf32>, memref<2xf32>
  return
}

// -----

func.func @attention_c9_table(%q: memref<8xf32>, %kv: memref<512xf32>, %lse: memref<2xf32>, %l: memref<1xi32>, %p: memref<1xi32>, %t: memref<1xi32>) {
  // expected-error @below {{pages needs 2 elements, but its buffer has 1}}
  exec.attention %q, %kv, %kv, %q, %lse lengths(%l : memref<1xi32>) positions(%p : memref<1xi32>) pages(%t : memref<1xi32>) {batch = 1 : i64, seq = 1 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 4 : i64, causal, capacity = 128 : i64, pool = 2 : i64} : memref<8xf32>, memref<512xf32>, memref<512xf32>, memref<8xf32>, memref<2xf32>
  return
}

// -----

func.func @attention_c1_pool(%q: memref<8xf32>, %kv: memref<508xf32>, %lse: memref<2xf32>, %l: memref<1xi32>, %p: memref<1xi32>, %t: memref<2xi32>) {
  // expected-error @below {{k needs 512 elements, but its buffer has 508}}
  exec.attention %q, %kv, %kv, %q, %lse lengths(%l : memref<1xi32>) positions(%p : memref<1xi32>) pages(%t : memref<2xi32>) {batch = 1 : i64, seq = 1 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 4 : i64, causal, capacity = 128 : i64, pool = 2 : i64} : memref<8xf32>, memref<508xf32>, memref<508xf32>, memref<8xf32>, memref<2xf32>
  return
}

// -----

func.func @attention_c8_lengths(%q: memref<8xf32>, %kv: memref<32xf32>, %lse: memref<2xf32>, %p: memref<1xi32>) {
  // expected-error @below {{attention of a cache must be causal, with lengths and positions}}
  exec.attention %q, %kv, %kv, %q, %lse positions(%p : memref<1xi32>) {batch = 1 : i64, seq = 1 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 4 : i64, causal, capacity = 8 : i64} : memref<8xf32>, memref<32xf32>, memref<32xf32>, memref<8xf32>, memref<2xf32>
  return
}

// -----

func.func @attention_c1_cache(%q: memref<8xf32>, %kv: memref<32xf32>, %lse: memref<2xf32>, %l: memref<1xi32>, %p: memref<1xi32>) {
  // expected-error @below {{k needs 36 elements, but its buffer has 32}}
  exec.attention %q, %kv, %kv, %q, %lse lengths(%l : memref<1xi32>) positions(%p : memref<1xi32>) {batch = 1 : i64, seq = 1 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 4 : i64, causal, capacity = 9 : i64} : memref<8xf32>, memref<32xf32>, memref<32xf32>, memref<8xf32>, memref<2xf32>
  return
}

// -----

func.func @attention_grad_c1(%q: memref<64xf32>, %kv: memref<32xf32>, %small: memref<16xf32>) {
  // expected-error @below {{dv needs 32 elements, but its buffer has 16}}
  exec.attention_grad %q, %q, %kv, %kv, %q, %small, %q, %kv, %small {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 4 : i64} : memref<64xf32>, memref<64xf32>, memref<32xf32>, memref<32xf32>, memref<64xf32>, memref<16xf32>, memref<64xf32>, memref<32xf32>, memref<16xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2]>
func.func @collective_c1(%a: memref<64xf32>, %b: memref<64xf32>) {
  // expected-error @below {{root 2 is not on axis "row" of 2 ranks}}
  %0 = exec.collective_start broadcast sum over "row", %a to %b {root = 2 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %0
  return
}

// -----

optimus.mesh @mesh <["row" = 2]>
func.func @collective_c2(%a: memref<64xf32>, %b: memref<64xf32>) {
  // expected-error @below {{outer and inner must be positive, found 0 and 64}}
  %0 = exec.collective_start broadcast sum over "row", %a to %b {outer = 0 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %0
  return
}

// -----

optimus.mesh @mesh <["row" = 2]>
func.func @collective_c3(%a: memref<64xf32>, %b: memref<64xf32>) {
  // expected-error @below {{dst needs 128 elements for [1, 128] with leading dimension 128, but its buffer has 64}}
  %0 = exec.collective_start all_gather sum over "row", %a to %b {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 128 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %0
  return
}

// -----

optimus.mesh @mesh <["row" = 2]>
func.func @collective_c4(%a: memref<64xf32>, %b: memref<64xf32>) {
  // expected-error @below {{needs exactly one exec.wait for its token}}
  %0 = exec.collective_start broadcast sum over "row", %a to %b {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2]>
func.func @collective_c4_carried(%a: memref<64xf32>, %b: memref<64xf32>) {
  // expected-error @below {{is carried under 3; expected a positive number, and no exec.wait for its token}}
  %0 = exec.collective_start broadcast sum over "row", %a to %b {carried = 3 : i32, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %0
  return
}

// -----

func.func @wait_carried_c1(%a: memref<64xf32>) {
  // expected-error @below {{waits for number -1; expected a positive one}}
  exec.wait_carried -1, %a : memref<64xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2]>
func.func @collective_c5(%a: memref<64xf32>, %b: memref<64xf32>) {
  // expected-error @below {{broadcast combines nothing: reduction must be sum}}
  %0 = exec.collective_start broadcast max over "row", %a to %b {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %0
  return
}

// -----

func.func @wait_c1(%token: !exec.token) {
  // expected-error @below {{waits for something that is no exec.collective_start}}
  exec.wait %token
  return
}

// -----

func.func @gemm_c2_one_row(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>) {
  // expected-error @below {{lda must be from 0 to 281474976710656, found 9223372036854775807}}
  exec.gemm %a, %b, %c {m = 1 : i64, n = 8 : i64, k = 8 : i64, lda = 9223372036854775807 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @gemm_c2_unused(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>) {
  // expected-error @below {{ld_extra must be from 0 to 281474976710656, found -1}}
  exec.gemm %a, %b, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64, ld_extra = -1 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// -----

// As a product of 64-bit numbers, the extent wraps around to 4.
func.func @gemm_c3_overflow(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>) {
  // expected-error @below {{A needs more than 2^63 elements for [4611686018427387905, 4] with leading dimension 4, but its buffer has 64}}
  exec.gemm %a, %b, %c {m = 4611686018427387905 : i64, n = 8 : i64, k = 4 : i64, lda = 4 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @copy_c2_no_source(%b: memref<64xf32>) {
  // expected-error @below {{src_ld must be from 0 to 281474976710656, found -9223372036854775808}}
  exec.copy %b {rows = 1 : i64, cols = 64 : i64, src_ld = -9223372036854775808 : i64, dst_ld = 64 : i64} : memref<64xf32>
  return
}

// -----

func.func @attention_c1_overflow(%x: memref<64xf32>, %y: memref<64xf32>, %lse: memref<16xf32>) {
  // expected-error @below {{out needs more than 2^63 elements, but its buffer has 64}}
  exec.attention %x, %x, %x, %y, %lse {batch = 4294967296 : i64, seq = 4294967296 : i64, heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>, memref<64xf32>, memref<16xf32>
  return
}

// -----

func.func @attention_c3_most(%x: memref<8xf32>, %y: memref<8xf32>, %lse: memref<2xf32>) {
  // expected-error @below {{q_ld and kv_ld must be at most 281474976710656, found 9223372036854775807}}
  exec.attention %x, %x, %x, %y, %lse {batch = 1 : i64, seq = 1 : i64, heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, q_ld = 9223372036854775807 : i64, kv_ld = 8 : i64} : memref<8xf32>, memref<8xf32>, memref<8xf32>, memref<8xf32>, memref<2xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 65536]>
func.func @collective_c3_overflow(%x: memref<281474976710656xf32>, %y: memref<64xf32>) {
  // expected-error @below {{dst needs more than 2^63 elements for [1, more than 2^63] with leading dimension 64, but its buffer has 64}}
  %0 = exec.collective_start all_gather sum over "row", %x to %y {outer = 1 : i64, inner = 281474976710656 : i64, src_ld = 0 : i64, dst_ld = 64 : i64} : memref<281474976710656xf32>, memref<64xf32>
  exec.wait %0
  return
}
