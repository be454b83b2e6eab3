"""para-attn: its Ulysses, and its ring, which is forward only.

Its ring picks a kernel of CUDA for a block; here that call is PyTorch's fused CPU kernel. The ring itself is a function
of PyTorch that para-attn calls.
"""
import para_attn.ops
from para_attn.para_attn_interface import ring_attn_func, ulysses_attn_func

from peer_fused import fused
from peer_sharded import Sharded


def block(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    return fused(query, key, value, is_causal)


para_attn.ops.attention_forward_with_lse = block


class ParaUlysses(Sharded):
    heads_first = True

    def attend(self, q, k, v):
        return ulysses_attn_func(q, k, v, is_causal=self.causal)


class ParaRing(Sharded):
    heads_first = forward_only = True

    def attend(self, q, k, v):
        return ring_attn_func(q, k, v, is_causal=self.causal)
