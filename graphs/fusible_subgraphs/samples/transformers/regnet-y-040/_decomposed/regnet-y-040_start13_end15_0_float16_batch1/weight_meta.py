class Program_weight_tensor_meta_input_3:
    name = "in_0"
    original_name = "input_3"
    shape = [1, 128, 1, 1]
    dtype = "torch.float16"
    device = "cpu"
    mean = -0.020
    std = 0.240


class Program_weight_tensor_meta_hidden_state_8:
    name = "in_1"
    original_name = "hidden_state_8"
    shape = [1, 128, 56, 56]
    dtype = "torch.float16"
    device = "cpu"
    mean = 0.223
    std = 0.350
    min_val = 0.0
