import torch

class GraphModule(torch.nn.Module):
    def forward(self, in_0, w_0, w_1):
        tmp_0 = torch.nn.functional.layer_norm(in_0, (96,), w_0, w_1, 1e-05)
        tmp_1 = tmp_0.view(8, 56, 56, 96)
        tmp_0 = None
        tmp_2 = torch._C._nn.pad(tmp_1, (0, 0, 0, 0, 0, 0), 'constant', None)
        tmp_1 = None
        tmp_3 = torch.roll(tmp_2, shifts=(-3, -3), dims=(1, 2))
        tmp_2 = None
        tmp_4 = tmp_3.view(8, 8, 7, 8, 7, 96)
        tmp_3 = None
        tmp_5 = tmp_4.transpose(2, 3)
        tmp_4 = None
        tmp_6 = tmp_5.contiguous()
        tmp_5 = None
        tmp_7 = tmp_6.view(-1, 7, 7, 96)
        tmp_6 = None
        tmp_8 = tmp_7.view(-1, 49, 96)
        tmp_7 = None
        return (tmp_8,)
