class Program_weight_tensor_meta_input_3:
    name = "in_0"
    original_name = "input_3"
    shape = [8, 128, 1, 1]
    dtype = "torch.float32"
    device = "cpu"
    mean = -0.020
    std = 0.238


class Program_weight_tensor_meta_hidden_state_8:
    name = "in_1"
    original_name = "hidden_state_8"
    shape = [8, 128, 56, 56]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.216
    std = 0.342
    min_val = 0.0
