"""annulus in models of PyTorch: attention with gradients, on the CPU.

    from annulus.torch import dilated_attention, scaled_dot_product_attention
"""
import torch

from annulus.arguments import anything, checked, flag, number, optional
from annulus.arrays import dense
from annulus.calls import ORDER, PROGRESS, Call, settings_of
from annulus.errors import AnnulusError
from annulus.processors import THREADS


class _Attention(torch.autograd.Function):
    """(q, k, v, sink or None) -> (out, lse), both differentiable."""

    @staticmethod
    def forward(ctx, q, k, v, sink, settings, axes, comm, progress, threads):
        call = Call(q, k, v, settings, axes, comm, gradients=any(ctx.needs_input_grad[:4]), sink=sink, **threads)
        out, lse, _, kept = call.forward(progress)
        if any(ctx.needs_input_grad[:4]):
            # The arrays are taken again in backward(): saved tensors are freed, checked for changes and offloaded there.
            ctx.save_for_backward(q, k, v, out, sink)
            ctx.set_materialize_grads(False)  # of lse there is none as a rule
            ctx.again = (settings, axes, comm, threads)
            ctx.kept = kept
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dout, dlse):
        q, k, v, out, sink = ctx.saved_tensors
        settings, axes, comm, threads = ctx.again
        dout = torch.zeros_like(out) if dout is None else dout
        call = Call(q, k, v, settings, axes, comm, gradients=True, sink=sink, **threads)
        made = call.backward(ctx.kept, out, dout, dlse)
        dsink = None if sink is None else made.pop().to(sink.dtype)
        return *made, dsink, None, None, None, None, None


@torch.compiler.disable
@checked(q=dense, k=dense, v=dense, sink=optional(dense), axes=ORDER, comm=anything, return_lse=flag, progress=PROGRESS, threads=THREADS)
def dilated_attention(q, k, v, *, sink=None, axes=None, comm=None, return_lse=False, progress=None, threads=None, **words):
    """annulus.attention() of PyTorch's tensors, with gradients, of sink (H), too; words as there (but statistics).

    q (B, S, H, D), k and v (B, S, Hkv, D), or with axes='bhsd' (B, H, S, D): CPU tensors of one type, strided or not.
    Returns out as q; with return_lse also lse (B, S, H), which has gradients as well. With comm (mpi4py's) the tensors
    are this rank's own rows, and all ranks call, in the backward pass too.

    >>> q = torch.randn(1, 1024, 4, 32, requires_grad=True)
    >>> out = dilated_attention(q, q, q, segments=[128, "all"], dilations=[1, 8], causal=True)
    >>> out.sum().backward(); q.grad.shape
    torch.Size([1, 1024, 4, 32])
    """
    settings = settings_of(**words)
    if settings.statistics:
        raise AnnulusError("statistics have no gradients, expected none here: annulus.attention() tells them")
    wanted = {"threads": threads, "suggested": torch.get_num_threads()}
    out, lse = _Attention.apply(q, k, v, sink, settings, axes, comm, progress, wanted)
    return (out, lse) if return_lse else out


@checked(query=dense, key=dense, value=dense, attn_mask=anything, dropout_p=number, is_causal=flag,
         scale=optional(number), enable_gqa=flag)
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                                 enable_gqa=False, **words):
    """In place of torch.nn.functional's, for self-attention without a mask tensor and without dropout.

    query (..., H, S, D), key and value (..., Hkv, S, D); Hkv < H with enable_gqa. The axes before these are broadcast
    against each other, as PyTorch does. **words make it dilated: segments,
    dilations, semantics, documents ... of annulus.attention().
    """
    for name in {"axes", "causal", "return_lse"} & words.keys():
        raise AnnulusError(f"{name} is no argument here, expected those of torch.nn.functional's function (is_causal), "
                           "and segments, dilations, semantics, documents ... of annulus.attention()")
    if attn_mask is not None:
        raise AnnulusError("attn_mask: expected None; is_causal, documents, segments and dilations say which rows meet")
    if dropout_p:
        raise AnnulusError(f"dropout_p is {dropout_p}, expected 0: attention here has no dropout")
    if min(query.dim(), key.dim(), value.dim()) < 3:
        raise AnnulusError(f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}: expected "
                           "(..., heads, rows, numbers) each")
    if key.shape[-3] != query.shape[-3] and not enable_gqa:
        raise AnnulusError(f"key has {key.shape[-3]} heads, query {query.shape[-3]}: expected enable_gqa=True, or as many")
    if key.shape[-2] != query.shape[-2]:
        raise AnnulusError(f"key has {key.shape[-2]} rows, query {query.shape[-2]}: expected as many (self-attention)")
    try:
        batch = torch.broadcast_shapes(*[tensor.shape[:-3] for tensor in (query, key, value)])
    except RuntimeError:
        raise AnnulusError(f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}: expected axes "
                           "before the heads that are equal, or 1") from None
    batched = [tensor.expand(*batch, *tensor.shape[-3:]).flatten(0, -4) if batch else tensor[None]
               for tensor in (query, key, value)]
    out = dilated_attention(*batched, axes="bhsd", causal=is_causal, scale=scale, **words)
    return out.reshape(*batch, *query.shape[-3:-1], value.shape[-1])
