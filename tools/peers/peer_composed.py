"""Dilated attention as one would compose it from PyTorch's fused kernel.

Per pair: the heads' combs are gathered, all segments and heads go through one fused call, and its results are merged
by log-sum-exps into the rows to which they belong. Backward: per pair the fused kernel's backward pass, which gets the
merged out and lse, so that gradients are exact. Pairs are computed in turn, so only one pair's combs are in memory.
"""
import torch

from cases import ALL
from peer_fused import Torch, fused, fused_backward, merge


class Composed(Torch):
    """Tensors (rows, heads, head size), as in annulus' files: combs are views of them."""

    def arranged(self, tensor):
        return tensor

    def load(self, arrays, case):
        super().load(arrays, case)
        self.take(self.tensors, case)

    def take(self, tensors, case):
        """load() for tensors (1, rows, heads, head size) that are on any device."""
        self.tensors, self.causal = tensors, case["causal"]
        batch, self.n, self.heads, _ = self.tensors["q"].shape
        if batch != 1:
            raise ValueError("one batch entry only")
        self.tensors = {name: tensor[0] for name, tensor in self.tensors.items()}
        self.pairs = [(self.n if w == ALL else w, r) for w, r in zip(case["segments"], case["dilations"])]
        for w, r in self.pairs:
            if self.n % w or w % r:
                raise ValueError(f"{self.n} rows are not whole segments of {w}, or those not whole combs of {r}")
        self.runs = [list(self.head_runs(index, case["semantics"])) for index in range(len(self.pairs))]

    def head_runs(self, index, semantics):
        """(offset, first head, end) of heads that share an offset. 4 heads, r = 2, longnet: (0, 0, 2), (1, 2, 4)."""
        r, pairs = self.pairs[index][1], len(self.pairs)
        if semantics == "grouped":
            first = [g * (self.heads // pairs) + min(g, self.heads % pairs) for g in (index, index + 1)]
            yield index % r, first[0], first[1]
            return
        step = -(-self.heads // r)
        for first in range(0, self.heads, step):
            yield first // step, first, min(first + step, self.heads)

    def combs(self, tensor, index):
        """Views of the rows that pair `index` picks, one per run of heads: (segments, heads, rows of a comb, ...)."""
        w, r = self.pairs[index]
        split = tensor.view(self.n // w, w // r, r, *tensor.shape[1:])
        return [split[:, :, offset, first:end].transpose(1, 2) for offset, first, end in self.runs[index]]

    def gather(self, name, index):
        return torch.cat(self.combs(self.tensors[name], index), 1)

    def parts(self, tensor, index):
        """Splits a tensor like that of gather() into its parts."""
        return tensor.split([end - first for _, first, end in self.runs[index]], 1)

    def forward(self):
        q = self.tensors["q"]
        out, lse = torch.zeros_like(q), torch.full(q.shape[:2], -torch.inf, dtype=torch.float32, device=q.device)
        with torch.no_grad():
            for index in range(len(self.pairs)):
                pair_out, pair_lse = fused(*(self.gather(name, index) for name in ("q", "k", "v")), self.causal)
                for into in zip(self.combs(out, index), self.combs(lse, index), self.parts(pair_out, index),
                                self.parts(pair_lse, index)):
                    merge(*into)
        return out, lse

    def backward(self, state):
        names = ("q", "k", "v")
        gradients = [torch.zeros_like(self.tensors[name]) for name in names]
        with torch.no_grad():
            for index in range(len(self.pairs)):
                out, lse = (torch.cat(self.combs(tensor, index), 1) for tensor in state)
                shares = fused_backward(self.gather("dout", index), *(self.gather(name, index) for name in names), out,
                                        lse, self.causal)
                for gradient, share in zip(gradients, shares):
                    for view, part in zip(self.combs(gradient, index), self.parts(share, index)):
                        view.add_(part)
        return gradients

    def arrays(self, **tensors):
        return super().arrays(**{name: tensor[None] for name, tensor in tensors.items()})
