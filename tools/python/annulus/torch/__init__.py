"""annulus in PyTorch models: attention with gradients, on the CPU.

    from annulus.torch import dilated_attention, scaled_dot_product_attention
    annulus.torch.register(segments=[512, "all"], dilations=[1, 8])    # for models of Hugging Face's transformers

Everything is built on one operator, annulus::attention (annulus/torch/operator.py), which works with torch.compile,
torch.export, torch.func, checkpointing, torch.autocast, FakeTensor and meta tensors.
"""
import torch

from annulus import communicators, options
from annulus.arguments import anything, checked, flag, number, optional, text
from annulus.arrays import dense
from annulus.calls import ORDER, PROGRESS, settings_of
from annulus.errors import AnnulusError
from annulus.processors import THREADS
from annulus.torch.models import register
from annulus.torch.operator import attend, checked_on_all_ranks, encoded, progress_of_call

WITHOUT_GRADIENTS = ("statistics", "top_keys")
AS_IN_PYTORCH = ("axes", "causal", "return_lse")  # names that scaled_dot_product_attention() does not take
MASKED_ALREADY = ("is_causal", "segments", "dilations", "documents", "lengths")  # not together with attn_mask


@checked(comm=anything, name=optional(text("a name, a text")))
def communicator_name(comm, name=None):
    """A name for comm= where PyTorch does not take objects, as in functions that torch.compile or torch.export traces.

    comm: a communicator of mpi4py, or a process group of torch.distributed; all its ranks must call. For a program
    saved by torch.export choose a `name`, and register it again with this function where the program is loaded.
    """
    return communicators.name_of(comm, name)


def _around_checks(given):
    return checked_on_all_ranks(given.get("comm"), *[value for value in given.values() if isinstance(value, torch.Tensor)])


@torch.compiler.allow_in_graph
@checked(q=anything, k=anything, v=anything, sink=anything, lengths=anything, axes=ORDER, comm=anything, return_lse=flag,
         progress=PROGRESS, threads=THREADS, around_checks=_around_checks,  # attend() checks the tensors
         more=options.WORDS, unlisted=WITHOUT_GRADIENTS)
def dilated_attention(q, k, v, *, sink=None, lengths=None, axes=None, comm=None, return_lse=False, progress=None, threads=None,
                      **words):
    """annulus.attention() for PyTorch's tensors, with gradients (also of sink). It has the same arguments, except
    statistics.

    lengths may be a tensor (B) or (B, 2), or a mask (B, S) of contiguous rows, True where a row exists.

    q (B, S, H, D), k and v (B, S, Hkv, D), or with axes='bhsd' (B, H, S, D): CPU tensors of one type, with any strides.
    v and out may have another head size than D. Returns out with the shape of q; with return_lse also lse (B, S, H),
    which has gradients, too. With comm (a communicator of mpi4py, a process group of torch.distributed, or a
    communicator_name()) the tensors have this rank's rows, and all ranks must call, also in the backward pass.

    >>> q = torch.randn(1, 1024, 4, 32, requires_grad=True)
    >>> out = dilated_attention(q, q, q, segments=[128, "all"], dilations=[1, 8], causal=True)
    >>> out.sum().backward(); q.grad.shape
    torch.Size([1, 1024, 4, 32])
    """
    name = communicators.name_of(comm)
    with checked_on_all_ranks(name, q, k, v):
        if not isinstance(lengths, torch.Tensor) and lengths is not None:
            lengths = torch.tensor(options.lengths(lengths, "lengths"), device="cpu")
        settings = settings_of(**words)
        if lengths is not None and settings.documents:
            raise AnnulusError("documents and lengths are given, expected one of them")
        if settings.statistics:
            raise AnnulusError("statistics have no gradients, expected none here: annulus.attention() returns them")
    said = encoded(settings, axes, name, threads)
    token = progress_of_call.set(progress)
    try:
        out, lse = attend(q, k, v, said, sink, lengths)
    finally:
        progress_of_call.reset(token)
    return (out, lse) if return_lse else out


def _taken_mask(mask, query, rows, batch, words, is_causal):
    """Checks a mask (..., Sq or 1, S) of S = `rows` keys; returns (1 or B, 1 or H, Sq or 1, S). With comm the
    mask hides keys only, (..., 1, S), and S counts the rows of all ranks; class Call then checks S."""
    dense(mask, "attn_mask")
    if mask.dtype != torch.bool:
        raise AnnulusError(f"attn_mask has numbers of type {mask.dtype}, expected torch.bool: masks that are added to "
                           "scores are not supported")
    for name, value in ({"is_causal": is_causal} | words).items():
        if name in MASKED_ALREADY and value is not None and value is not False:
            raise AnnulusError(f"attn_mask and {name} are given, expected one of them")
    is_matrix = mask.dim() >= 2
    if words.get("comm") is not None and is_matrix:
        if mask.shape[-2] != 1:
            raise AnnulusError(f"attn_mask is {tuple(mask.shape)} and comm is given, expected a mask of keys, (..., 1, S), of "
                               "the rows of all ranks")
        rows = mask.shape[-1]
    while mask.dim() < 2 + len(batch) + 1:
        mask = mask[None]
    scores = (*batch, *query.shape[-3:-1], rows)
    try:
        whole = is_matrix and mask.shape[-1] == rows and torch.broadcast_shapes(mask.shape, scores) == scores
    except RuntimeError:
        whole = False
    if not whole:
        raise AnnulusError(f"attn_mask is {tuple(mask.shape)}, expected (..., {query.shape[-2]}, {rows}), which broadcasts to "
                           "the scores")
    if any(extent > 1 for extent in mask.shape[:-3]):
        mask = mask.expand(*batch, *mask.shape[-3:])
    return mask.flatten(0, -4) if batch else mask[None]


