"""annulus.capture writes what the attention of PyTorch models reads, and the program computes the same from it."""
import h5py
import numpy as np
import pytest
import torch
import transformers
from conftest import program
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import scaled_dot_product_attention  # bound at import, as many models do

import annulus
from annulus.errors import AnnulusError

ROWS, WIDTH, HEADS = 24, 32, 4


class Attention(nn.Module):
    """Calls scaled_dot_product_attention in the ways of models: F.name, an imported name, torch.nn.functional.name."""

    def __init__(self, spelling, causal=True, **options):
        super().__init__()
        self.qkv, self.spelling, self.causal, self.options = nn.Linear(WIDTH, 3 * WIDTH), spelling, causal, options

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        call = {"F": F.scaled_dot_product_attention, "import": scaled_dot_product_attention,
                "torch": torch.nn.functional.scaled_dot_product_attention}[self.spelling]
        self.last = q, k, v
        out = call(q, k, v, is_causal=self.causal, **self.options)
        return out.transpose(1, 2).flatten(2)


class Model(nn.Module):
    def __init__(self, *spellings, **options):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(WIDTH), Attention(s, **options)) for s in spellings)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def batch(*shape):
    return torch.randn(*(shape or (2, ROWS, WIDTH)))


def held(path, *names):
    with h5py.File(path) as file:
        return [torch.from_numpy(file[name][...]) for name in names]


def test_every_spelling_layer_by_layer(tmp_path):
    model, x = Model("F", "import", "torch"), batch()
    expected = model(x)
    with annulus.capture(model, tmp_path / "all.h5") as captured:
        got = model(x)
        model(x + 1)  # only the first forward pass is captured
    assert torch.equal(got, expected)
    assert [(layer.number, layer.module, layer.mask) for layer in captured.layers] == \
        [(i, f"blocks.{i}.1", "causal") for i in range(3)]
    model(x)
    for i, block in enumerate(model.blocks):
        for found, tensor in zip(held(tmp_path / "all.h5", *(f"layer_{i:03d}/{n}" for n in "qkv")), block[1].last):
            assert torch.equal(found, tensor)
    for number, chosen in ((1, 1), (2, -1), (0, "blocks.0"), (2, "blocks.2.1")):
        with annulus.capture(model, tmp_path / "one.h5", layer=chosen, overwrite=True):
            model(x)
        for found, tensor in zip(held(tmp_path / "one.h5", *"qkv"), model.blocks[number][1].last):
            assert torch.equal(found, tensor)
    with annulus.capture(model, tmp_path / "two.h5", layer=["blocks.0", -1]):
        model(x)
    with h5py.File(tmp_path / "two.h5") as file:
        assert sorted(file) == ["layer_000", "layer_002"]


def test_the_program_computes_what_the_model_did(tmp_path):
    """From a model to a result: out and the gradients (dout is captured, too) equal PyTorch's."""
    model, x = Model("F", "import").double(), batch().double()
    with annulus.capture(model, tmp_path / "tokens.h5", layer=-1, dout=True) as captured:
        (model(x) ** 2).sum().backward()
    (tmp_path / "run.yaml").write_text(captured.run_file("tokens.h5", "result.h5"))
    program("run", "run.yaml", folder=tmp_path, ranks=2)
    q, k, v, dout = (t.requires_grad_() for t in held(tmp_path / "tokens.h5", "q", "k", "v", "dout"))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    out.backward(dout)
    for name, expected in (("out", out), ("dq", q.grad), ("dk", k.grad), ("dv", v.grad)):
        found, = held(tmp_path / "result.h5", name)
        torch.testing.assert_close(found, expected.detach(), atol=1e-12, rtol=1e-12)
    assert annulus.open_result(tmp_path / "result.h5").out.dims == ("batch", "head", "sequence", "dim")


