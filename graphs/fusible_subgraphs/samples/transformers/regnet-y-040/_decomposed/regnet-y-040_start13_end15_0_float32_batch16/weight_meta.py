class Program_weight_tensor_meta_input_3:
    name = "in_0"
    original_name = "input_3"
    shape = [16, 128, 1, 1]
    dtype = "torch.float32"
    device = "cpu"
    mean = -0.020
    std = 0.239


class Program_weight_tensor_meta_hidden_state_8:
    name = "in_1"
    original_name = "hidden_state_8"
    shape = [16, 128, 56, 56]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.208
    std = 0.331
    min_val = 0.0