def _batched(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa, words):
    """The arguments of scaled_dot_product_attention for dilated_attention: [q, k, v] with one batch axis, and the
    extents of the axes before the heads that the batch axis replaces. Adds to `words` what the mask and the numbers of
    rows mean."""
    for name in set(AS_IN_PYTORCH) & words.keys():
        raise AnnulusError(f"{name} is no argument here, expected those of torch.nn.functional's function (is_causal), "
                           "and segments, dilations, semantics, documents ... of annulus.attention()")
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        dense(tensor, name)
    if dropout_p:
        raise AnnulusError(f"dropout_p is {dropout_p}, expected 0: attention here has no dropout")
    if min(query.dim(), key.dim(), value.dim()) < 3:
        raise AnnulusError(f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}: expected "
                           "(..., heads, rows, numbers) each")
    if key.shape[-3] != query.shape[-3] and not enable_gqa:
        raise AnnulusError(f"key has {key.shape[-3]} heads, query {query.shape[-3]}: expected enable_gqa=True, or as many")
    # With comm query and key have the rows of one rank, which do not show whether all of q has as many rows as all of
    # k. So an offset is set, unless other arguments forbid it. If q has as many rows as k, offset 0 or "none" changes
    # nothing.
    has_comm = words.get("comm") is not None
    forbid = ("lengths",) if is_causal else ("segments", "dilations", "documents", "bias", "lengths")
    if (has_comm and all(words.get(name) is None for name in forbid)) or key.shape[-2] != query.shape[-2]:
        if is_causal and not has_comm and query.shape[-2] > key.shape[-2]:
            raise AnnulusError(f"is_causal is True, query has {query.shape[-2]} rows and key {key.shape[-2]}: expected as many "
                               "rows of key or more, or is_causal=False")
        words.setdefault("query_offset", 0 if is_causal else "none")  # PyTorch's causal mask starts at the first rows
    try:
        batch = torch.broadcast_shapes(*[tensor.shape[:-3] for tensor in (query, key, value)])
    except RuntimeError:
        raise AnnulusError(f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}: expected axes "
                           "before the heads that are equal, or 1") from None
    if attn_mask is not None:
        words["lengths"] = _taken_mask(attn_mask, query, key.shape[-2], batch, words, is_causal)
        if words.get("comm") is not None:
            words["query_offset"] = "none"
    batched = [tensor.expand(*batch, *tensor.shape[-3:]).flatten(0, -4) if batch else tensor[None]
               for tensor in (query, key, value)]
    return batched, batch


@torch.compiler.allow_in_graph
@checked(query=anything, key=anything, value=anything, attn_mask=anything, dropout_p=number, is_causal=flag,
         scale=optional(options.positive), enable_gqa=flag, around_checks=_around_checks,
         more=(*options.WORDS, "sink", "comm", "progress", "threads"), unlisted=(*AS_IN_PYTORCH, *WITHOUT_GRADIENTS))
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                                 enable_gqa=False, **words):
    """Replaces torch.nn.functional.scaled_dot_product_attention, without dropout.

    attn_mask : bool. A mask (S, S) or (..., S, S) is causal, a window of keys around each query, or padding: rows that
        see nothing and that no row sees. A mask (..., 1, S), or (..., Sq, S) with equal rows, hides keys from all
        queries of an entry; with comm the mask is (..., 1, S), of the rows of all ranks.
        The mask's numbers are read when attention is computed. Other masks, and masks of floats, are refused. The
        argument `lengths` is another way to say which rows of a batch exist.

    query (..., H, Sq, D), key and value (..., Hkv, S, D); Hkv < H needs enable_gqa. With is_causal query row i sees the
    key rows 0 ... i, as in PyTorch (query_offset=0), and Sq must not exceed S. The axes before the heads are broadcast
    against each other, as in PyTorch. **words are arguments of annulus.attention() that make it dilated: segments,
    dilations, semantics, documents ...
    """
    words["comm"] = communicators.name_of(words.get("comm"))
    with checked_on_all_ranks(words["comm"], query, key, value):
        batched, batch = _batched(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa, words)
    out = dilated_attention(*batched, axes="bhsd", causal=is_causal, scale=scale, **words)
    return out.reshape(*batch, *query.shape[-3:-1], value.shape[-1])
