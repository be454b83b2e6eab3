"""attn_mask of annulus.torch.scaled_dot_product_attention: windows, causal masks and padding give PyTorch's results."""
import pytest
import torch

import annulus
from annulus.torch import scaled_dot_product_attention

B, S = 3, 17
STEPS = torch.arange(S)[:, None] - torch.arange(S)
CAUSAL = STEPS >= 0
WINDOWS = {"causal": CAUSAL, "full": torch.ones(S, S, dtype=torch.bool), "back": CAUSAL & (STEPS <= 4),
           "both": (STEPS <= 3) & (STEPS >= -2), "ahead": (STEPS <= 0) & (STEPS >= -5), "self": STEPS == 0}


def tensors(batch=(B,), heads=4, kv_heads=2):
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(*batch, h, S, 8, generator=generator, dtype=torch.float64).requires_grad_()
            for h in (heads, kv_heads, kv_heads)]


def padded(window, pairs):
    """A mask (B, 1, S, S): the window, where query and key exist."""
    there = torch.stack([(torch.arange(S) >= begin) & (torch.arange(S) < end) for begin, end in pairs])
    return (window & there[:, :, None] & there[:, None])[:, None]


def equal_to_pytorch(mask, batch=(B,)):
    """Whether results and gradients equal PyTorch's, in rows that see a key."""
    sees, found = mask.any(-1, keepdim=True), []
    for attention in (scaled_dot_product_attention, torch.nn.functional.scaled_dot_product_attention):
        given = tensors(batch)
        out = torch.where(sees, attention(*given, attn_mask=mask, enable_gqa=True), 0)
        out.square().sum().backward()
        found.append([out.detach()] + [x.grad for x in given])
    for x, y in zip(*found):
        assert (x - torch.nan_to_num(y)).abs().max() < 1e-11
    none_seen = scaled_dot_product_attention(*tensors(batch), attn_mask=mask, enable_gqa=True)
    assert (none_seen.masked_select(~sees) == 0).all()


@pytest.mark.parametrize("shape", [(S, S), (1, S, S), (1, 1, S, S), (B, 1, S, S), (B, 4, S, S)])
@pytest.mark.parametrize("window", WINDOWS)
def test_windows(window, shape):
    equal_to_pytorch(WINDOWS[window].expand(shape))


@pytest.mark.parametrize("pairs", [[(0, 17), (0, 9), (0, 1)], [(3, 17), (16, 17), (5, 11)], [(0, 17), (4, 4), (2, 8)]])
@pytest.mark.parametrize("window", WINDOWS)
def test_padding_at_the_ends(window, pairs):
    equal_to_pytorch(padded(WINDOWS[window], pairs))


def test_other_axes_in_front():
    equal_to_pytorch(WINDOWS["back"], ())
    equal_to_pytorch(padded(CAUSAL, [(0, 17), (0, 9), (0, 1)])[:, None].expand(B, 2, 1, S, S), (B, 2))


def test_compiled_and_exported():
    class Model(torch.nn.Module):
        def forward(self, q, k, v, mask):
            return scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    exported = None
    for mask in (padded(CAUSAL, [(0, 17), (0, 9), (0, 1)]), padded(WINDOWS["both"], [(0, 17), (2, 9), (4, 6)])):
        given = [x.detach() for x in tensors()] + [mask]
        assert torch.equal(torch.compile(Model(), fullgraph=True, backend="aot_eager")(*given), Model()(*given))
        exported = exported or torch.export.export(Model(), tuple(given)).module()
        assert torch.equal(exported(*given), Model()(*given))