def test_dout_is_the_gradient_of_the_output(tmp_path):
    class Weighted(nn.Module):
        def forward(self, q):
            self.out = scaled_dot_product_attention(q, q, q)
            self.out.retain_grad()
            return (self.out ** 3).sum()

    model, q = Weighted(), batch(2, HEADS, ROWS, 8).requires_grad_()
    with annulus.capture(model, tmp_path / "t.h5", layer=0, dout=True):
        model(q).backward()
    assert torch.equal(held(tmp_path / "t.h5", "dout")[0], model.out.grad)


class Two(nn.Module):
    """Two attentions, of which the first has a scale; returns both outputs."""

    def forward(self, q):
        return scaled_dot_product_attention(q, q, q, scale=0.5), scaled_dot_product_attention(q, q, q)


def test_dout_of_the_last_layer_is_not_that_of_another(tmp_path):
    """The loss uses only the first layer, so no gradient arrives at the last one."""
    model, q = Two(), batch(1, HEADS, ROWS, 8).requires_grad_()
    with pytest.raises(AnnulusError, match="no gradient arrived"):
        with annulus.capture(model, tmp_path / "t.h5", layer=-1, dout=True):
            model(q)[0].sum().backward()


def test_a_scale_is_not_that_of_another_layer(tmp_path):
    model = Two()
    with annulus.capture(model, tmp_path / "t.h5", layer=-1):
        model(batch(1, HEADS, ROWS, 8))
    with h5py.File(tmp_path / "t.h5") as file:
        assert "scale" not in file.attrs


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_multi_head_attention(tmp_path, weights, training):
    """Captures the module also in eval mode, where PyTorch would take its fast path, and if weights are asked for."""
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).train(training)
    x = batch()
    with torch.no_grad():
        expected = module(x, x, x, need_weights=weights)
        with annulus.capture(module, tmp_path / "t.h5", layer=0) as captured:
            got = module(x, x, x, need_weights=weights)
    torch.testing.assert_close(got[0], expected[0])
    assert (got[1] is None) == (not weights)
    if weights:
        torch.testing.assert_close(got[1], expected[1])
    q, k, v = held(tmp_path / "t.h5", *"qkv")
    flat = torch.nn.functional.linear(x, module.in_proj_weight, module.in_proj_bias)
    for found, part in zip((q, k, v), flat.chunk(3, dim=-1)):
        torch.testing.assert_close(found, part.unflatten(-1, (HEADS, -1)).transpose(1, 2))
    assert captured.layers[0].mask == "dense"
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("causal", [True, False])
def test_transformer_encoder(tmp_path, causal):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval()
    mask = nn.Transformer.generate_square_subsequent_mask(ROWS) if causal else None
    with torch.no_grad(), annulus.capture(model, tmp_path / "t.h5", layer="layers.1") as captured:
        model(batch(), mask=mask, is_causal=causal)
    assert captured.layers[0].module == "layers.1.self_attn" and captured.layers[0].number == 1
    assert captured.layers[0].mask == ("causal" if causal else "dense")
    assert f"causal: {str(causal).lower()}" in captured.run_file("a", "b")


