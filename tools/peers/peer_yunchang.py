"""yunchang (USP): its ring and its all-to-all over the stand-in for flash_attn, and the ring that it has for CPUs.

ring-flash-attn, from which its ring comes, is called in the same way.
"""
import torch.distributed as dist

import standins

standins.provide_flash_attn()

from yunchang import LongContextAttention, UlyssesAttention, set_seq_parallel_pg  # noqa: E402: after the stand-in
from yunchang.kernels import AttnType  # noqa: E402

from peer_sharded import Sharded  # noqa: E402


class Yunchang(Sharded):
    kernel = AttnType.FA

    def __init__(self, rank, ranks, rendezvous):
        super().__init__(rank, ranks, rendezvous)
        set_seq_parallel_pg(1, ranks, rank, ranks)  # all ranks are a ring
        self.layer = LongContextAttention(ring_impl_type="basic", attn_type=self.kernel)

    def attend(self, q, k, v):
        return self.layer(q, k, v, causal=self.causal)


class YunchangUlysses(Sharded):
    def attend(self, q, k, v):
        return UlyssesAttention(dist.group.WORLD)(q, k, v, causal=self.causal)


class YunchangCpu(Yunchang):
    """Its kernel TORCH_MATH is the one that a CPU can run; it has no gradients."""

    kernel, forward_only = AttnType.TORCH_MATH, True


class RingFlash(Sharded):
    def attend(self, q, k, v):
        standins.provide_adapters()
        from ring_flash_attn import ring_flash_attn_func
        return ring_flash_attn_func(q, k, v, causal=self.causal, group=dist.group.WORLD)