@pytest.mark.parametrize("shape", [(B, 1, 1, S), (B, 1, S, S), (B, 4, 1, S), (1, S)])
def test_keys_alone(shape):
    """Every query, also in a hidden row, sees the keys that the mask of its entry allows."""
    pairs = [(0, 17), (3, 9), (16, 17)] if shape[0] == B else [(2, 11)]
    there = torch.stack([(torch.arange(S) >= begin) & (torch.arange(S) < end) for begin, end in pairs])
    equal_to_pytorch((there[:, None, None] if len(shape) == 4 else there).expand(shape))


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_keys_alone_of_fewer_or_more_queries(rows):
    there = torch.stack([torch.arange(S) < end for end in (17, 1, 6)])[:, None, None]
    found = []
    for attention in (scaled_dot_product_attention, torch.nn.functional.scaled_dot_product_attention):
        _, k, v = tensors()
        q = torch.randn(B, 4, rows, 8, generator=torch.Generator().manual_seed(rows), dtype=torch.float64).requires_grad_()
        out = attention(q, k, v, attn_mask=there, enable_gqa=True)
        out.square().sum().backward()
        found.append([out.detach(), q.grad, k.grad, v.grad])
    for x, y in zip(*found):
        assert (x - y).abs().max() < 1e-11


def test_an_entry_without_a_key():
    q, k, v = tensors()
    there = torch.stack([torch.arange(S) < end for end in (17, 0, 6)])
    out = scaled_dot_product_attention(q, k, v, attn_mask=there[:, None, None], enable_gqa=True)
    out.square().sum().backward()
    assert (out[1] == 0).all() and all((x.grad[1] == 0).all() and torch.isfinite(x.grad).all() for x in (q, k, v))


def test_a_mask_of_keys_that_hides_none():
    given = [x.detach() for x in tensors()]
    assert torch.equal(scaled_dot_product_attention(*given, attn_mask=torch.ones(B, 1, 1, S, dtype=torch.bool), enable_gqa=True),
                       scaled_dot_product_attention(*given, enable_gqa=True))


HOLES = CAUSAL.clone()
HOLES[9, 4] = False
OF_HEADS = torch.stack([CAUSAL, CAUSAL, CAUSAL.T, CAUSAL])
OTHERS = torch.stack([WINDOWS["back"], CAUSAL, CAUSAL])[:, None]
KEYS = (torch.arange(S) < 9).expand(B, 1, 1, S)


@pytest.mark.parametrize("mask, words, message", [
    (KEYS & (torch.arange(S) != 4), {}, "attn_mask: keys 0 to 9 of entry 0 have 1 masked ones among them"),
    (KEYS.expand(B, 1, S, S) & CAUSAL, {}, "attn_mask of entry 0 has queries 0 to 17 and keys 0 to 9"),
    (torch.stack([CAUSAL, CAUSAL, CAUSAL & (torch.arange(S) != 4)[:, None]])[:, None], {}, "queries 0 to 17 of entry 2 have 1"),
    (KEYS, {"bias": {"alibi": "auto"}}, "attn_mask hides keys from all queries, and bias is given"),
    (HOLES, {}, "attn_mask is no band of keys around each query"),
    (OF_HEADS, {}, "attn_mask differs from head to head"),
    (OTHERS, {}, "attn_mask lets rows of some entries see farther back than those of others"),
    (torch.zeros(S, S), {}, "attn_mask has numbers of type torch.float32, expected torch.bool"),
    (torch.ones(S, 4, dtype=torch.bool), {}, r"attn_mask is \(1, 1, 17, 4\), expected \(..., 17, 17\), which broadcasts"),
    (torch.ones(B, 5, S, S, dtype=torch.bool), {}, r"attn_mask is \(3, 5, 17, 17\), expected"),
    (torch.ones(2, B, 1, S, S, dtype=torch.bool), {}, r"attn_mask is \(2, 3, 1, 17, 17\), expected"),
    (torch.ones(S, dtype=torch.bool), {}, "attn_mask is .*, expected"),
    (torch.ones(2, 1, S, S, dtype=torch.bool), {}, r"attn_mask is \(2, 1, 17, 17\), expected"),
    (CAUSAL, {"is_causal": True}, "attn_mask and is_causal are given, expected one of them"),
    (CAUSAL, {"documents": [0, S]}, "attn_mask and documents are given, expected one of them"),
    ([[True]], {}, "attn_mask is a list, expected a tensor of PyTorch"),
])
def test_others_are_refused_by_name(mask, words, message):
    with pytest.raises(annulus.AnnulusError, match=message):
        scaled_dot_product_attention(*tensors(), attn_mask=mask, enable_gqa=True, **words)
