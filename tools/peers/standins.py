"""Stand-ins for GPU packages that some peers import, so that these peers run on CPUs.

A stand-in computes each call (one block of queries with one block of keys) by PyTorch's fused CPU kernel. Nothing else
of the peers is replaced: they themselves send messages, merge blocks and add gradients. A call's results in float32
are those of that kernel, so errors of a peer are not the stand-in's.
"""
import sys
import types

import torch

from peer_fused import fused, fused_backward


def _swapped(*tensors):
    """(batch, rows, heads, head size) <-> (batch, heads, rows, head size)."""
    return [tensor.transpose(1, 2) for tensor in tensors]


def _check(q, dropout_p, softmax_scale, window=(-1, -1), bias=None):
    scale = q.shape[-1] ** -0.5
    if dropout_p or bias is not None or tuple(window) != (-1, -1) or abs((softmax_scale or scale) - scale) > 1e-9:
        raise NotImplementedError("this stand-in knows no dropout, bias, window or scale other than 1 / sqrt(D)")


def flash_forward(q, k, v, dropout_p, softmax_scale, causal, window_size_left=-1, window_size_right=-1, softcap=0.0,
                  alibi_slopes=None, return_softmax=False):
    """As flash_attn's: out (batch, rows, heads, head size), lse (batch, heads, rows), and two values that are not read."""
    _check(q, dropout_p, softmax_scale, (window_size_left, window_size_right), alibi_slopes)
    out, lse = fused(*_swapped(q, k, v), causal)
    return out.transpose(1, 2).contiguous(), lse, None, None


def flash_backward(dout, q, k, v, out, softmax_lse, dq, dk, dv, dropout_p, softmax_scale, causal, window_size_left=-1,
                   window_size_right=-1, softcap=0.0, alibi_slopes=None, deterministic=False, rng_state=None):
    """As flash_attn's: writes the gradients of these keys' share into dq, dk, dv."""
    _check(q, dropout_p, softmax_scale, (window_size_left, window_size_right), alibi_slopes)
    shares = fused_backward(*_swapped(dout, q, k, v, out), softmax_lse, causal)
    for gradient, share in zip((dq, dk, dv), _swapped(*shares)):
        gradient.copy_(share)


class FlashFunction(torch.autograd.Function):
    """(q, k, v, causal) -> out, lse; lse takes no gradient, as in flash_attn."""

    @staticmethod
    def forward(ctx, q, k, v, causal):
        out, lse, _, _ = flash_forward(q, k, v, 0.0, None, causal)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.causal = causal
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, _):
        q, k, v, out, lse = ctx.saved_tensors
        gradients = [torch.empty_like(tensor) for tensor in (q, k, v)]
        flash_backward(dout, q, k, v, out, lse, *gradients, 0.0, None, ctx.causal)
        return (*gradients, None)


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                    alibi_slopes=None, deterministic=False, return_attn_probs=False):
    _check(q, dropout_p, softmax_scale, window_size, alibi_slopes)
    out, lse = FlashFunction.apply(q, k, v, causal)
    return (out, lse, None) if return_attn_probs else out


def _module(name, **contents):
    module = types.ModuleType(name)
    vars(module).update(contents)
    sys.modules[name] = module
    return module


def provide_flash_attn():
    """`import flash_attn` finds the functions above."""
    interface = _module("flash_attn.flash_attn_interface", _flash_attn_forward=flash_forward,
                        _flash_attn_backward=flash_backward, flash_attn_func=flash_attn_func,
                        _flash_attn_varlen_forward=None, _flash_attn_varlen_backward=None)
    _module("flash_attn", __version__="2.8.3", __path__=[], flash_attn_interface=interface,
            flash_attn_func=flash_attn_func)


def provide_adapters():
    """ring_flash_attn's adapters to transformers, which are not used."""
    _module("ring_flash_attn.adapters", substitute_hf_flash_attn=None, update_ring_flash_attn_params=None)


def provide_xformers():
    """`import xformers.ops` finds memory_efficient_attention."""
    class LowerTriangularMask:
        pass

    def memory_efficient_attention(query, key, value, attn_bias=None, op=None):
        return flash_attn_func(query, key, value, causal=attn_bias is not None)

    operations = _module("xformers.ops", LowerTriangularMask=LowerTriangularMask, AttentionOp=object,
                         memory_efficient_attention=memory_efficient_attention)
    _module("xformers", __path__=[], ops=operations)
