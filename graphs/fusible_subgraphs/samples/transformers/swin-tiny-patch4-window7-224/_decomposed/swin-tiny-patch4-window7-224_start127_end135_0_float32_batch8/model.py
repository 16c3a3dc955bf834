import torch

class GraphModule(torch.nn.Module):
    def forward(self, in_0, w_0, w_1):
        tmp_0 = in_0.view(8, 56, 56, 96)
        tmp_1 = tmp_0[slice(None, None, None), slice(0, None, 2), slice(0, None, 2), slice(None, None, None)]
        tmp_2 = tmp_0[slice(None, None, None), slice(1, None, 2), slice(0, None, 2), slice(None, None, None)]
        tmp_3 = tmp_0[slice(None, None, None), slice(0, None, 2), slice(1, None, 2), slice(None, None, None)]
        tmp_4 = tmp_0[slice(None, None, None), slice(1, None, 2), slice(1, None, 2), slice(None, None, None)]
        tmp_0 = None
        tmp_5 = torch.cat([tmp_1, tmp_2, tmp_3, tmp_4], dim=-1)
        tmp_1 = tmp_2 = tmp_3 = tmp_4 = None
        tmp_6 = tmp_5.view(8, -1, 384)
        tmp_5 = None
        tmp_7 = torch.nn.functional.layer_norm(tmp_6, (384,), w_0, w_1, 1e-05)
        tmp_6 = None
        return (tmp_7,)
