"""PyTorch's compile, export, vmap, autocast and others, each with annulus' attention and with PyTorch's. Outputs and
gradients are compared. A mistake gives an error of one line."""
import copy
import json

import pytest
import torch
from definition import composed, often, pattern_of
from torch.utils.checkpoint import checkpoint

import annulus
from annulus.torch import dilated_attention, scaled_dot_product_attention

CAUSAL = {"is_causal": True}
SHAPE = (2, 4, 24, 8)  # (B, H, S, D)


def theirs(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, **CAUSAL)


def ours(q, k, v):
    return scaled_dot_product_attention(q, k, v, **CAUSAL)


def tensors(shape=SHAPE, kind=torch.float64, grad=False):
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64).to(kind).requires_grad_(grad) for _ in "qkv"]


def close(found, expected, tolerance=1e-10):
    found, expected = (x if isinstance(x, (list, tuple)) else [x] for x in (found, expected))
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert (one - other).abs().max() <= tolerance * max(1, other.abs().max()), (one - other).abs().max()


class Layer(torch.nn.Module):
    """x (B, S, E) -> (B, S, E), with an attention of (B, H, S, D) tensors."""

    def __init__(self, attention, kind=torch.float64):
        super().__init__()
        torch.manual_seed(1)
        self.qkv, self.out = (torch.nn.Linear(32, width, dtype=kind) for width in (96, 32))
        self.attention = attention

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        return self.out(self.attention(q, k, v).transpose(1, 2).flatten(2))


def trained(layer, x, run=None):
    """Output, and gradients of the weights and of x, after `run` in place of the layer."""
    x = x.clone().requires_grad_()
    layer.zero_grad()
    out = layer(x) if run is None else run(x)
    out.square().sum().backward()
    return [out.detach(), x.grad, *(weight.grad for weight in layer.parameters())]


