"""Other implementations of LongNet's attention: dilated-attention-pytorch, and torchscale (by LongNet's authors).

Both call a GPU package for the attention of their combs; a stand-in makes that call.
"""
from types import SimpleNamespace

import standins
from cases import ALL
from peer_sharded import Sharded


class DilatedAttentionPytorch(Sharded):
    """Its last step divides by the number of pairs. attend() undoes this, so that the sum over pairs is compared."""

    def load(self, arrays, case):
        standins.provide_xformers()
        from dilated_attention_pytorch.dilated_attention import DilatedAttention
        segments = [case["sequence"] if w == ALL else w for w in case["segments"]]
        self.layer = DilatedAttention(segments, case["dilations"])
        self.pairs = len(segments)
        super().load(arrays, case)

    def attend(self, q, k, v):
        return self.layer(q, k, v, is_causal=self.causal) * self.pairs


class Torchscale(Sharded):
    """DilatedAttention.forward between its linear layers: gathering, attention_ops, scattering."""

    def load(self, arrays, case):
        import torchscale.component.dilated_attention as code
        import torchscale.component.multihead_attention as base

        def flash(q, k, v, dropout=0.0, bias=None, softmax_scale=None, is_causal=False):
            return standins.flash_attn_func(q, k, v, dropout, softmax_scale, is_causal, return_attn_probs=True)[:2]

        base.flash_attn_func = flash  # it is None where there is no CUDA
        self.layer = code.DilatedAttention.__new__(code.DilatedAttention)
        segments = [case["sequence"] if w == ALL else w for w in case["segments"]]
        vars(self.layer).update(num_heads=case["heads"], dropout=0.0, args=SimpleNamespace(
            flash_attention=True, seq_parallel=False, segment_length=segments, dilated_ratio=case["dilations"]))
        super().load(arrays, case)

    def attend(self, q, k, v):
        layer, n, pieces = self.layer, q.shape[1], []
        for w, r in zip(layer.args.segment_length, layer.args.dilated_ratio):
            comb = [layer.gathering(t, r, w, is_causal=self.causal, is_kv=i > 0, seq_parall=False)
                    for i, t in enumerate((q, k, v))]
            pieces.append(layer.attention_ops(*comb, is_causal=self.causal))
        return layer.scattering(*map(list, zip(*pieces)), n, q.shape[0]).view(q.shape)
