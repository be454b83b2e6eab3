"""The program of docs/slides.md; test_slides.py runs it in a temporary folder, with a program `annulus` on PATH."""
import math
import subprocess

import h5py
import torch
from torch import nn
from torch.nn import functional as F

import annulus

SEGMENTS, DILATIONS = [1024, 5792, 32768, 185363, 1048576], [1, 2, 4, 8, 16]


class DilatedAttention(nn.Module):
    """Stands for the class of torchscale: the same names of attributes, random weights."""

    def __init__(self, width=768, heads=16):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(width, width) for _ in range(4))
        self.num_heads, self.inner_attn_ln = heads, nn.LayerNorm(width)


class Encoder(nn.Module):
    """Two layers over the tiles of a slide."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict({"self_attn": DilatedAttention(), "norm": nn.LayerNorm(768)})
                                    for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            y = layer["norm"](x)
            x = x + layer["self_attn"](query=y, key=y, value=y)[0]
        return x


def forward(self, query, key, value, **others):
    q, k, v = (project(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, H, S, D)
               for project, x in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value)))
    out = attention(q, k, v).transpose(1, 2).flatten(2)
    if self.inner_attn_ln is not None:
        out = self.inner_attn_ln(out)
    return self.out_proj(out), None


DilatedAttention.forward = forward
attention = F.scaled_dot_product_attention

torch.manual_seed(0)
encoder, tiles = Encoder().eval(), torch.randn(1, 2001, 768)

with torch.no_grad(), annulus.capture(encoder, "slide.h5", layer=0) as captured:
    encoder(tiles)
print(captured)
subprocess.run(["annulus", "run", "slide.yaml"], check=True)


def in_pytorch(q, k, v):
    """The same attention for some thousand tiles: with whole matrices of scores, and padding as keys of score 0."""
    (B, H, n, D), total = q.shape, 0
    for w, r in zip(SEGMENTS, DILATIONS):
        s = min(w, n)
        slots, count = math.ceil(s / r) * r, math.ceil(n / s)
        q_, k_, v_ = (F.pad(F.pad(x, (0, 0, 0, count * s - n)).unflatten(2, (count, s)), (0, 0, 0, slots - s))
                      for x in (q, k, v))                                          # (B, H, segments, slots, D)
        sums = torch.zeros(B, H, count, slots, D + 1, dtype=q.dtype)  # of weights times values, and of weights
        for h in range(H):
            picked = slice(h // math.ceil(H / r), None, r)
            weights = (q_[:, h, :, picked] @ k_[:, h, :, picked].transpose(-1, -2) / math.sqrt(D)).exp()
            sums[:, h, :, picked, :D] = weights @ v_[:, h, :, picked]
            sums[:, h, :, picked, D] = weights.sum(-1)
        total = total + sums[:, :, :, :s].flatten(2, 3)[:, :, :n]
    return total[..., :D] / total[..., D:]


with h5py.File("slide.h5") as given, h5py.File("slide_out.h5") as made:
    q, k, v = (torch.from_numpy(given[name][...]).double() for name in "qkv")
    print("largest difference:", (torch.from_numpy(made["out"][...]) - in_pytorch(q, k, v)).abs().max().item())


def by_annulus(q, k, v):
    with h5py.File("slide.h5", "w") as file:
        file["q"], file["k"], file["v"] = (x.float().cpu().numpy() for x in (q, k, v))
    subprocess.run(["mpirun", "-n", "2", "annulus", "run", "slide.yaml"], check=True, stdout=subprocess.DEVNULL)
    with h5py.File("slide_out.h5") as file:
        return torch.from_numpy(file["out"][...]).to(q)


attention = by_annulus
with torch.no_grad():
    embedding = encoder(tiles)

attention = in_pytorch
with torch.no_grad():
    print("largest difference behind two layers:", (encoder(tiles) - embedding).abs().max().item())
