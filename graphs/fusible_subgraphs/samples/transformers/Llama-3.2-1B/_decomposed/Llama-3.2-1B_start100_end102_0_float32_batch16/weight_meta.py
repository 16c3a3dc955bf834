class Program_weight_tensor_meta_linear_4:
    name = "in_0"
    original_name = "linear_4"
    shape = [16, 128, 8192]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.018
    std = 0.993


class Program_weight_tensor_meta_linear_5:
    name = "in_1"
    original_name = "linear_5"
    shape = [16, 128, 8192]
    dtype = "torch.float32"
    device = "cpu"
    mean = -0.007
    std = 1.009
