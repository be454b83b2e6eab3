"""Random combinations of windows, lengths, queries, caps, biases, sinks, documents and semantics. Results are compared
with annulus.reference, which shares no code with the kernels, and gradients with differences of results."""
import numpy as np
import pytest
import torch

import annulus
from annulus.torch import dilated_attention

ROWS, HEADS, DIM = 23, 4, 6


def drawn(seed):
    """Arrays q, k and v, and keyword arguments for annulus.attention."""
    draw = np.random.default_rng(seed)
    one_of = lambda *choices: choices[draw.integers(len(choices))]  # noqa: E731
    kv_heads, queries = one_of(1, 2, 4), one_of(ROWS, ROWS, 5, 1)
    words = {"causal": bool(draw.integers(2)), "semantics": one_of("longnet", "paper", "grouped")}
    pairs = draw.integers(1, 4)
    words["dilations"] = [int(draw.integers(1, 5)) for _ in range(pairs)]
    words["segments"] = [one_of("all", 7, annulus.window(int(draw.integers(1, 9))),
                                {"window": [3, 2], "first": 3 if rate == 1 else 0}) for rate in words["dilations"]]
    where = one_of("documents", "lengths", "gap", "none")
    if where == "documents":
        words["documents"] = [0, 9, 9, ROWS]
    if where == "gap":
        words["documents"] = [0, 9, 17]
    if where == "lengths" and queries == ROWS:
        words["lengths"] = one_of([ROWS, 8], [[3, 20], [0, 0]], [[1, 2], [5, ROWS]])
    if queries < ROWS:
        words["query_offset"] = one_of("auto", 0, 11)
    if draw.integers(2):
        words["softcap"] = float(one_of(0.7, 5))
    if draw.integers(2):
        words["bias"] = {"alibi": one_of("auto", [0, 0.5, 1, 0.01]), "exempt": int(one_of(0, 1, 4))}
        if draw.integers(2):
            words["coordinates"] = draw.integers(0, 5, (ROWS, 2)) * 0.5
    if draw.integers(2):
        words["sink"] = draw.standard_normal(HEADS)
    q, k, v = (draw.standard_normal((2, rows, heads, DIM)) * 2
               for rows, heads in ((queries, HEADS), (ROWS, kv_heads), (ROWS, kv_heads)))
    return q, k, v, words


@pytest.mark.parametrize("seed", range(60))
def test_all_together(seed):
    q, k, v, words = drawn(seed)
    out, lse = annulus.attention(q, k, v, **words)
    expected, expected_lse = annulus.reference(q, k, v, **words)
    assert abs(out - expected).max() <= 1e-12 * max(1, abs(expected).max()), words
    there = np.isfinite(expected_lse)
    assert np.array_equal(there, np.isfinite(lse)) and abs(lse[there] - expected_lse[there]).max(initial=0) <= 1e-11, words

    draw = np.random.default_rng(seed + 1000)
    given = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    if "sink" in words:
        given.append(torch.from_numpy(words.pop("sink")).requires_grad_())
    weights, of_lse = torch.from_numpy(draw.standard_normal(out.shape)), torch.from_numpy(draw.standard_normal(lse.shape))

    def loss(q, k, v, sink=None):
        out, lse = dilated_attention(q, k, v, sink=sink, return_lse=True, **words)
        return (out * weights).sum() + torch.where(torch.isinf(lse), 0, lse * of_lse).sum()
    gradients = torch.autograd.grad(loss(*given), given)
    step = 1e-5
    for at, (tensor, gradient) in enumerate(zip(given, gradients)):
        way = torch.from_numpy(draw.standard_normal(tensor.shape))
        moved = [[x.detach() + sign * step * way if i == at else x.detach() for i, x in enumerate(given)] for sign in (1, -1)]
        difference = (loss(*moved[0]) - loss(*moved[1])) / (2 * step)
        assert abs(difference - (gradient * way).sum()) <= 1e-6 * max(1, abs(difference)), (at, words)
