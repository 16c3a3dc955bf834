import torch

class GraphModule(torch.nn.Module):
    def forward(self, in_0, in_1):
        tmp_0 = torch.sigmoid(in_0)
        tmp_1 = in_1 * tmp_0
        tmp_0 = None
        return (tmp_1,)
