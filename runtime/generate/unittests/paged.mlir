// A Llama of one layer, 3 slots that share 3 pages: python3 -m optimus.models llama
// --layers 1 --hidden 8 --heads 2 --kv-heads 1 --ffn 6 --seq 128 --vocab 11 --batch 1
// --init-std 0.6 --generate slots=3,context=128,chunk=64,pages=3
module attributes {optimus.model = {kind = "llama", batch = 1 : i64, sequence = 128 : i64, vocabulary = 11 : i64, layers = 1 : i64, hidden = 8 : i64, heads = 2 : i64, kv_heads = 1 : i64, ffn = 6 : i64, rope_theta = 10000.0 : f64, norm_eps = 1.0e-06 : f64, tied = false}} {
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
      %prefill_tokens: tensor<64x1xi32> {optimus.binding = #optimus.buffer<role = "prefill_tokens", lifetime = call, filled_by = host>, optimus.dims = ["chunk", "slot"]},
      %prefill_positions: tensor<64x1xi32> {optimus.binding = #optimus.buffer<role = "prefill_positions", lifetime = call, filled_by = host>, optimus.dims = ["chunk", "slot"]},
      %prefill_places: tensor<64x1xi32> {optimus.binding = #optimus.buffer<role = "prefill_places", lifetime = call, filled_by = host>, optimus.dims = ["chunk", "slot"]},
      %prefill_slot: tensor<1xi32> {optimus.binding = #optimus.buffer<role = "prefill_slot", lifetime = call, filled_by = host>, optimus.dims = ["slot"]},
      %prefill_length: tensor<1xi32> {optimus.binding = #optimus.buffer<role = "prefill_length", lifetime = call, filled_by = host>, optimus.dims = ["slot"]},
      %pages: tensor<3x2xi32> {optimus.binding = #optimus.buffer<role = "pages", lifetime = call, filled_by = host>, optimus.dims = ["slots", "pages"]},
      %model_layers_0_self_attn_keys: tensor<3x64x1x4xf32> {optimus.binding = #optimus.buffer<role = "model.layers.0.self_attn.keys", lifetime = sequence, init = <zeros>, reset = sequence>, optimus.donates = 1 : i64},
      %model_layers_0_self_attn_values: tensor<3x64x1x4xf32> {optimus.binding = #optimus.buffer<role = "model.layers.0.self_attn.values", lifetime = sequence, init = <zeros>, reset = sequence>, optimus.donates = 2 : i64},
      %prefill_last: tensor<1xi32> {optimus.binding = #optimus.buffer<role = "prefill_last", lifetime = call, filled_by = host>, optimus.dims = ["slot"]}
  ) -> (tensor<1x1x11xf32> {optimus.binding = #optimus.buffer<role = "prompt_logits", lifetime = call>}, tensor<3x64x1x4xf32>, tensor<3x64x1x4xf32>) attributes {optimus.entry = #optimus.entry<prefill, batch = 1, sequence = 64>} {
    %embedded = optimus.embedding %model_embed_tokens_weight, %prefill_tokens : (tensor<11x8xf32>, tensor<64x1xi32>) -> tensor<64x1x8xf32>
    %model_layers_0_input_layernorm, %model_layers_0_input_layernorm_rstd = optimus.rms_norm %embedded, %model_layers_0_input_layernorm_weight {epsilon = 1.0e-06 : f64} : (tensor<64x1x8xf32>, tensor<8xf32>) -> (tensor<64x1x8xf32>, tensor<64x1xf32>)
    %model_layers_0_self_attn_q_proj = optimus.matmul %model_layers_0_input_layernorm, %model_layers_0_self_attn_q_proj_weight {transpose_b} : (tensor<64x1x8xf32>, tensor<1x2x4x8xf32>) -> tensor<64x1x1x2x4xf32>
    %model_layers_0_self_attn_k_proj = optimus.matmul %model_layers_0_input_layernorm, %model_layers_0_self_attn_k_proj_weight {transpose_b} : (tensor<64x1x8xf32>, tensor<1x4x8xf32>) -> tensor<64x1x1x4xf32>
    %model_layers_0_self_attn_v_proj = optimus.matmul %model_layers_0_input_layernorm, %model_layers_0_self_attn_v_proj_weight {transpose_b} : (tensor<64x1x8xf32>, tensor<1x4x8xf32>) -> tensor<64x1x1x4xf32>
    %model_layers_0_self_attn_q_rotated = optimus.rotary %model_layers_0_self_attn_q_proj positions(%prefill_positions : tensor<64x1xi32>) {theta = 10000.0 : f64, capacity = 128 : i64} : tensor<64x1x1x2x4xf32>
    %model_layers_0_self_attn_k_rotated = optimus.rotary %model_layers_0_self_attn_k_proj positions(%prefill_positions : tensor<64x1xi32>) {theta = 10000.0 : f64, capacity = 128 : i64} : tensor<64x1x1x4xf32>
    %model_layers_0_self_attn_keys_filled = optimus.cache_append %model_layers_0_self_attn_keys, %model_layers_0_self_attn_k_rotated, %prefill_places slot(%prefill_slot) pages(%pages) : (tensor<3x64x1x4xf32>, tensor<64x1x1x4xf32>, tensor<64x1xi32>, tensor<1xi32>, tensor<3x2xi32>) -> tensor<3x64x1x4xf32>
    %model_layers_0_self_attn_keys_of_slot = optimus.take %model_layers_0_self_attn_keys_filled, %prefill_slot length(%prefill_length) pages(%pages) : (tensor<3x64x1x4xf32>, tensor<1xi32>, tensor<1xi32>, tensor<3x2xi32>) -> tensor<1x128x1x4xf32>
    %model_layers_0_self_attn_values_filled = optimus.cache_append %model_layers_0_self_attn_values, %model_layers_0_self_attn_v_proj, %prefill_places slot(%prefill_slot) pages(%pages) : (tensor<3x64x1x4xf32>, tensor<64x1x1x4xf32>, tensor<64x1xi32>, tensor<1xi32>, tensor<3x2xi32>) -> tensor<3x64x1x4xf32>
    %model_layers_0_self_attn_values_of_slot = optimus.take %model_layers_0_self_attn_values_filled, %prefill_slot length(%prefill_length) pages(%pages) : (tensor<3x64x1x4xf32>, tensor<1xi32>, tensor<1xi32>, tensor<3x2xi32>) -> tensor<1x128x1x4xf32>
    %model_layers_0_self_attn_heads, %model_layers_0_self_attn_heads_lse = optimus.attention %model_layers_0_self_attn_q_rotated, %model_layers_0_self_attn_keys_of_slot, %model_layers_0_self_attn_values_of_slot lengths(%prefill_length) positions(%prefill_positions) {causal, cached} : (tensor<64x1x1x2x4xf32>, tensor<1x128x1x4xf32>, tensor<1x128x1x4xf32>, tensor<1xi32>, tensor<64x1xi32>) -> (tensor<64x1x1x2x4xf32>, tensor<1x1x2x64xf32>)
    %model_layers_0_self_attn_o_proj = optimus.matmul %model_layers_0_self_attn_heads, %model_layers_0_self_attn_o_proj_weight {contracting = 3 : i64, transpose_b} : (tensor<64x1x1x2x4xf32>, tensor<8x1x2x4xf32>) -> tensor<64x1x8xf32>
    %model_layers_0_self_attn_sum = optimus.add %model_layers_0_self_attn_o_proj, %embedded : (tensor<64x1x8xf32>, tensor<64x1x8xf32>) -> tensor<64x1x8xf32>
    %model_layers_0_post_attention_layernorm, %model_layers_0_post_attention_layernorm_rstd = optimus.rms_norm %model_layers_0_self_attn_sum, %model_layers_0_post_attention_layernorm_weight {epsilon = 1.0e-06 : f64} : (tensor<64x1x8xf32>, tensor<8xf32>) -> (tensor<64x1x8xf32>, tensor<64x1xf32>)
    %model_layers_0_mlp_gate_proj = optimus.matmul %model_layers_0_post_attention_layernorm, %model_layers_0_mlp_gate_proj_weight {transpose_b} : (tensor<64x1x8xf32>, tensor<6x8xf32>) -> tensor<64x1x6xf32>
    %model_layers_0_mlp_up_proj = optimus.matmul %model_layers_0_post_attention_layernorm, %model_layers_0_mlp_up_proj_weight {transpose_b} : (tensor<64x1x8xf32>, tensor<6x8xf32>) -> tensor<64x1x6xf32>
    %model_layers_0_mlp_gated = optimus.swiglu %model_layers_0_mlp_gate_proj, %model_layers_0_mlp_up_proj : tensor<64x1x6xf32>
    %model_layers_0_mlp_down_proj = optimus.matmul %model_layers_0_mlp_gated, %model_layers_0_mlp_down_proj_weight {transpose_b} : (tensor<64x1x6xf32>, tensor<8x6xf32>) -> tensor<64x1x8xf32>
    %model_layers_0_mlp_sum = optimus.add %model_layers_0_mlp_down_proj, %model_layers_0_self_attn_sum : (tensor<64x1x8xf32>, tensor<64x1x8xf32>) -> tensor<64x1x8xf32>
    %model_norm, %model_norm_rstd = optimus.rms_norm %model_layers_0_mlp_sum, %model_norm_weight {epsilon = 1.0e-06 : f64} : (tensor<64x1x8xf32>, tensor<8xf32>) -> (tensor<64x1x8xf32>, tensor<64x1xf32>)
    %last = optimus.take %model_norm, %prefill_last : (tensor<64x1x8xf32>, tensor<1xi32>) -> tensor<1x1x8xf32>
    %logits = optimus.head %last, %lm_head_weight : (tensor<1x1x8xf32>, tensor<11x8xf32>) -> tensor<1x1x11xf32>
    return %logits, %model_layers_0_self_attn_keys_filled, %model_layers_0_self_attn_values_filled : tensor<1x1x11xf32>, tensor<3x64x1x4xf32>, tensor<3x64x1x4xf32>
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
      %pages: tensor<3x2xi32> {optimus.binding = #optimus.buffer<role = "pages", lifetime = call, filled_by = host>, optimus.dims = ["slots", "pages"]},
      %model_layers_0_self_attn_keys: tensor<3x64x1x4xf32> {optimus.binding = #optimus.buffer<role = "model.layers.0.self_attn.keys", lifetime = sequence, init = <zeros>, reset = sequence>, optimus.donates = 1 : i64},
      %model_layers_0_self_attn_values: tensor<3x64x1x4xf32> {optimus.binding = #optimus.buffer<role = "model.layers.0.self_attn.values", lifetime = sequence, init = <zeros>, reset = sequence>, optimus.donates = 2 : i64}
  ) -> (tensor<3x1x11xf32> {optimus.binding = #optimus.buffer<role = "next_logits", lifetime = call>}, tensor<3x64x1x4xf32>, tensor<3x64x1x4xf32>) attributes {optimus.entry = #optimus.entry<decode, batch = 3, sequence = 1>} {
    %embedded = optimus.embedding %model_embed_tokens_weight, %decode_tokens : (tensor<11x8xf32>, tensor<3x1xi32>) -> tensor<3x1x8xf32>
    %model_layers_0_input_layernorm, %model_layers_0_input_layernorm_rstd = optimus.rms_norm %embedded, %model_layers_0_input_layernorm_weight {epsilon = 1.0e-06 : f64} : (tensor<3x1x8xf32>, tensor<8xf32>) -> (tensor<3x1x8xf32>, tensor<3x1xf32>)
    %model_layers_0_self_attn_q_proj = optimus.matmul %model_layers_0_input_layernorm, %model_layers_0_self_attn_q_proj_weight {transpose_b} : (tensor<3x1x8xf32>, tensor<1x2x4x8xf32>) -> tensor<3x1x1x2x4xf32>
    %model_layers_0_self_attn_k_proj = optimus.matmul %model_layers_0_input_layernorm, %model_layers_0_self_attn_k_proj_weight {transpose_b} : (tensor<3x1x8xf32>, tensor<1x4x8xf32>) -> tensor<3x1x1x4xf32>
    %model_layers_0_self_attn_v_proj = optimus.matmul %model_layers_0_input_layernorm, %model_layers_0_self_attn_v_proj_weight {transpose_b} : (tensor<3x1x8xf32>, tensor<1x4x8xf32>) -> tensor<3x1x1x4xf32>
    %model_layers_0_self_attn_q_rotated = optimus.rotary %model_layers_0_self_attn_q_proj positions(%decode_positions : tensor<3x1xi32>) {theta = 10000.0 : f64, capacity = 128 : i64} : tensor<3x1x1x2x4xf32>
    %model_layers_0_self_attn_k_rotated = optimus.rotary %model_layers_0_self_attn_k_proj positions(%decode_positions : tensor<3x1xi32>) {theta = 10000.0 : f64, capacity = 128 : i64} : tensor<3x1x1x4xf32>
    %model_layers_0_self_attn_keys_filled = optimus.cache_append %model_layers_0_self_attn_keys, %model_layers_0_self_attn_k_rotated, %decode_positions pages(%pages) : (tensor<3x64x1x4xf32>, tensor<3x1x1x4xf32>, tensor<3x1xi32>, tensor<3x2xi32>) -> tensor<3x64x1x4xf32>
    %model_layers_0_self_attn_values_filled = optimus.cache_append %model_layers_0_self_attn_values, %model_layers_0_self_attn_v_proj, %decode_positions pages(%pages) : (tensor<3x64x1x4xf32>, tensor<3x1x1x4xf32>, tensor<3x1xi32>, tensor<3x2xi32>) -> tensor<3x64x1x4xf32>
    %model_layers_0_self_attn_heads, %model_layers_0_self_attn_heads_lse = optimus.attention %model_layers_0_self_attn_q_rotated, %model_layers_0_self_attn_keys_filled, %model_layers_0_self_attn_values_filled lengths(%lengths) positions(%decode_positions) pages(%pages) {causal, cached} : (tensor<3x1x1x2x4xf32>, tensor<3x64x1x4xf32>, tensor<3x64x1x4xf32>, tensor<3xi32>, tensor<3x1xi32>, tensor<3x2xi32>) -> (tensor<3x1x1x2x4xf32>, tensor<3x1x2x1xf32>)
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
    return %logits, %model_layers_0_self_attn_keys_filled, %model_layers_0_self_attn_values_filled : tensor<3x1x11xf32>, tensor<3x64x1x4xf32>, tensor<3x64x1x4xf32>
  }
  func.func @score(
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
      %score_tokens: tensor<64x1xi32> {optimus.binding = #optimus.buffer<role = "score_tokens", lifetime = call, filled_by = host>, optimus.dims = ["chunk", "slot"]},
      %score_targets: tensor<64x1xi32> {optimus.binding = #optimus.buffer<role = "score_targets", lifetime = call, filled_by = host>, optimus.dims = ["chunk", "slot"]},
      %score_positions: tensor<64x1xi32> {optimus.binding = #optimus.buffer<role = "score_positions", lifetime = call, filled_by = host>, optimus.dims = ["chunk", "slot"]},
      %score_places: tensor<64x1xi32> {optimus.binding = #optimus.buffer<role = "score_places", lifetime = call, filled_by = host>, optimus.dims = ["chunk", "slot"]},
      %score_slot: tensor<1xi32> {optimus.binding = #optimus.buffer<role = "score_slot", lifetime = call, filled_by = host>, optimus.dims = ["slot"]},
      %score_length: tensor<1xi32> {optimus.binding = #optimus.buffer<role = "score_length", lifetime = call, filled_by = host>, optimus.dims = ["slot"]},
      %pages: tensor<3x2xi32> {optimus.binding = #optimus.buffer<role = "pages", lifetime = call, filled_by = host>, optimus.dims = ["slots", "pages"]},
      %model_layers_0_self_attn_keys: tensor<3x64x1x4xf32> {optimus.binding = #optimus.buffer<role = "model.layers.0.self_attn.keys", lifetime = sequence, init = <zeros>, reset = sequence>, optimus.donates = 2 : i64},
      %model_layers_0_self_attn_values: tensor<3x64x1x4xf32> {optimus.binding = #optimus.buffer<role = "model.layers.0.self_attn.values", lifetime = sequence, init = <zeros>, reset = sequence>, optimus.donates = 3 : i64}
  ) -> (tensor<64x1xf32> {optimus.binding = #optimus.buffer<role = "log_probabilities", lifetime = call>}, tensor<64x1x11xf32> {optimus.binding = #optimus.buffer<role = "scored_logits", lifetime = call>}, tensor<3x64x1x4xf32>, tensor<3x64x1x4xf32>) attributes {optimus.entry = #optimus.entry<score, batch = 1, sequence = 64>} {
    %embedded = optimus.embedding %model_embed_tokens_weight, %score_tokens : (tensor<11x8xf32>, tensor<64x1xi32>) -> tensor<64x1x8xf32>
    %model_layers_0_input_layernorm, %model_layers_0_input_layernorm_rstd = optimus.rms_norm %embedded, %model_layers_0_input_layernorm_weight {epsilon = 1.0e-06 : f64} : (tensor<64x1x8xf32>, tensor<8xf32>) -> (tensor<64x1x8xf32>, tensor<64x1xf32>)
    %model_layers_0_self_attn_q_proj = optimus.matmul %model_layers_0_input_layernorm, %model_layers_0_self_attn_q_proj_weight {transpose_b} : (tensor<64x1x8xf32>, tensor<1x2x4x8xf32>) -> tensor<64x1x1x2x4xf32>
    %model_layers_0_self_attn_k_proj = optimus.matmul %model_layers_0_input_layernorm, %model_layers_0_self_attn_k_proj_weight {transpose_b} : (tensor<64x1x8xf32>, tensor<1x4x8xf32>) -> tensor<64x1x1x4xf32>
    %model_layers_0_self_attn_v_proj = optimus.matmul %model_layers_0_input_layernorm, %model_layers_0_self_attn_v_proj_weight {transpose_b} : (tensor<64x1x8xf32>, tensor<1x4x8xf32>) -> tensor<64x1x1x4xf32>
    %model_layers_0_self_attn_q_rotated = optimus.rotary %model_layers_0_self_attn_q_proj positions(%score_positions : tensor<64x1xi32>) {theta = 10000.0 : f64, capacity = 128 : i64} : tensor<64x1x1x2x4xf32>
    %model_layers_0_self_attn_k_rotated = optimus.rotary %model_layers_0_self_attn_k_proj positions(%score_positions : tensor<64x1xi32>) {theta = 10000.0 : f64, capacity = 128 : i64} : tensor<64x1x1x4xf32>
    %model_layers_0_self_attn_keys_filled = optimus.cache_append %model_layers_0_self_attn_keys, %model_layers_0_self_attn_k_rotated, %score_places slot(%score_slot) pages(%pages) : (tensor<3x64x1x4xf32>, tensor<64x1x1x4xf32>, tensor<64x1xi32>, tensor<1xi32>, tensor<3x2xi32>) -> tensor<3x64x1x4xf32>
    %model_layers_0_self_attn_keys_of_slot = optimus.take %model_layers_0_self_attn_keys_filled, %score_slot length(%score_length) pages(%pages) : (tensor<3x64x1x4xf32>, tensor<1xi32>, tensor<1xi32>, tensor<3x2xi32>) -> tensor<1x128x1x4xf32>
    %model_layers_0_self_attn_values_filled = optimus.cache_append %model_layers_0_self_attn_values, %model_layers_0_self_attn_v_proj, %score_places slot(%score_slot) pages(%pages) : (tensor<3x64x1x4xf32>, tensor<64x1x1x4xf32>, tensor<64x1xi32>, tensor<1xi32>, tensor<3x2xi32>) -> tensor<3x64x1x4xf32>
    %model_layers_0_self_attn_values_of_slot = optimus.take %model_layers_0_self_attn_values_filled, %score_slot length(%score_length) pages(%pages) : (tensor<3x64x1x4xf32>, tensor<1xi32>, tensor<1xi32>, tensor<3x2xi32>) -> tensor<1x128x1x4xf32>
    %model_layers_0_self_attn_heads, %model_layers_0_self_attn_heads_lse = optimus.attention %model_layers_0_self_attn_q_rotated, %model_layers_0_self_attn_keys_of_slot, %model_layers_0_self_attn_values_of_slot lengths(%score_length) positions(%score_positions) {causal, cached} : (tensor<64x1x1x2x4xf32>, tensor<1x128x1x4xf32>, tensor<1x128x1x4xf32>, tensor<1xi32>, tensor<64x1xi32>) -> (tensor<64x1x1x2x4xf32>, tensor<1x1x2x64xf32>)
    %model_layers_0_self_attn_o_proj = optimus.matmul %model_layers_0_self_attn_heads, %model_layers_0_self_attn_o_proj_weight {contracting = 3 : i64, transpose_b} : (tensor<64x1x1x2x4xf32>, tensor<8x1x2x4xf32>) -> tensor<64x1x8xf32>
    %model_layers_0_self_attn_sum = optimus.add %model_layers_0_self_attn_o_proj, %embedded : (tensor<64x1x8xf32>, tensor<64x1x8xf32>) -> tensor<64x1x8xf32>
    %model_layers_0_post_attention_layernorm, %model_layers_0_post_attention_layernorm_rstd = optimus.rms_norm %model_layers_0_self_attn_sum, %model_layers_0_post_attention_layernorm_weight {epsilon = 1.0e-06 : f64} : (tensor<64x1x8xf32>, tensor<8xf32>) -> (tensor<64x1x8xf32>, tensor<64x1xf32>)
    %model_layers_0_mlp_gate_proj = optimus.matmul %model_layers_0_post_attention_layernorm, %model_layers_0_mlp_gate_proj_weight {transpose_b} : (tensor<64x1x8xf32>, tensor<6x8xf32>) -> tensor<64x1x6xf32>
    %model_layers_0_mlp_up_proj = optimus.matmul %model_layers_0_post_attention_layernorm, %model_layers_0_mlp_up_proj_weight {transpose_b} : (tensor<64x1x8xf32>, tensor<6x8xf32>) -> tensor<64x1x6xf32>
    %model_layers_0_mlp_gated = optimus.swiglu %model_layers_0_mlp_gate_proj, %model_layers_0_mlp_up_proj : tensor<64x1x6xf32>
    %model_layers_0_mlp_down_proj = optimus.matmul %model_layers_0_mlp_gated, %model_layers_0_mlp_down_proj_weight {transpose_b} : (tensor<64x1x6xf32>, tensor<8x6xf32>) -> tensor<64x1x8xf32>
    %model_layers_0_mlp_sum = optimus.add %model_layers_0_mlp_down_proj, %model_layers_0_self_attn_sum : (tensor<64x1x8xf32>, tensor<64x1x8xf32>) -> tensor<64x1x8xf32>
    %model_norm, %model_norm_rstd = optimus.rms_norm %model_layers_0_mlp_sum, %model_norm_weight {epsilon = 1.0e-06 : f64} : (tensor<64x1x8xf32>, tensor<8xf32>) -> (tensor<64x1x8xf32>, tensor<64x1xf32>)
    %logits = optimus.head %model_norm, %lm_head_weight : (tensor<64x1x8xf32>, tensor<11x8xf32>) -> tensor<64x1x11xf32>
    %log_probabilities = optimus.log_probabilities %logits, %score_targets : (tensor<64x1x11xf32>, tensor<64x1xi32>) -> tensor<64x1xf32>
    return %log_probabilities, %logits, %model_layers_0_self_attn_keys_filled, %model_layers_0_self_attn_values_filled : tensor<64x1xf32>, tensor<64x1x11xf32>, tensor<3x64x1x4xf32>, tensor<3x64x1x4xf32>
  }
}
