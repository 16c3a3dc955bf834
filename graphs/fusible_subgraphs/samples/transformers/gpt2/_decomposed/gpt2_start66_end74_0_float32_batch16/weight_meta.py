class Program_weight_tensor_meta_x_5:
    name = "in_0"
    original_name = "x_5"
    shape = [16, 128, 3072]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.104
    std = 0.513
