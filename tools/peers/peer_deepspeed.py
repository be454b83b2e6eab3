"""DeepSpeed: its Ulysses, and a ring over its send and recv, as in the reports of docs/comparison.md.

The ring is the pattern that was reported to work with DeepSpeed: even ranks send first, odd ranks receive first, and no
message travels while a kernel works. Blocks are merged by log-sum-exps; gradients of K and V travel on with them.
"""
import os
import time

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import torch  # noqa: E402
import torch.distributed  # noqa: E402
import deepspeed.comm as dist  # noqa: E402: reads the variable
from deepspeed.sequence.layer import DistributedAttention  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

from peer_fused import fused, fused_backward, merge  # noqa: E402
from peer_sharded import Sharded  # noqa: E402


class DeepSpeed(Sharded):
    def __init__(self, rank, ranks, rendezvous):
        super().__init__(rank, ranks, rendezvous)
        if ranks > 1:
            dist.init_distributed("gloo", rank=rank, world_size=ranks, auto_mpi_discovery=False, verbose=False)


class Ulysses(DeepSpeed):
    def attend(self, q, k, v):
        layer = DistributedAttention(self.local, torch.distributed.group.WORLD, scatter_idx=2, gather_idx=1)
        return layer(q, k, v, 0) if self.ranks > 1 else self.local(q, k, v)

    def local(self, q, k, v):
        q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
        return scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2)


class Ring(DeepSpeed):
    heads_first = True

    def passed_on(self, tensors):
        """Each rank's tensors go to the next rank."""
        after, before = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
        received = [torch.empty_like(tensor) for tensor in tensors]
        for mine, theirs in zip(tensors, received):
            if self.rank % 2 == 0:
                dist.send(mine, after)
                dist.recv(theirs, before)
            else:
                dist.recv(theirs, before)
                dist.send(mine, after)
        return received

    def steps(self, travelling):
        """(tensors that have arrived, whether a causal mask hides some of their keys) of each step whose keys are seen.
        After each step except the last, the tensors in the list are sent to the next rank."""
        for step in range(self.ranks):
            owner = (self.rank - step) % self.ranks
            if not self.causal or owner <= self.rank:
                yield travelling, self.causal and owner == self.rank
            if step + 1 < self.ranks:
                travelling[:] = self.passed_on(travelling)

    def forward(self):
        q, k, v = (self.tensors[name].detach() for name in ("q", "k", "v"))
        out, lse = torch.zeros_like(q), torch.full(q.shape[:3], -torch.inf)
        for (key, value), causal in self.steps([k, v]):
            merge(out, lse, *fused(q, key, value, causal))
        return out, lse

    def backward(self, state):
        q, k, v = (self.tensors[name].detach() for name in ("q", "k", "v"))
        dq, travelling = torch.zeros_like(q), [k, v, torch.zeros_like(k), torch.zeros_like(v)]
        for (key, value, dk, dv), causal in self.steps(travelling):
            shares = fused_backward(self.tensors["dout"], q, key, value, *state, causal)
            for gradient, share in zip((dq, dk, dv), shares):
                gradient += share
        return dq, *(self.passed_on(travelling[2:]) if self.ranks > 1 else travelling[2:])

    def facts(self):
        """What isend gives back, and how long the call takes compared with the message: 64 MiB to the next rank, whose
        receive is posted a quarter of a second later."""
        sent, received = torch.ones(1 << 24), torch.empty(1 << 24)
        self.meet()
        start = time.perf_counter()
        request = dist.isend(sent, (self.rank + 1) % self.ranks)
        called = time.perf_counter() - start
        time.sleep(0.25)
        dist.recv(received, (self.rank - 1) % self.ranks)
        if request is not None:
            request.wait()
        return {"isend returns": type(request).__name__, "call": called,
                "until it is sent": time.perf_counter() - start}
