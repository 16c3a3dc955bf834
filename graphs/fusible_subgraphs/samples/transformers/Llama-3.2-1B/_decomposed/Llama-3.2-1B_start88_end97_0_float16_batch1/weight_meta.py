class Program_weight_tensor_meta_inputs_embeds:
    name = "in_0"
    original_name = "inputs_embeds"
    shape = [1, 128, 2048]
    dtype = "torch.float16"
    device = "cpu"
    mean = -0.000
    std = 0.022


class Program_weight_tensor_meta_attn_output_4:
    name = "in_1"
    original_name = "attn_output_4"
    shape = [1, 128, 2048]
    dtype = "torch.float16"
    device = "cpu"
    mean = 0.005
    std = 0.278


class Program_weight_tensor_meta_L_args_0_modules_layers_modules_0_modules_post_attention_layernorm_parameters_weight_:
    name = "in_2"
    original_name = "L_args_0_modules_layers_modules_0_modules_post_attention_layernorm_parameters_weight_"
    shape = [2048]
    dtype = "torch.float16"
    device = "cpu"
    mean = 1.003
    std = 0.101
    min_val = 0.6586