def test_no_run_file_of_a_mask_that_has_no_words(tmp_path):
    """Layers with padding or a bias are captured, but run_file() refuses their masks. A window has a run file."""
    class Masked(nn.Module):
        def __init__(self, *masks):
            super().__init__()
            self.masks = masks

        def forward(self, q):
            for mask in self.masks:
                scaled_dot_product_attention(q, q, q, attn_mask=mask)

    lower = torch.ones(ROWS, ROWS, dtype=torch.bool).tril()
    window, padding = lower & ~lower.tril(-4), torch.ones(2, 1, 1, ROWS, dtype=torch.bool)
    padding[1, ..., ROWS // 2:] = False
    model = Masked(lower, padding & lower, padding, torch.arange(float(ROWS))[None], None, window, window | window.T)
    with annulus.capture(model, tmp_path / "t.h5") as captured:
        model(batch(2, HEADS, ROWS, 8))
    assert [layer.mask for layer in captured.layers] == [
        "causal", "other", "other", "other", "dense", "window [3, 0]", "window [3, 3]"]
    for number in (1, 2, 3, -4):
        with pytest.raises(AnnulusError, match=rf"^layer {number % 7} \(the model itself\): its mask hides keys, or"):
            captured.run_file("t.h5", "r.h5", layer=number)
    for number, causal in ((0, "true"), (4, "false"), (-1, "false"), (5, "true")):
        assert f"causal: {causal}\n" in captured.run_file("t.h5", "r.h5", layer=number)
    for number, limits in ((5, "3, 0"), (6, "3, 3")):
        assert f"segments: [{{window: [{limits}]}}]\n  dilations: [1]\n" in captured.run_file("t.h5", "r.h5", layer=number)
    with pytest.raises(AnnulusError, match=r"its mask is a window \[3, 0\]; expected no segments and dilations"):
        captured.run_file("t.h5", "r.h5", layer=5, segments=[4], dilations=[1])
    for number in (7, -8):
        with pytest.raises(AnnulusError, match=f"^layer is {number}, expected one of the 7 captured"):
            captured.run_file("t.h5", "r.h5", layer=number)


def test_masks():
    from annulus.capturing.masks import meaning
    lower = torch.ones(5, 5, dtype=torch.bool).tril()
    added = torch.zeros(5, 5).masked_fill(~lower, -torch.inf)
    least = torch.zeros(2, 1, 5, 5).masked_fill(~lower, torch.finfo(torch.float32).min)
    padding = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    assert [meaning(5, mask, False) for mask in (None, lower, added, least, padding)] == \
        ["dense", "causal", "causal", "causal", "dense"]
    hidden = padding.clone()
    hidden[1, ..., 4] = False
    band = lower & ~lower.tril(-3)
    biased = added + torch.arange(5.0)
    holes = band.clone()
    holes[3, 2] = False
    assert {meaning(5, mask, False) for mask in (hidden, biased, holes, ~lower, lower & hidden)} == {"other"}
    assert [meaning(5, mask, False) for mask in (band, band | band.T, lower.T, torch.eye(5) > 0)] == \
        ["window [2, 0]", "window [2, 2]", "window [0, 4]", "window [0, 0]"]
    assert meaning(5, None, True) == "causal"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_types_and_grouped_heads(tmp_path, dtype):
    class Grouped(nn.Module):
        def forward(self, q, k):
            return scaled_dot_product_attention(q, k, k, enable_gqa=True, scale=0.25)

    q, k = batch(1, 4, ROWS, 8).to(dtype), batch(1, 2, ROWS, 8).to(dtype)
    model = Grouped()
    with annulus.capture(model, tmp_path / "t.h5", layer=0) as captured:
        model(q, k)
    assert "scale: 0.25" in captured.run_file("t.h5", "r.h5")
    assert "output:\n  file: ./none\n" in captured.run_file("t.h5", "none"), "none would be no file"
    written = captured.run_file("exp #3/t.h5", "run: 2.h5")
    assert '  file: "exp #3/t.h5"\n' in written and '  file: "run: 2.h5"\n' in written
    tokens = annulus.open_input(tmp_path / "t.h5")
    np.testing.assert_array_equal(tokens.q.values, q.to(torch.float32 if dtype == torch.bfloat16 else dtype).numpy())
    assert tokens.k.shape == (1, 2, ROWS, 8)


class Capped(nn.Module):
    """Scores with a cap, as Gemma 2 computes them."""

    def __init__(self, cap, mask=None, scale=0.5):
        super().__init__()
        self.cap, self.mask, self.scale = cap, mask, scale

    def forward(self, q, k, v):
        scores = torch.matmul(q, k.transpose(2, 3)) * self.scale
        scores = torch.tanh(scores / self.cap) * self.cap
        if self.mask is not None:
            scores = scores + self.mask
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        return torch.matmul(F.dropout(weights, p=0.0, training=self.training), v)


def test_scores_that_are_changed_in_place_are_refused(tmp_path):
    class Changed(nn.Module):
        def forward(self, q):
            scores = torch.tanh(torch.matmul(q, q.transpose(2, 3)) / 2.5) * 2.5
            scores[:, :, torch.ones(ROWS, ROWS, dtype=torch.bool).triu(1)] = -torch.inf
            return torch.matmul(F.softmax(scores, dim=-1), q)

    model = Changed()
    with pytest.raises(AnnulusError, match="its scores have a cap and go through __setitem__"):
        with annulus.capture(model, tmp_path / "t.h5", layer=0):
            model(batch(1, HEADS, ROWS, 8))


@pytest.mark.parametrize("window", [None, 5])
def test_scores_with_a_cap(tmp_path, window):
    """From the captured tensors the program computes the output of the model, and its gradients."""
    mask = torch.ones(ROWS, ROWS, dtype=torch.bool).tril().triu(-ROWS if window is None else 1 - window)
    model = Capped(2.5, torch.zeros(ROWS, ROWS, dtype=torch.float64).masked_fill(~mask, torch.finfo(torch.float64).min))
    q, k, v = ((3 * batch(2, HEADS, ROWS, 8).double()).requires_grad_() for _ in range(3))
    with annulus.capture(model, tmp_path / "t.h5", layer=0, dout=True) as captured:
        out = model(q, k, v)
        (out ** 2).sum().backward()
    layer, = captured.layers
    assert (layer.softcap, layer.scale) == (2.5, pytest.approx(0.5, rel=1e-15))
    assert str(layer).endswith(", softcap 2.5") and layer.mask == ("causal" if window is None else "window [4, 0]")
    for found, tensor in zip(held(tmp_path / "t.h5", *"qkv"), (q, k, v)):
        assert torch.equal(found, tensor.detach())
    (tmp_path / "run.yaml").write_text(captured.run_file("t.h5", "r.h5"))
    program("run", "run.yaml", folder=tmp_path)
    out_of_program, *gradients = held(tmp_path / "r.h5", "out", "dq", "dk", "dv")
    assert (out_of_program - out.detach()).abs().max() < 1e-6, "the model's softmax is of float32"
    for found, tensor in zip(gradients, (q, k, v)):
        assert (found - tensor.grad).abs().max() < 1e-5 * tensor.grad.abs().max()


def test_gemma(tmp_path):
    config = transformers.Gemma2Config(vocab_size=50, hidden_size=32, intermediate_size=64, num_hidden_layers=2, head_dim=8,
                                       num_attention_heads=4, num_key_value_heads=2, sliding_window=6,
                                       attn_logit_softcapping=3.0, query_pre_attn_scalar=16)
    model = transformers.Gemma2Model._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad(), annulus.capture(model, tmp_path / "t.h5") as captured:
        model(torch.arange(20)[None])
    assert [(layer.module, layer.softcap, layer.scale) for layer in captured.layers] == [
        (f"layers.{i}.self_attn", pytest.approx(3), pytest.approx(0.25)) for i in range(2)]
    assert sorted(layer.mask for layer in captured.layers) == ["causal", "window [5, 0]"]
    assert "softcap: 3.0" in captured.run_file("t.h5", "r.h5", layer=1)


@pytest.mark.parametrize("rows, keys, mask, causal, offset", [
    (5, 9, None, False, "none"), (12, 9, None, False, "none"), (5, 9, None, True, 0),
    (5, 9, torch.ones(5, 9, dtype=torch.bool).tril(4), False, 4), (5, 9, torch.ones(5, 9, dtype=torch.bool).tril(2), False, 2)])
def test_queries_of_another_number(tmp_path, rows, keys, mask, causal, offset):
    class Cross(nn.Module):
        def forward(self, q, k, v):
            return scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)

    model = Cross()
    q, k, v = (batch(2, HEADS, n, 8).double().requires_grad_() for n in (rows, keys, keys))
    with annulus.capture(model, tmp_path / "t.h5", layer=0, dout=True) as captured:
        out = model(q, k, v)
        (out ** 2).sum().backward()
    text = captured.run_file("t.h5", "r.h5")
    assert f"  query_offset: {offset}\n" in text
    (tmp_path / "run.yaml").write_text(text)
    program("run", "run.yaml", folder=tmp_path, ranks=2)
    for name, expected in (("out", out.detach()), ("dq", q.grad), ("dk", k.grad), ("dv", v.grad)):
        found, = held(tmp_path / "r.h5", name)
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)


