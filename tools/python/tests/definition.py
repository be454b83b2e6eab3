"""Dilated attention composed of PyTorch's own operations, so that autograd gives exact gradients. It computes the
scores of all pairs of rows, and adds the logarithm of how often the query sees the key. For small problems only."""
import numpy as np
import torch

from annulus.pattern import Pattern


def often(rows, heads, pattern, documents=None):
    """(H, S, S): how often query row x of head h sees key row p."""
    edges = [0, rows] if documents is None else list(documents)
    counts = np.zeros((heads, rows, rows))
    for begin, end in zip(edges, edges[1:]):
        for head in range(heads):
            counts[head, begin:end, begin:end] = pattern.multiplicity(np.arange(end - begin), end - begin, head, heads)
    return torch.from_numpy(counts)


def alibi(heads):
    """ALiBi's slopes, computed as in its authors' program."""
    if heads & (heads - 1) == 0:
        return [2 ** (-8 * i / heads) for i in range(1, heads + 1)]
    closest = 2 ** int(np.log2(heads))
    return alibi(closest) + alibi(2 * closest)[0::2][:heads - closest]


def composed(q, k, v, counts, scale=None, sink=None, softcap=None, bias=None, coordinates=None):
    """out (B, S, H, D) and lse (B, S, H) of (B, S, heads, D) tensors; every row must see a key. sink (H): for each head
    the score of one more key, whose value is 0. softcap, bias and coordinates mean what they mean in
    annulus.attention(), for one document."""
    group = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(group, dim=2) for x in (k, v))
    scores = torch.einsum("bxhd,bphd->bhxp", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        slopes = torch.tensor(alibi(q.shape[2]) if bias["alibi"] == "auto" else bias["alibi"], dtype=q.dtype)
        places = torch.arange(q.shape[1])[:, None] if coordinates is None else torch.as_tensor(coordinates)
        far = torch.cdist(places.double()[None], places.double()[None], compute_mode="donot_use_mm_for_euclid_dist")[0]
        far[:bias.get("exempt", 0)] = far[:, :bias.get("exempt", 0)] = 0
        scores = scores - slopes[:, None, None] * far.to(q.dtype)
    scores = scores + counts.to(q.dtype).log()
    if sink is not None:
        scores = torch.cat((scores, sink.to(q.dtype)[None, :, None, None].expand(*scores.shape[:3], 1)), -1)
        v = torch.nn.functional.pad(v, (0, 0, 0, 0, 0, 1))
    lse = scores.logsumexp(-1)
    return torch.einsum("bhxp,bphd->bxhd", scores.softmax(-1), v), lse.transpose(1, 2)


def pattern_of(segments, dilations, causal, semantics="longnet"):
    return Pattern(tuple(segments), tuple(dilations), causal, semantics).checked()
