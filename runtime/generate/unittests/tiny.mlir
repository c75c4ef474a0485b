// A Llama of one layer, 3 slots of 16 tokens, chunks of 3: python3 -m optimus.models
// llama --layers 1 --hidden 8 --heads 2 --kv-heads 1 --ffn 6 --seq 16 --vocab 11
// --batch 1 --init-std 0.6 --generate slots=3,context=16,chunk=3
module attributes {optimus.model = {kind = "llama", batch = 1 : i64, sequence = 16 : i64, vocabulary = 11 : i64, layers = 1 : i64, hidden = 8 : i64, heads = 2 : i64, kv_heads = 1 : i64, ffn = 6 : i64, rope_theta = 10000.0 : f64, norm_eps = 1.0e-06 : f64, tied = false}} {
  func.func @prefill(
      %model_embed_tokens_weight: tensor<11x8xf32> {optimus.param = "model.embed_tokens.weight", optimus.init = #optimus.init<normal, stddev = 0.6, stream = 0>, optimus.dims = ["vocabulary", "hidden"]},
      %model_layers_0_input_layernorm_weight: tensor<8xf32> {optimus.param = "model.layers.0.input_layernorm.weight", optimus.init = #optimus.init<ones>, optimus.dims = ["hidden"]},
      %model_layers_0_self_attn_q_proj_weight: tensor<1x2x4x8xf32> {optimus.param = "model.layers.0.self_attn.q_proj.weight", optimus.hf_shape = array<i64: 8, 8>, optimus.init = #optimus.init<normal, stddev = 0.6, stream = 1>, optimus.dims = ["kv_heads", "queries", "head_dim", "hidden"]},
      %model_layers_0_self_attn_k_proj_weight: tensor<1x4x8xf32> {optimus.param = "model.layers.0.self_attn.k_proj.weight", optimus.hf_shape = array<i64: 4, 8>, optimus.init = #optimus.init<normal, stddev = 0.6, stream = 2>, optimus.dims = ["kv_heads", "head_dim", "hidden"]},
      %model_layers_0_self_attn_v_proj_weight: tensor<1x4x8xf32> {optimus.param = "model.layers.0.self_attn.v_proj.weight", optimus.hf_shape = array<i64: 4, 8>, optimus.init = #optimus.init<normal, stddev = 0.6, stream = 3>, optimus.dims = ["kv_heads", "head_dim", "hidden"]},
      %model_layers_0_self_attn_o_proj_weight: tensor<8x1x2x4xf32> {optimus.param = "model.layers.0.self_attn.o_proj.weight", optimus.hf_shape = array<i64: 8, 8>, optimus.init = #optimus.init<normal, stddev = 0.6, stream = 4>, optimus.dims = ["hidden", "kv_heads", "queries", "head_dim"]},
      %model_layers_0_post_attention_layernorm_weight: tensor<8xf32> {optimus.param = "model.layers.0.post_attention_layernorm.weight", optimus.init = #optimus.init<ones>, optimus.dims = ["hidden"]},
      %model_layers_0_mlp_gate_proj_weight: tensor<6x8xf32> {optimus.param = "model.layers.0.mlp.gate_proj.weight", optimus.init = #optimus.init<normal, stddev = 0.6, stream = 5>, optimus.dims = ["ffn", "hidden"]},
      %model_layers_0_mlp_up_proj_weight: tensor<6x8xf32> {optimus.param = "model.layers.0.mlp.up_proj.weight", optimus.init = #optimus.init<normal, stddev = 0.6, stream = 6>, optimus.dims = ["ffn", "hidden"]},
      %model_layers_0_mlp_down_proj_weight: tensor<8x6xf32> {optimus.param = "model.layers.0.mlp.down_proj.weight", optimus.init = #optimus.init<normal, stddev = 0.6, stream = 7>, optimus.dims = ["hidden", "ffn"]},
      %model_norm_weight: tensor<8xf32> {optimus.param = "model.norm.weight", optimus.init = #optimus.init<ones>, optimus.dims = ["hidden"]},
      %lm_head_weight: tensor<11x8xf32> {optimus.param = "lm_head.weight", optimus.init = #optimus.init<normal, stddev = 0.6, stream = 8>, optimus.dims = ["vocabulary", "hidden"]},
      %prefill_tokens: tensor<3x3xi32> {optimus.binding = #optimus.buffer<role = "prefill_tokens", lifetime = call, filled_by = host>, optimus.dims = ["slots", "chunk"]},
      %prefill_positions: tensor<3x3xi32> {optimus.binding = #optimus.buffer<role = "prefill_positions", lifetime = call, filled_by = host>, optimus.dims = ["slots", "chunk"]},
      %lengths: tensor<3xi32> {optimus.binding = #optimus.buffer<role = "lengths", lifetime = call, filled_by = host>, optimus.dims = ["slots"]},
      %model_layers_0_self_attn_keys: tensor<3x16x1x4xf32> {optimus.binding = #optimus.buffer<role = "model.layers.0.self_attn.keys", lifetime = sequence, init = <zeros>, reset = sequence>, optimus.donates = 0 : i64},
      %model_layers_0_self_attn_values: tensor<3x16x1x4xf32> {optimus.binding = #optimus.buffer<role = "model.layers.0.self_attn.values", lifetime = sequence, init = <zeros>, reset = sequence>, optimus.donates = 1 : i64}
  ) -> (tensor<3x16x1x4xf32>, tensor<3x16x1x4xf32>) attributes {optimus.entry = #optimus.entry<prefill, batch = 3, sequence = 3>} {
    %embedded = optimus.embedding %model_embed_tokens_weight, %prefill_tokens : (tensor<11x8xf32>, tensor<3x3xi32>) -> tensor<3x3x8xf32>
    %model_layers_0_input_layernorm, %model_layers_0_input_layernorm_rstd = optimus.rms_norm %embedded, %model_layers_0_input_layernorm_weight {epsilon = 1.0e-06 : f64} : (tensor<3x3x8xf32>, tensor<8xf32>) -> (tensor<3x3x8xf32>, tensor<3x3xf32>)
    %model_layers_0_self_attn_q_proj = optimus.matmul %model_layers_0_input_layernorm, %model_layers_0_self_attn_q_proj_weight {transpose_b} : (tensor<3x3x8xf32>, tensor<1x2x4x8xf32>) -> tensor<3x3x1x2x4xf32>
    %model_layers_0_self_attn_k_proj = optimus.matmul %model_layers_0_input_layernorm, %model_layers_0_self_attn_k_proj_weight {transpose_b} : (tensor<3x3x8xf32>, tensor<1x4x8xf32>) -> tensor<3x3x1x4xf32>
    %model_layers_0_self_attn_v_proj = optimus.matmul %model_layers_0_input_layernorm, %model_layers_0_self_attn_v_proj_weight {transpose_b} : (tensor<3x3x8xf32>, tensor<1x4x8xf32>) -> tensor<3x3x1x4xf32>
    %model_layers_0_self_attn_q_rotated = optimus.rotary %model_layers_0_self_attn_q_proj positions(%prefill_positions : tensor<3x3xi32>) {theta = 10000.0 : f64, capacity = 16 : i64} : tensor<3x3x1x2x4xf32>
    %model_layers_0_self_attn_k_rotated = optimus.rotary %model_layers_0_self_attn_k_proj positions(%prefill_positions : tensor<3x3xi32>) {theta = 10000.0 : f64, capacity = 16 : i64} : tensor<3x3x1x4xf32>
    %model_layers_0_self_attn_keys_filled = optimus.cache_append %model_layers_0_self_attn_keys, %model_layers_0_self_attn_k_rotated, %prefill_positions : (tensor<3x16x1x4xf32>, tensor<3x3x1x4xf32>, tensor<3x3xi32>) -> tensor<3x16x1x4xf32>
    %model_layers_0_self_attn_values_filled = optimus.cache_append %model_layers_0_self_attn_values, %model_layers_0_self_attn_v_proj, %prefill_positions : (tensor<3x16x1x4xf32>, tensor<3x3x1x4xf32>, tensor<3x3xi32>) -> tensor<3x16x1x4xf32>
    %model_layers_0_self_attn_heads, %model_layers_0_self_attn_heads_lse = optimus.attention %model_layers_0_self_attn_q_rotated, %model_layers_0_self_attn_keys_filled, %model_layers_0_self_attn_values_filled lengths(%lengths) positions(%prefill_positions) {causal, cached} : (tensor<3x3x1x2x4xf32>, tensor<3x16x1x4xf32>, tensor<3x16x1x4xf32>, tensor<3xi32>, tensor<3x3xi32>) -> (tensor<3x3x1x2x4xf32>, tensor<3x1x2x3xf32>)
    %model_layers_0_self_attn_o_proj = optimus.matmul %model_layers_0_self_attn_heads, %model_layers_0_self_attn_o_proj_weight {contracting = 3 : i64, transpose_b} : (tensor<3x3x1x2x4xf32>, tensor<8x1x2x4xf32>) -> tensor<3x3x8xf32>
    %model_layers_0_self_attn_sum = optimus.add %model_layers_0_self_attn_o_proj, %embedded : (tensor<3x3x8xf32>, tensor<3x3x8xf32>) -> tensor<3x3x8xf32>
    %model_layers_0_post_attention_layernorm, %model_layers_0_post_attention_layernorm_rstd = optimus.rms_norm %model_layers_0_self_attn_sum, %model_layers_0_post_attention_layernorm_weight {epsilon = 1.0e-06 : f64} : (tensor<3x3x8xf32>, tensor<8xf32>) -> (tensor<3x3x8xf32>, tensor<3x3xf32>)
    %model_layers_0_mlp_gate_proj = optimus.matmul %model_layers_0_post_attention_layernorm, %model_layers_0_mlp_gate_proj_weight {transpose_b} : (tensor<3x3x8xf32>, tensor<6x8xf32>) -> tensor<3x3x6xf32>
    %model_layers_0_mlp_up_proj = optimus.matmul %model_layers_0_post_attention_layernorm, %model_layers_0_mlp_up_proj_weight {transpose_b} : (tensor<3x3x8xf32>, tensor<6x8xf32>) -> tensor<3x3x6xf32>
    %model_layers_0_mlp_gated = optimus.swiglu %model_layers_0_mlp_gate_proj, %model_layers_0_mlp_up_proj : tensor<3x3x6xf32>
    %model_layers_0_mlp_down_proj = optimus.matmul %model_layers_0_mlp_gated, %model_layers_0_mlp_down_proj_weight {transpose_b} : (tensor<3x3x6xf32>, tensor<8x6xf32>) -> tensor<3x3x8xf32>
    %model_layers_0_mlp_sum = optimus.add %model_layers_0_mlp_down_proj, %model_layers_0_self_attn_sum : (tensor<3x3x8xf32>, tensor<3x3x8xf32>) -> tensor<3x3x8xf32>
    %model_norm, %model_norm_rstd = optimus.rms_norm %model_layers_0_mlp_sum, %model_norm_weight {epsilon = 1.0e-06 : f64} : (tensor<3x3x8xf32>, tensor<8xf32>) -> (tensor<3x3x8xf32>, tensor<3x3xf32>)
    return %model_layers_0_self_attn_keys_filled, %model_layers_0_self_attn_values_filled : tensor<3x16x1x4xf32>, tensor<3x16x1x4xf32>
  }
  func.func @decode(
      %model_embed_tokens_weight: tensor<11x8xf32> {optimus.param = "model.embed_tokens.weight", optimus.init = #optimus.init<normal, stddev = 0.6, stream = 0>, optimus.dims = ["vocabulary", "hidden"]},
      %model_layers_0_input_layernorm_weight: tensor<8xf32> {optimus.param = "model.layers.0.input_layernorm.weight", optimus.init = #optimus.init<ones>, optimus.dims = ["hidden"]},
      %model_layers_0_self_attn_q_proj_weight: tensor<1x2x4x8xf32> {optimus.param = "model.layers.0.self_attn.q_proj.weight", optimus.hf_shape = array<i64: 8, 8>, optimus.init = #optimus.init<normal, stddev = 0.6, stream = 1>, optimus.dims = ["kv_heads", "queries", "head_dim", "hidden"]},
      %model_layers_0_self_attn_k_proj_weight: tensor<1x4x8xf32> {optimus.param = "model.layers.0.self_attn.k_proj.weight", optimus.hf_shape = array<i64: 4, 8>, optimus.init = #optimus.init<normal, stddev = 0.6, stream = 2>, optimus.dims = ["kv_heads", "head_dim", "hidden"]},
      %model_layers_0_self_attn_v_proj_weight: tensor<1x4x8xf32> {optimus.param = "model.layers.0.self_attn.v_proj.weight", optimus.hf_shape = array<i64: 4, 8>, optimus.init = #optimus.init<normal, stddev = 0.6, stream = 3>, optimus.dims = ["kv_heads", "head_dim", "hidden"]},
      %model_layers_0_self_attn_o_proj_weight: tensor<8x1x2x4xf32> {optimus.param = "model.layers.0.self_attn.o_proj.weight", optimus.hf_shape = array<i64: 8, 8>, optimus.init = #optimus.init<normal, stddev = 0.6, stream = 4>, optimus.dims = ["hidden", "kv_heads", "queries", "head_dim"]},
      %model_layers_0_post_attention_layernorm_weight: tensor<8xf32> {optimus.param = "model.layers.0.post_attention_layernorm.weight", optimus.init = #optimus.init<ones>, optimus.dims = ["hidden"]},
      %model_layers_0_mlp_gate_proj_weight: tensor<6x8xf32> {optimus.param = "model.layers.0.mlp.gate_proj.weight", optimus.init = #optimus.init<normal, stddev = 0.6, stream = 5>, optimus.dims = ["ffn", "hidden"]},
      %model_layers_0_mlp_up_proj_weight: tensor<6x8xf32> {optimus.param = "model.layers.0.mlp.up_proj.weight", optimus.init = #optimus.init<normal, stddev = 0.6, stream = 6>, optimus.dims = ["ffn", "hidden"]},
      %model_layers_0_mlp_down_proj_weight: tensor<8x6xf32> {optimus.param = "model.layers.0.mlp.down_proj.weight", optimus.init = #optimus.init<normal, stddev = 0.6, stream = 7>, optimus.dims = ["hidden", "ffn"]},
      %model_norm_weight: tensor<8xf32> {optimus.param = "model.norm.weight", optimus.init = #optimus.init<ones>, optimus.dims = ["hidden"]},
      %lm_head_weight: tensor<11x8xf32> {optimus.param = "lm_head.weight", optimus.init = #optimus.init<normal, stddev = 0.6, stream = 8>, optimus.dims = ["vocabulary", "hidden"]},
      %decode_tokens: tensor<3x1xi32> {optimus.binding = #optimus.buffer<role = "decode_tokens", lifetime = call, filled_by = host>, optimus.dims = ["slots", "chunk"]},
      %decode_positions: tensor<3x1xi32> {optimus.binding = #optimus.buffer<role = "decode_positions", lifetime = call, filled_by = host>, optimus.dims = ["slots", "chunk"]},
      %lengths: tensor<3xi32> {optimus.binding = #optimus.buffer<role = "lengths", lifetime = call, filled_by = host>, optimus.dims = ["slots"]},
      %model_layers_0_self_attn_keys: tensor<3x16x1x4xf32> {optimus.binding = #optimus.buffer<role = "model.layers.0.self_attn.keys", lifetime = sequence, init = <zeros>, reset = sequence>, optimus.donates = 1 : i64},
      %model_layers_0_self_attn_values: tensor<3x16x1x4xf32> {optimus.binding = #optimus.buffer<role = "model.layers.0.self_attn.values", lifetime = sequence, init = <zeros>, reset = sequence>, optimus.donates = 2 : i64}
  ) -> (tensor<3x1x11xf32> {optimus.binding = #optimus.buffer<role = "next_logits", lifetime = call>}, tensor<3x16x1x4xf32>, tensor<3x16x1x4xf32>) attributes {optimus.entry = #optimus.entry<decode, batch = 3, sequence = 1>} {
    %embedded = optimus.embedding %model_embed_tokens_weight, %decode_tokens : (tensor<11x8xf32>, tensor<3x1xi32>) -> tensor<3x1x8xf32>
    %model_layers_0_input_layernorm, %model_layers_0_input_layernorm_rstd = optimus.rms_norm %embedded, %model_layers_0_input_layernorm_weight {epsilon = 1.0e-06 : f64} : (tensor<3x1x8xf32>, tensor<8xf32>) -> (tensor<3x1x8xf32>, tensor<3x1xf32>)
    %model_layers_0_self_attn_q_proj = optimus.matmul %model_layers_0_input_layernorm, %model_layers_0_self_attn_q_proj_weight {transpose_b} : (tensor<3x1x8xf32>, tensor<1x2x4x8xf32>) -> tensor<3x1x1x2x4xf32>
    %model_layers_0_self_attn_k_proj = optimus.matmul %model_layers_0_input_layernorm, %model_layers_0_self_attn_k_proj_weight {transpose_b} : (tensor<3x1x8xf32>, tensor<1x4x8xf32>) -> tensor<3x1x1x4xf32>
    %model_layers_0_self_attn_v_proj = optimus.matmul %model_layers_0_input_layernorm, %model_layers_0_self_attn_v_proj_weight {transpose_b} : (tensor<3x1x8xf32>, tensor<1x4x8xf32>) -> tensor<3x1x1x4xf32>
    %model_layers_0_self_attn_q_rotated = optimus.rotary %model_layers_0_self_attn_q_proj positions(%decode_positions : tensor<3x1xi32>) {theta = 10000.0 : f64, capacity = 16 : i64} : tensor<3x1x1x2x4xf32>
    %model_layers_0_self_attn_k_rotated = optimus.rotary %model_layers_0_self_attn_k_proj positions(%decode_positions : tensor<3x1xi32>) {theta = 10000.0 : f64, capacity = 16 : i64} : tensor<3x1x1x4xf32>
    %model_layers_0_self_attn_keys_filled = optimus.cache_append %model_layers_0_self_attn_keys, %model_layers_0_self_attn_k_rotated, %decode_positions : (tensor<3x16x1x4xf32>, tensor<3x1x1x4xf32>, tensor<3x1xi32>) -> tensor<3x16x1x4xf32>
    %model_layers_0_self_attn_values_filled = optimus.cache_append %model_layers_0_self_attn_values, %model_layers_0_self_attn_v_proj, %decode_positions : (tensor<3x16x1x4xf32>, tensor<3x1x1x4xf32>, tensor<3x1xi32>) -> tensor<3x16x1x4xf32>
    %model_layers_0_self_attn_heads, %model_layers_0_self_attn_heads_lse = optimus.attention %model_layers_0_self_attn_q_rotated, %model_layers_0_self_attn_keys_filled, %model_layers_0_self_attn_values_filled lengths(%lengths) positions(%decode_positions) {causal, cached} : (tensor<3x1x1x2x4xf32>, tensor<3x16x1x4xf32>, tensor<3x16x1x4xf32>, tensor<3xi32>, tensor<3x1xi32>) -> (tensor<3x1x1x2x4xf32>, tensor<3x1x2x1xf32>)
    %model_layers_0_self_attn_o_proj = optimus.matmul %model_layers_0_self_attn_heads, %model_layers_0_self_attn_o_proj_weight {contracting = 3 : i64, transpose_b} : (tensor<3x1x1x2x4xf32>, tensor<8x1x2x4xf32>) -> tensor<3x1x8xf32>
    %model_layers_0_self_attn_sum = optimus.add %model_layers_0_self_attn_o_proj, %embedded : (tensor<3x1x8xf32>, tensor<3x1x8xf32>) -> tensor<3x1x8xf32>
    %model_layers_0_post_attention_layernorm, %model_layers_0_post_attention_layernorm_rstd = optimus.rms_norm %model_layers_0_self_attn_sum, %model_layers_0_post_attention_layernorm_weight {epsilon = 1.0e-06 : f64} : (tensor<3x1x8xf32>, tensor<8xf32>) -> (tensor<3x1x8xf32>, tensor<3x1xf32>)
    %model_layers_0_mlp_gate_proj = optimus.matmul %model_layers_0_post_attention_layernorm, %model_layers_0_mlp_gate_proj_weight {transpose_b} : (tensor<3x1x8xf32>, tensor<6x8xf32>) -> tensor<3x1x6xf32>
    %model_layers_0_mlp_up_proj = optimus.matmul %model_layers_0_post_attention_layernorm, %model_layers_0_mlp_up_proj_weight {transpose_b} : (tensor<3x1x8xf32>, tensor<6x8xf32>) -> tensor<3x1x6xf32>
    %model_layers_0_mlp_gated = optimus.swiglu %model_layers_0_mlp_gate_proj, %model_layers_0_mlp_up_proj : tensor<3x1x6xf32>
    %model_layers_0_mlp_down_proj = optimus.matmul %model_layers_0_mlp_gated, %model_layers_0_mlp_down_proj_weight {transpose_b} : (tensor<3x1x6xf32>, tensor<8x6xf32>) -> tensor<3x1x8xf32>
    %model_layers_0_mlp_sum = optimus.add %model_layers_0_mlp_down_proj, %model_layers_0_self_attn_sum : (tensor<3x1x8xf32>, tensor<3x1x8xf32>) -> tensor<3x1x8xf32>
    %model_norm, %model_norm_rstd = optimus.rms_norm %model_layers_0_mlp_sum, %model_norm_weight {epsilon = 1.0e-06 : f64} : (tensor<3x1x8xf32>, tensor<8xf32>) -> (tensor<3x1x8xf32>, tensor<3x1xf32>)
    %logits = optimus.head %model_norm, %lm_head_weight : (tensor<3x1x8xf32>, tensor<11x8xf32>) -> tensor<3x1x11xf32>
    return %logits, %model_layers_0_self_attn_keys_filled, %model_layers_0_self_attn_values_filled : tensor<3x1x11xf32>, tensor<3x16x1x4xf32>, tensor<3x16x1x4xf32>
  }
}
