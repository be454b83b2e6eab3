"""PyTorch's fused attention, scaled_dot_product_attention, as a user calls it; the base of the peers that use torch."""
import os

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

aten = torch.ops.aten


def fused(q, k, v, causal):
    """The fused kernel with its log-sum-exp; all (batch, heads, rows, head size), lse (batch, heads, rows)."""
    return aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal)


def fused_backward(dout, q, k, v, out, lse, causal):
    """dq, dk and dv from these keys only; out and lse must be those of ALL keys of a row. The sum over any split is
    exact."""
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(dout, q, k, v, out, lse, 0.0, causal)


def merge(out, lse, more_out, more_lse):
    """Merges a second set of keys into out and lse, in place: one softmax over both sets.

    The second set's weight is exp(more_lse) / (exp(lse) + exp(more_lse)) = sigmoid(more_lse - lse).
    """
    out.lerp_(more_out, torch.sigmoid(more_lse - lse).unsqueeze(-1).to(out.dtype))
    lse.copy_(torch.logaddexp(lse, more_lse))


class Torch:
    """Tensors in torch's usual order: (batch, heads, rows, head size), contiguous."""

    def __init__(self, rank, ranks, rendezvous):
        self.rank, self.ranks = rank, ranks

    def load(self, arrays, case):
        self.causal = case["causal"]
        dtype = getattr(torch, case["dtype"])
        self.tensors = {name: self.arranged(torch.from_numpy(array)).to(dtype).contiguous()
                        for name, array in arrays.items()}

    def arranged(self, tensor):
        return tensor.transpose(1, 2)

    def arrays(self, **tensors):
        """The results as (batch, rows, heads, head size), in a type that numpy has."""
        wide = {name: t if t.dtype == torch.float64 else t.float() for name, t in tensors.items()}
        return {name: self.arranged(tensor.detach()).numpy() for name, tensor in wide.items()}

    def outputs(self, state):
        return self.arrays(out=state[0])

    def gradients(self, gradients):
        return self.arrays(**dict(zip(("dq", "dk", "dv"), gradients)))

    def rows(self):
        return slice(None)

    def meet(self):
        """Waits for all ranks, so that they start together."""


class Fused(Torch):
    def load(self, arrays, case):
        super().load(arrays, case)
        self.qkv = [self.tensors[name].requires_grad_(case["backward"]) for name in ("q", "k", "v")]

    def forward(self):
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return (scaled_dot_product_attention(*self.qkv, is_causal=self.causal),)

    def backward(self, state):
        return torch.autograd.grad(state[0], self.qkv, self.tensors["dout"])
