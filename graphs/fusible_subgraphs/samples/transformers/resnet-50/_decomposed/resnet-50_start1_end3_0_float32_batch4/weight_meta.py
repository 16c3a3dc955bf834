class Program_weight_tensor_meta_hidden_states:
    name = "in_0"
    original_name = "hidden_states"
    shape = [4, 64, 112, 112]
    dtype = "torch.float32"
    device = "cpu"
    mean = -0.003
    std = 0.988


class Program_weight_tensor_meta_L_self_modules_embedder_modules_embedder_modules_normalization_buffers_running_mean_:
    name = "w_0"
    original_name = "L_self_modules_embedder_modules_embedder_modules_normalization_buffers_running_mean_"
    shape = [64]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.017
    std = 0.198


class Program_weight_tensor_meta_L_self_modules_embedder_modules_embedder_modules_normalization_buffers_running_var_:
    name = "w_1"
    original_name = "L_self_modules_embedder_modules_embedder_modules_normalization_buffers_running_var_"
    shape = [64]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.955
    std = 0.282
    min_val = 0.5001


class Program_weight_tensor_meta_L_self_modules_embedder_modules_embedder_modules_normalization_parameters_weight_:
    name = "w_2"
    original_name = "L_self_modules_embedder_modules_embedder_modules_normalization_parameters_weight_"
    shape = [64]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.988
    std = 0.085
    min_val = 0.7692


class Program_weight_tensor_meta_L_self_modules_embedder_modules_embedder_modules_normalization_parameters_bias_:
    name = "w_3"
    original_name = "L_self_modules_embedder_modules_embedder_modules_normalization_parameters_bias_"
    shape = [64]
    dtype = "torch.float32"
    device = "cpu"
    mean = -0.002
    std = 0.097
