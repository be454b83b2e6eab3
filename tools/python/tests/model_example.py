"""A program of docs/attention.md, LongNet's attention in a model by one import; test_attention_page.py runs it."""
import torch

from annulus.torch import dilated_attention


class Attention(torch.nn.Module):
    """In place of a layer's dense attention: x (B, S, E) -> (B, S, E)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, self.heads, -1).unbind(2)
        mixed = dilated_attention(q, k, v, segments=[256, 1024, "all"], dilations=[1, 2, 4], causal=True)
        return self.out(mixed.reshape(x.shape))


layer = Attention(64, 4)
x = torch.randn(2, 4096, 64, requires_grad=True)
layer(x).square().mean().backward()
print(x.grad.shape, layer.qkv.weight.grad.norm())
