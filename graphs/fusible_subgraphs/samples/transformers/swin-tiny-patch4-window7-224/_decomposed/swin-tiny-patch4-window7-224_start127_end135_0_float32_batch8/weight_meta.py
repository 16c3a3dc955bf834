class Program_weight_tensor_meta_hidden_states_19:
    name = "in_0"
    original_name = "hidden_states_19"
    shape = [8, 3136, 96]
    dtype = "torch.float32"
    device = "cpu"
    mean = -0.047
    std = 1.582


class Program_weight_tensor_meta_L_self_modules_encoder_modules_layers_modules_0_modules_downsample_modules_norm_parameters_weight_:
    name = "w_0"
    original_name = "L_self_modules_encoder_modules_layers_modules_0_modules_downsample_modules_norm_parameters_weight_"
    shape = [384]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.995
    std = 0.101
    min_val = 0.7209


class Program_weight_tensor_meta_L_self_modules_encoder_modules_layers_modules_0_modules_downsample_modules_norm_parameters_bias_:
    name = "w_1"
    original_name = "L_self_modules_encoder_modules_layers_modules_0_modules_downsample_modules_norm_parameters_bias_"
    shape = [384]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.006
    std = 0.103
