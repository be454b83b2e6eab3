"""Codes of the field that compute with autograd, on one rank or on several over gloo: what all of them share."""
import os

import torch
import torch.distributed as dist

from peer_fused import Torch


class Sharded(Torch):
    """Rank p holds the p-th of P equal intervals of rows, as (batch, rows, heads, head size) unless `heads_first`."""

    heads_first = False

    def __init__(self, rank, ranks, rendezvous):
        super().__init__(rank, ranks, rendezvous)
        if ranks > 1:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
            dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)

    def arranged(self, tensor):
        return tensor.transpose(1, 2) if self.heads_first else tensor

    def load(self, arrays, case):
        if case["sequence"] % self.ranks:
            raise ValueError(f"{case['sequence']} rows are not {self.ranks} equal intervals")
        self.n = case["sequence"] // self.ranks
        self.case = case
        super().load({name: array[:, self.rows()] for name, array in arrays.items()}, case)
        self.qkv = [self.tensors[name].requires_grad_(case["backward"]) for name in ("q", "k", "v")]

    def rows(self):
        return slice(self.rank * self.n, (self.rank + 1) * self.n)

    def attend(self, q, k, v):
        """The code's own call: own rows of q, k, v -> own rows of out."""
        raise NotImplementedError

    def forward(self):
        return (self.attend(*self.qkv),)

    def backward(self, state):
        return torch.autograd.grad(state[0], self.qkv, self.tensors["dout"])

    def meet(self):
        if self.ranks > 1:
            dist.barrier()