X = torch.randn(2, 24, 32, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
EXPECTED = trained(Layer(theirs), X)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_as_one_graph(backend, dynamic):
    torch.compiler.reset()
    layer = Layer(ours)
    compiled = torch.compile(layer, fullgraph=True, backend=backend, dynamic=dynamic)
    close(trained(layer, X, compiled), EXPECTED)
    fewer = X[:, :17]
    close(trained(layer, fewer, compiled), trained(Layer(theirs), fewer))
    with torch.no_grad():
        close(compiled(X), EXPECTED[0])


def test_compiled_with_every_argument():
    def attention(q, k, v):
        out, lse = dilated_attention(q, k, v, segments=[6, "all"], dilations=[1, 2], causal=True, documents=[0, 11, 24],
                                     semantics="paper", scale=0.3, axes="bhsd", return_lse=True, threads=1, precision="auto")
        return out * torch.sigmoid(lse)[..., None]
    torch.compiler.reset()
    close(trained(Layer(torch.compile(attention, fullgraph=True)), X), trained(Layer(attention), X))


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("words", [lambda rows: {"segments": [rows // 4, "all"], "dilations": [1, 2]},
                                   lambda rows: {"segments": [annulus.window(rows // 2)], "dilations": [1]},
                                   lambda rows: {"scale": rows**-0.5, "softcap": float(rows)}])
def test_compiled_with_settings_that_a_length_decides(words, dynamic):
    def attention(q):
        return dilated_attention(q, q, q, **words(q.shape[1]))
    torch.compiler.reset()
    compiled = torch.compile(attention, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (16, 24, 32):
        q = torch.randn(1, rows, 2, 4, dtype=torch.float64)
        assert (compiled(q) - attention(q)).abs().max() < 1e-12


@pytest.mark.parametrize("strict", [False, True])
def test_exported(strict, tmp_path):
    rows = torch.export.Dim("rows", min=2, max=64)
    layer = Layer(ours)
    program = torch.export.export(layer, (X,), dynamic_shapes={"x": {1: rows}}, strict=strict)
    assert any("annulus.attention" in str(node.target) for node in program.graph.nodes)
    torch.export.save(program, tmp_path / "layer.pt2")
    loaded = torch.export.load(tmp_path / "layer.pt2").module()
    for x in (X, X[:, :9]):
        close(loaded(x), Layer(theirs)(x))
    module = program.module()
    x = X.clone().requires_grad_()
    out = module(x)
    out.square().sum().backward()
    close([out.detach(), x.grad, *(dict(module.named_parameters())[name].grad for name, _ in layer.named_parameters())],
          EXPECTED)


def loss(attention):
    return lambda q, k, v: attention(q, k, v).square().sum()


def test_func_grad():
    found, expected = (torch.func.grad_and_value(loss(one), argnums=(0, 1, 2))(*tensors()) for one in (ours, theirs))
    close([*found[0], found[1]], [*expected[0], expected[1]])
    found, expected = (torch.func.vjp(one, *tensors()) for one in (ours, theirs))
    close([found[0], *found[1](tensors()[0])], [expected[0], *expected[1](tensors()[0])])


@pytest.mark.parametrize("in_dims", [(0, 0, 0), (1, 1, 1), (0, None, None), (None, 2, 0), (4, 0, None)])
def test_vmap(in_dims):
    def given():
        return [x if axis is None else torch.stack([x, 2 * x, -x], axis) for x, axis in zip(tensors(), in_dims)]
    for what in (lambda one: one, lambda one: torch.func.grad(loss(one), argnums=(0, 1, 2))):
        close(*(torch.vmap(what(one), in_dims)(*given()) for one in (ours, theirs)))
    close(*(torch.func.grad(lambda *x: torch.vmap(one, in_dims)(*x).square().sum(), argnums=(0, 1, 2))(*given())
            for one in (ours, theirs)))
    twice = [torch.stack([x, 3 * x]) for x in given()]
    inner = tuple(None if axis is None else axis for axis in in_dims)
    close(*(torch.vmap(torch.vmap(one, inner))(*twice) for one in (ours, theirs)))


@pytest.mark.parametrize("words", [{}, {"sink": torch.zeros(8)}, {"lengths": torch.tensor([3, 4])}])
def test_vmap_over_nothing_is_refused(words):
    with pytest.raises(annulus.AnnulusError, match="^the axis that torch.vmap maps has no entries, expected 1 or more"):
        torch.vmap(lambda q: dilated_attention(q, q, q, axes="bhsd", **words))(torch.ones(0, 2, 8, 24, 4))


def test_vmap_without_transforms_in_reverse():
    """autograd outside, vmap inside: the reverse of test_vmap()."""
    results = []
    for one in (ours, theirs):
        given = [torch.stack([x, 2 * x]).requires_grad_() for x in tensors()]
        out = torch.vmap(one)(*given)
        out.square().sum().backward()
        results.append([out.detach(), *(x.grad for x in given)])
    close(*results)


def test_sink_logits_and_windows():
    """Sink logits are a tensor with a gradient, windows a part of the settings. Both are arguments of one operator."""
    sink = torch.tensor([0.5, -1, 2, 0], dtype=torch.float64)
    words = {"is_causal": True, "segments": [annulus.window(5, first=2)], "dilations": [1]}

    def loss_of(sink, q, k, v):
        return scaled_dot_product_attention(q, k, v, sink=sink, **words).square().sum()
    batch = [torch.stack([x, 2 * x, -x]) for x in tensors()]
    gradient = torch.func.grad(loss_of, argnums=(0, 1, 2, 3))
    one_by_one = [gradient(sink, *(x[i] for x in batch)) for i in range(3)]
    expected = [torch.stack(some) for some in zip(*one_by_one)]
    close(torch.vmap(gradient, (None, 0, 0, 0))(sink, *batch), expected)
    close(torch.vmap(gradient)(torch.stack([sink] * 3), *batch), expected)
    given = [sink.clone().requires_grad_(), *(x.clone().requires_grad_() for x in tensors())]
    plain = torch.autograd.grad(loss_of(*given), given)
    close(torch.autograd.grad(torch.compile(loss_of, fullgraph=True)(*given), given), plain)
    close(plain, one_by_one[0])
    assert plain[0].abs().min() > 0, "the sink has a gradient"


def test_softcap_and_alibi():
    """A softcap and a bias are parts of the settings. Gradients are those of PyTorch's own operations."""
    q, k, v = (x.clone().requires_grad_() for x in tensors())
    # A list of numbers, because torch.compile cannot read the numbers of a tensor.
    places = torch.stack([torch.arange(q.shape[2]) % 3, torch.arange(q.shape[2]) // 3], 1).tolist()
    words = {"softcap": 1.5, "bias": {"alibi": "auto", "exempt": 1}, "coordinates": places}
    counts = often(q.shape[2], q.shape[1], pattern_of(["all"], [1], True))

    def run(q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=True, **words)
    expected = composed(*(x.transpose(1, 2) for x in (q, k, v)), counts, **words)[0].transpose(1, 2)
    upstream = torch.randn_like(expected)
    close(run(q, k, v), expected)
    close(torch.autograd.grad(run(q, k, v), (q, k, v), upstream), torch.autograd.grad(expected, (q, k, v), upstream))
    close(torch.compile(run, fullgraph=True, backend="aot_eager")(q, k, v), expected)


def test_jacrev():
    small = tensors((1, 2, 5, 3))
    close(*(torch.func.jacrev(one, argnums=(0, 1, 2))(*small) for one in (ours, theirs)))
    close(*(torch.func.jacrev(one, argnums=1, chunk_size=2)(*small) for one in (ours, theirs)))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed(reentrant):
    layer = Layer(ours)
    close(trained(layer, X, lambda x: checkpoint(layer, x, use_reentrant=reentrant)), EXPECTED)
    torch.compiler.reset()
    if not reentrant:
        run = torch.compile(lambda x: checkpoint(layer, x, use_reentrant=False), fullgraph=True, backend="aot_eager")
        close(trained(layer, X, run), EXPECTED)


def test_what_is_saved_is_tensors():
    """saved_tensors_hooks see all that is kept for the backward pass, and may store it elsewhere."""
    stored = []

    def store(tensor):
        stored.append(tensor.shape)
        return tensor.clone()
    q, k, v = tensors(grad=True)
    with torch.autograd.graph.saved_tensors_hooks(store, lambda tensor: tensor):
        out = ours(q, k, v)
    assert sorted(map(tuple, stored)) == sorted([(2, 24, 4, 2), *[SHAPE] * 4])
    out.square().sum().backward()
    other = tensors(grad=True)
    theirs(*other).square().sum().backward()
    close([x.grad for x in (q, k, v)], [x.grad for x in other])


def test_deepcopied():
    layer = Layer(ours)
    close(trained(copy.deepcopy(layer), X), EXPECTED)
    before = trained(layer, X)
    close(trained(copy.deepcopy(torch.compile(layer, backend="aot_eager")), X), before)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("given", [(torch.float32,) * 3, (torch.float32, torch.float32, "kind"), (torch.float64,) * 3])
@pytest.mark.parametrize("transform", [False, True])
def test_autocast(kind, given, transform):
    given = [kind if one == "kind" else one for one in given]
    results = []
    for one in (ours, theirs):
        q, k, v = (x.to(of) for x, of in zip(tensors(), given))
        if transform:
            with torch.autocast("cpu", kind):
                gradients, out = torch.func.grad_and_value(lambda *x: one(*x).double().square().sum(), (0, 1, 2))(q, k, v)
        else:
            q, k, v = (x.requires_grad_() for x in (q, k, v))
            with torch.autocast("cpu", kind):
                out = one(q, k, v)
                assert out.dtype == (torch.float64 if given[0] == torch.float64 else kind)
            out.double().square().sum().backward()
            gradients = [x.grad for x in (q, k, v)]
        results.append([out.detach(), *gradients])
    close(*results, tolerance=1e-10 if given[0] == torch.float64 else 3e-2 if kind == torch.bfloat16 else 4e-3)


def test_autocast_compiled():
    layer, expected = Layer(ours, torch.float32), Layer(theirs, torch.float32)
    torch.compiler.reset()
    with torch.autocast("cpu", torch.bfloat16):
        found = trained(layer, X.float(), torch.compile(layer, fullgraph=True))
        close(found, trained(expected, X.float()), tolerance=6e-2)


@pytest.mark.parametrize("axes", ["bshd", "bhsd"])
def test_tensors_without_numbers(axes):
    from torch._subclasses.fake_tensor import FakeTensorMode
    words = {"axes": axes, "return_lse": True}
    real = tensors(kind=torch.float32, grad=True)
    expected = dilated_attention(*real, **words)
    mode = FakeTensorMode()
    fakes = [mode.from_tensor(x.detach()).requires_grad_() for x in real]
    with mode:
        fake = dilated_attention(*fakes, **words)
        fake[0].sum().backward()
    metas = [x.detach().to("meta").requires_grad_() for x in real]
    meta = dilated_attention(*metas, **words)
    meta[0].sum().backward()
    for found in (fake, meta):
        for one, other in zip(found, expected):
            assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())
            assert one.requires_grad
    assert fake[0].device.type == "cpu" and meta[0].device.type == "meta"
    expected[0].sum().backward()
    for one, other in zip([*fakes, *metas], real * 2):
        assert (one.grad.shape, one.grad.stride()) == (other.grad.shape, other.grad.stride())
    with torch.device("meta"):
        assert Layer(ours)(torch.empty(2, 24, 32, dtype=torch.float64)).shape == (2, 24, 32)


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("settings", ["{}", '{"axes": "bhsd", "causal": true}', '{"precision": "float64"}',
                                      '{"precision": "float32"}'])
def test_the_operator_is_as_pytorch_wants_it(kind, settings):
    q, k, v = tensors((2, 6, 6, 4), kind, grad=True)
    for keep in (False, True):
        given = [x.detach().requires_grad_(keep) for x in (q, k, v)]
        tests = ["test_schema", "test_faketensor", "test_autograd_registration", "test_aot_dispatch_dynamic"]
        torch.library.opcheck(torch.ops.annulus.attention.default, (*given, settings, keep, None, None),
                                test_utils=tests)
    out, lse, normalizers = torch.ops.annulus.attention(*[x.detach() for x in (q, k, v)], settings, True, None, None)
    precision = json.loads(settings).get("precision", str(kind)[6:])
    assert normalizers.dtype == (torch.float64 if precision == "float64" else torch.float32)
    dlse = torch.ones_like(lse)
    torch.library.opcheck(torch.ops.annulus.attention_backward.default,
                          (normalizers, q.detach(), k.detach(), v.detach(), out, out, dlse, settings, None, None),
                          test_utils=["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"])


x = torch.ones(1, 4, 5, 8)


@pytest.mark.parametrize("words, message", [
    ({"q": x.to("meta")}, "k is on cpu, q on meta; expected one device"),
    ({"q": x.to_sparse()}, "q is torch.sparse_coo, expected q.to_dense()"),
    ({"k": torch.nested.nested_tensor([x[0], x[0]])}, "k is a nested tensor, expected one with all its entries of one shape"),
    ({"v": x.to(torch.complex64)}, "v has numbers of type complex64, expected float64, float32, float16, bfloat16"),
    ({"q": x.int()}, "q has numbers of type int32, expected float64, float32, float16, bfloat16"),
    ({"k": x.double()}, "k is float64, q is float32; expected the same"),
    ({"q": x[0]}, "q is (4, 5, 8), expected four axes, b, s, h, d"),
    ({"v": x[:, :3]}, "v is (1, 5, 3, 8) for q (1, 5, 4, 8) in the order (B, S, heads, D), expected (1, 5, 4, 8)"),
    ({"comm": "nowhere"}, "comm is 'nowhere', expected a name that annulus.torch.communicator_name() has given"),
    ({"lengths": torch.ones(1, dtype=torch.int64, device="meta")}, "lengths is on meta, q on cpu; expected one device"),
    (dict.fromkeys("qkv", x[:0]), "q has no batch entry, expected 1 or more"),
    (dict.fromkeys("kv", x[:, :0]), "k has no heads, expected 1 or more"),
    (dict.fromkeys("kv", x[:, :, :0]), "k has no rows, expected 1 or more"),
    ({"v": x[..., :0]}, "v has heads of no numbers, expected 1 or more"),
])
def test_mistakes_are_one_line(words, message):
    words = {"q": x, "k": x, "v": x} | words
    with pytest.raises(annulus.AnnulusError) as raised:
        dilated_attention(**words, axes="bshd" if words["q"].dim() == 3 else "bhsd")
    assert str(raised.value) == message


@pytest.mark.parametrize("shape, kind, message", [
    ((1, 4, 5, 8), torch.float64, "k is float64, q is float32; expected the same"),
    ((1, 4, 6, 8), torch.float32, "v is (1, 5, 4, 8) for q (1, 5, 4, 8) in the order (B, S, heads, D), expected (1, 6, 4, 8)"),
    ((4, 5, 8), torch.float32, "k is (4, 5, 8), expected four axes, b, h, s, d"),
    ((0, 4, 5, 8), torch.float32, "q has no batch entry, expected 1 or more"),
])
def test_mistakes_are_seen_without_numbers(shape, kind, message):
    meta = x.to("meta")[:shape[0]]
    with pytest.raises(annulus.AnnulusError) as raised:
        dilated_attention(meta, torch.empty(shape, dtype=kind, device="meta"), meta, axes="bhsd")
    assert str(raised.value) == message


def test_a_mask_on_another_device_is_refused():
    """A layer made with torch.device("meta") and filled by load_state_dict(assign=True) keeps such a mask."""
    mask = torch.ones(5, 5, dtype=torch.bool, device="meta").tril()
    with pytest.raises(annulus.AnnulusError, match="^attn_mask is on meta, q on cpu; expected one device$"):
        scaled_dot_product_attention(x, x, x, mask)


def test_the_default_device_changes_nothing():
    expected = dilated_attention(x, x, x, lengths=[3], axes="bhsd"), annulus.attention(x, x, x, axes="bhsd")[0]
    with torch.device("meta"):
        found = dilated_attention(x, x, x, lengths=[3], axes="bhsd"), annulus.attention(x, x, x, axes="bhsd")[0]
    assert all(map(torch.equal, found, expected))


def test_other_devices_are_refused():
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode(), pytest.raises(annulus.AnnulusError, match="^q is on cuda:0; this build of annulus computes on the "
                                                                     "CPU, expected q.cpu\\(\\)$"):
        ours(*[torch.empty(SHAPE, device="cuda:0")] * 3)


def test_second_derivatives_and_tangents_are_refused():
    twice = "^gradients of gradients are asked for .* expected first derivatives alone$"
    q, k, v = tensors(grad=True)
    gradient, = torch.autograd.grad(loss(ours)(q, k, v), q, create_graph=True)
    with pytest.raises(annulus.AnnulusError, match=twice):
        gradient.sum().backward()
    with pytest.raises(annulus.AnnulusError, match=twice):
        torch.func.grad(lambda q: torch.func.grad(loss(ours))(q, k, v).sum())(q)
    with pytest.raises(annulus.AnnulusError, match=twice):
        torch.func.hessian(lambda q: loss(ours)(q, k, v))(q)
    with pytest.raises(annulus.AnnulusError, match="^q has a tangent of forward-mode differentiation"):
        torch.func.jvp(lambda q: ours(q, k, v), (q,), (q,))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(annulus.AnnulusError, match="^v has a tangent"):
        ours(q.detach(), k.detach(), torch.autograd.forward_ad.make_dual(v.detach(), q.detach()))
