class Program_weight_tensor_meta_cos_2:
    name = "in_0"
    original_name = "cos_2"
    shape = [1, 128, 64]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.504
    std = 0.680


class Program_weight_tensor_meta_sin_2:
    name = "in_1"
    original_name = "sin_2"
    shape = [1, 128, 64]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.170
    std = 0.505


class Program_weight_tensor_meta_query_states:
    name = "in_2"
    original_name = "query_states"
    shape = [1, 32, 128, 64]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.002
    std = 0.992


class Program_weight_tensor_meta_key_states:
    name = "in_3"
    original_name = "key_states"
    shape = [1, 8, 128, 64]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.011
    std = 0.992