def test_where_queries_of_another_number_begin():
    from annulus.capturing.masks import placed
    band = torch.ones(4, 9, dtype=torch.bool).tril(5)
    assert [placed(4, 9, mask, False) for mask in (None, band, band | True, torch.zeros(4, 9))] == \
        [("dense", "none"), ("causal", 5), ("dense", "none"), ("dense", "none")]
    for mask in (band.triu(1), band.tril(6).roll(1, 0), torch.ones(4, 9, dtype=torch.bool).tril(6), band[:1], torch.randn(4, 9)):
        assert placed(4, 9, mask, False)[0] == "other", "a window, rows in another order, past the end, hidden keys, numbers"
    assert [placed(9, 4, None, True)[0], placed(4, 9, band, True)[0], placed(9, 9, None, True)] == \
        ["other", "other", ("causal", None)]


def test_what_cannot_be_captured(tmp_path):
    model, x = Model("F", "F"), batch()

    def attempt(expected, model, call, **options):
        with pytest.raises(AnnulusError, match=expected) as refusal:
            with annulus.capture(model, tmp_path / "t.h5", **options):
                call()
        assert "\n" not in str(refusal.value)
        assert list(tmp_path.iterdir()) == []

    attempt("called no scaled_dot_product_attention", model, lambda: None)
    attempt("called no scaled_dot_product_attention", nn.Linear(4, 4), lambda: F.scaled_dot_product_attention(x, x, x))
    attempt("no attention 7; the pass had 2: 0 blocks.0.1, 1 blocks.1.1", model, lambda: model(x), layer=7)
    attempt("layer is -2, expected a number from 0 on, -1 for the last, or a list", model, lambda: model(x), layer=-2)
    attempt("no attention 'decoder'", model, lambda: model(x), layer="decoder")
    attempt("blocks calls attention more than once; expected the number of one: 0 or 1", model, lambda: model(x),
            layer="blocks")
    attempt("no gradient arrived", model, lambda: model(x), layer=0, dout=True)
    with torch.no_grad():
        attempt("needs no gradient", model, lambda: model(x), layer=0, dout=True)

    class Changed(nn.Module):
        def forward(self, q):
            scores = torch.tanh(q @ q.mT / 8) * 8
            return torch.softmax(scores.clamp(-7, 7), dim=-1) @ q

    changed = Changed()
    attempt("the model itself.: its scores have a cap and go through clamp; expected factors, tanh, a mask", changed,
            lambda: changed(batch(1, 2, 5, 4)), layer=0)
    with pytest.raises(AnnulusError, match="the name ends in .npz; expected one of .h5 .hdf5 .nc"):
        with annulus.capture(model, tmp_path / "t.npz"):
            model(x)
    with pytest.raises(ZeroDivisionError):
        with annulus.capture(model, tmp_path / "t.h5"):
            model(x)
            1 / 0
    with pytest.raises(FileNotFoundError, match="No such file or directory: 'weights.pt'"):
        with annulus.capture(model, tmp_path / "t.h5"):
            open("weights.pt")
    assert list(tmp_path.iterdir()) == []
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
