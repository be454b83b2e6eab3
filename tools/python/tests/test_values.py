"""Values of another head size than keys: annulus.attention, gradients, PyTorch's operators and their fake kernels."""
import numpy as np
import pytest
import torch
from conftest import program
from definition import composed, often, pattern_of

import annulus
from annulus.torch import dilated_attention, scaled_dot_product_attention

PAIRS = {"segments": (6, "all"), "dilations": (1, 2)}


def tensors(dim, value_dim, rows=12, heads=4, kv_heads=2, batch=2):
    """q and k (B, S, heads, dim), v (B, S, Hkv, value_dim)."""
    generator = torch.Generator().manual_seed(dim)
    return [torch.randn(batch, rows, h, d, generator=generator, dtype=torch.float64, requires_grad=True)
            for h, d in ((heads, dim), (kv_heads, dim), (kv_heads, value_dim))]


@pytest.mark.parametrize("dim, value_dim", [(5, 2), (2, 5), (3, 1)])
@pytest.mark.parametrize("causal", [False, True])
def test_gradcheck(dim, value_dim, causal):
    def both(q, k, v):
        out, lse = dilated_attention(q, k, v, causal=causal, return_lse=True, **PAIRS)
        return out, torch.where(torch.isinf(lse), 0, lse)
    assert torch.autograd.gradcheck(both, tensors(dim, value_dim))
    assert torch.autograd.gradcheck(lambda q, k, v: dilated_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), causal=causal, axes="bhsd", **PAIRS), tensors(dim, value_dim))


@pytest.mark.parametrize("dim, value_dim", [(24, 7), (7, 24)])
def test_they_are_the_definition(dim, value_dim):
    q, k, v = tensors(dim, value_dim)
    counts = often(12, 4, pattern_of((6, "all"), (1, 2), True))
    expected = composed(q, k, v, counts)
    found = dilated_attention(q, k, v, causal=True, return_lse=True, **PAIRS)
    assert found[0].shape == (2, 12, 4, value_dim)
    for mine, theirs in zip(found, expected):
        assert (mine - theirs).abs().max() <= 1e-12
    plain = annulus.attention(*(tensor.detach().numpy() for tensor in (q, k, v)), causal=True, **PAIRS)
    assert np.abs(plain[0] - expected[0].detach().numpy()).max() <= 1e-12


@pytest.mark.parametrize("kind", ["float64", "float32", "bfloat16"])
def test_they_may_be_columns_of_keys(kind):
    """Latent attention: v is a view of k, and the results have the same bits as with a separate v."""
    q, k, _ = (tensor.detach().to(getattr(torch, kind)) for tensor in tensors(72, 64, kv_heads=1))
    v = k[..., :64]
    assert v.data_ptr() == k.data_ptr()
    assert torch.equal(dilated_attention(q, k, v, causal=True), dilated_attention(q, k, v.contiguous(), causal=True))


@pytest.mark.parametrize("value_dim", [2, 9])
def test_in_place_of_pytorchs_function(value_dim):
    q, k, v = (tensor.transpose(1, 2) for tensor in tensors(5, value_dim, kv_heads=4))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert (scaled_dot_product_attention(q, k, v, is_causal=True) - expected).abs().max() <= 1e-12


@pytest.mark.parametrize("axes", ["bshd", "bhsd"])
def test_shapes_without_numbers(axes):
    q, k, v = (tensor.transpose(1, 2) if axes == "bhsd" else tensor for tensor in tensors(5, 3))
    meta = [tensor.detach().to("meta").requires_grad_() for tensor in (q, k, v)]
    out = dilated_attention(*meta, axes=axes, **PAIRS)
    assert out.shape == dilated_attention(q, k, v, axes=axes, **PAIRS).shape
    made = torch.autograd.grad(out.sum(), meta)
    assert [tensor.shape for tensor in made] == [tensor.shape for tensor in (q, k, v)]


def test_entries_with_keys_of_their_own():
    q, k, v = (tensor.detach() for tensor in tensors(5, 3))
    out = dilated_attention(q, k, v, lengths=[4, 12], query_offset="none")
    alone = dilated_attention(q[:1], k[:1, :4], v[:1, :4], query_offset="none")
    assert torch.equal(out[:1], alone)


def test_mistakes():
    q, k, v = (tensor.detach().numpy() for tensor in tensors(5, 3))
    with pytest.raises(annulus.AnnulusError, match=r"^k is \(2, 12, 2, 3\) for q \(2, 12, 4, 5\)"):
        annulus.attention(q, v, v)
    with pytest.raises(annulus.AnnulusError, match="value_dim is 577, expected 576 or less"):
        annulus.attention(q, k, np.zeros((2, 12, 2, 577)))


def test_a_plan_counts_their_bytes():
    thin, thick = (annulus.plan(64, 4, 16, ranks=2, strategy="ring", value_dim=dim) for dim in (8, 16))
    assert thin.received(1) * 32 == thick.received(1) * 24


@pytest.mark.parametrize("dim, value_dim", [(4, 64), (8, 3)])
@pytest.mark.parametrize("axes", ["bshd", "bhsd"])
def test_the_definition_has_their_size(dim, value_dim, axes):
    q, k, v = (tensor.detach().numpy().swapaxes(1, 2) if axes == "bhsd" else tensor.detach().numpy()
               for tensor in tensors(dim, value_dim, rows=40))
    out, lse = annulus.attention(q, k, v, axes=axes, causal=True)
    assert annulus.reference(q, k, v, rows=[3, 39], axes=axes, causal=True)[0].shape == (
        (2, 4, 2, value_dim) if axes == "bhsd" else (2, 2, 4, value_dim))
    assert annulus.verify(q, k, v, out, lse, axes=axes, causal=True)
    assert not annulus.verify(q, k, v, out + 1e-6, lse, axes=axes, causal=True)


@pytest.mark.parametrize("backward", [False, True])
def test_a_result_opens(tmp_path, backward):
    (tmp_path / "run.yaml").write_text(f"""
        input: {{generate: {{sequence: 64, heads: 2, head_dim: 8, value_dim: 5}}}}
        attention: {{segments: [all], dilations: [1], causal: false}}
        compute: {{backward: {str(backward).lower()}}}
        output: {{file: out.h5}}""")
    program("run", "run.yaml", folder=tmp_path)
    result = annulus.open_result(tmp_path / "out.h5")
    assert result.out.shape == (1, 64, 2, 5) and result.out.dims[-1] == "value_dim"
    row = annulus.cases([tmp_path / "out.h5"]).iloc[0]
    products, seconds = 8 + 5, float(result.kernel_cpu_seconds.sum())  # out = (q k) v
    if backward:  # q k again, dq and dk from keys' size; dv and dp from values' size
        products, seconds = products + 3 * 8 + 2 * 5, seconds + float(result.backward_kernel_cpu_seconds.sum())
    assert row["gflop_per_cpu_second"] == pytest.approx(1e-9 * 2 * products * 2 * 64 * 64 / seconds)
