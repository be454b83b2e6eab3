"""Attention over ranks as PyTorch users do it first: all-gather K and V over gloo, then the fused kernel.

Every rank holds two chunks of the rows, p and 2P - 1 - p of 2P, so that causal work is balanced. Gradients of K and V are
summed over the ranks, and each rank keeps those of its own rows.
"""
import os

import torch
import torch.distributed as dist

from peer_fused import Torch, fused, fused_backward, merge


class AllGather(Torch):
    def __init__(self, rank, ranks, rendezvous):
        super().__init__(rank, ranks, rendezvous)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)

    def load(self, arrays, case):
        n = case["sequence"]
        if n % (2 * self.ranks):
            raise ValueError(f"{n} rows are not {2 * self.ranks} equal chunks")
        self.chunk = n // (2 * self.ranks)
        own = self.rows()
        super().load({name: array[:, own] for name, array in arrays.items()}, case)

    def chunks(self, rank):
        return rank, 2 * self.ranks - 1 - rank

    def rows(self):
        return torch.cat([torch.arange(c * self.chunk, (c + 1) * self.chunk) for c in self.chunks(self.rank)]).numpy()

    def gathered(self, tensor):
        """All ranks' rows (batch, heads, n, head size), in global order."""
        parts = [torch.empty_like(tensor) for _ in range(self.ranks)]
        dist.all_gather(parts, tensor)
        by_chunk = {c: half for rank, part in enumerate(parts) for c, half in zip(self.chunks(rank), part.chunk(2, 2))}
        return torch.cat([by_chunk[c] for c in range(2 * self.ranks)], 2)

    def blocks(self):
        """(own rows, keys, causal) of the fused calls: all rows against all keys; causal chunks against what lies
        before them, and against themselves with the mask."""
        if not self.causal:
            yield slice(None), slice(None), False
            return
        for i, c in enumerate(self.chunks(self.rank)):
            own = slice(i * self.chunk, (i + 1) * self.chunk)
            yield own, slice(c * self.chunk, (c + 1) * self.chunk), True
            if c > 0:
                yield own, slice(0, c * self.chunk), False

    def forward(self):
        q = self.tensors["q"]
        k, v = self.gathered(self.tensors["k"]), self.gathered(self.tensors["v"])
        if not self.causal:
            return *fused(q, k, v, False), k, v
        out, lse = torch.empty_like(q), torch.full(q.shape[:3], -torch.inf)
        for own, keys, causal in self.blocks():
            block_out, block_lse = fused(q[:, :, own], k[:, :, keys], v[:, :, keys], causal)
            if causal:  # the causal chunk comes first
                out[:, :, own], lse[:, :, own] = block_out, block_lse
            else:
                merge(out[:, :, own], lse[:, :, own], block_out, block_lse)
        return out, lse, k, v

    def backward(self, state):
        out, lse, k, v = state
        q, dout = self.tensors["q"], self.tensors["dout"]
        dq, dkv = torch.zeros_like(q), torch.zeros(2, *k.shape)
        for own, keys, causal in self.blocks():
            of_q, *of_kv = fused_backward(dout[:, :, own], q[:, :, own], k[:, :, keys], v[:, :, keys], out[:, :, own],
                                          lse[:, :, own], causal)
            dq[:, :, own] += of_q
            for total, share in zip(dkv, of_kv):
                total[:, :, keys] += share
        dist.all_reduce(dkv)
        rows = torch.from_numpy(self.rows())
        return dq, *dkv[:, :, :, rows]

    def meet(self):
        dist.barrier()
