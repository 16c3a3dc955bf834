class Program_weight_tensor_meta_linear_4:
    name = "in_0"
    original_name = "linear_4"
    shape = [1, 128, 8192]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.014
    std = 1.012


class Program_weight_tensor_meta_linear_5:
    name = "in_1"
    original_name = "linear_5"
    shape = [1, 128, 8192]
    dtype = "torch.float32"
    device = "cpu"
    mean = -0.055
    std = 1.013
