"""annulus.torch: gradients, calls in place of PyTorch's, models, two OpenMP runtimes in one process."""
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from definition import composed, often, pattern_of

import annulus
from annulus.torch import dilated_attention, scaled_dot_product_attention

PAIRS = {"segments": (6, "all"), "dilations": (1, 2)}


def tensors(kind=torch.float64, rows=12, heads=4, kv_heads=2, dim=3, grad=True):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(2, rows, h, dim, generator=generator, dtype=torch.float64).to(kind).requires_grad_(grad)
            for h in (heads, kv_heads, kv_heads)]


@pytest.mark.parametrize("semantics", ["longnet", "paper", "grouped", "torchscale"])
@pytest.mark.parametrize("causal", [False, True])
def test_gradcheck(semantics, causal):
    def both(q, k, v):
        out, lse = dilated_attention(q, k, v, causal=causal, semantics=semantics, return_lse=True, **PAIRS)
        return out, torch.where(torch.isinf(lse), 0, lse)  # for rows without keys, -inf has no difference quotient
    assert torch.autograd.gradcheck(both, tensors())
    assert torch.autograd.gradcheck(lambda q, k, v: dilated_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), causal=causal, semantics=semantics, axes="bhsd",
        documents=[0, 5, 12] if semantics != "torchscale" else None, **PAIRS), tensors())


@pytest.mark.parametrize("semantics", ["longnet", "grouped", "torchscale"])
@pytest.mark.parametrize("causal", [False, True])
def test_gradcheck_of_sink_logits(semantics, causal):
    def both(q, k, v, sink):
        out, lse = dilated_attention(q, k, v, sink=sink, causal=causal, semantics=semantics, return_lse=True, **PAIRS)
        return out, torch.where(torch.isinf(lse), 0, lse)
    sink = torch.tensor([0.5, -1, 2, 0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(both, (*tensors(), sink))
    fixed = tensors(grad=False)
    assert torch.autograd.gradcheck(lambda sink: dilated_attention(*fixed, sink=sink, **PAIRS), sink)


def test_torch_and_annulus_share_a_process():
    """Both use Intel's matrix units for bfloat16 where they exist: in turns in one thread, then in two threads at once."""
    given = [torch.randn(1, 4, 192, 64, generator=torch.Generator().manual_seed(seed)).bfloat16().requires_grad_()
             for seed in range(3)]

    def compute(attend):
        product = given[0].detach()[0, 0] @ given[1].detach()[0, 0].T
        out = attend(*given, is_causal=True)
        return [product, out.detach(), *torch.autograd.grad(out.float().square().sum(), given)]

    ours, theirs = scaled_dot_product_attention, torch.nn.functional.scaled_dot_product_attention
    expected = {attend: compute(attend) for attend in (ours, theirs)}

    def check(attend):
        for _ in range(5):
            for i, (x, y) in enumerate(zip(compute(attend), expected[attend])):
                limit = 0 if attend is ours and i > 0 else 2e-2  # PyTorch promises no bits, annulus does
                torch.testing.assert_close(x, y, rtol=limit, atol=limit)

    for attend in (ours, theirs, ours):
        check(attend)
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(check, attend) for attend in (ours, theirs)]:
            done.result()


@pytest.mark.parametrize("kind,limit", [(torch.float64, 1e-11), (torch.float32, 3e-5), (torch.bfloat16, 2e-2)])
def test_many_short_entries(kind, limit):
    """One rank works on blocks of entries. 50 entries of 64 rows need 15 MB for gradients: more than one block."""
    whole = [torch.randn(50, 4, 64, 64, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(kind)
             for seed in range(4)]
    *given, weight = [x.requires_grad_() for x in whole[:3]] + whole[3:]
    given[1:] = [x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in given[1:]]
    exact = [x.detach().double().requires_grad_() for x in given]
    (scaled_dot_product_attention(*given, is_causal=True) * weight).sum().backward()
    (torch.nn.functional.scaled_dot_product_attention(*exact, is_causal=True) * weight.double()).sum().backward()
    for x, y in zip(given, exact):
        assert (x.grad.double() - y.grad).abs().max() <= limit * max(1, y.grad.abs().max())


def test_sink_logits_in_other_types():
    q, k, v = tensors(torch.float32)
    counts = often(12, 4, pattern_of(*PAIRS.values(), True))
    sink = torch.tensor([0.5, -1, 2, 0], dtype=torch.bfloat16, requires_grad=True)
    weight = torch.linspace(-1, 1, q.numel()).reshape(q.shape)
    (dilated_attention(q, k, v, sink=sink, causal=True, **PAIRS) * weight).sum().backward()
    exact = [x.detach().double().requires_grad_() for x in (q, k, v, sink)]
    (composed(*exact[:3], counts, sink=exact[3])[0] * weight.double()).sum().backward()
    assert sink.grad.dtype == torch.bfloat16 and (sink.grad.double() - exact[3].grad).abs().max() <= 2e-2
    assert (q.grad.double() - exact[0].grad).abs().max() <= 3e-5
    out = scaled_dot_product_attention(*[x.transpose(1, 2) for x in (q, k, v)], enable_gqa=True, sink=sink)
    assert torch.allclose(out.transpose(1, 2), dilated_attention(q, k, v, sink=sink))


@pytest.mark.parametrize("causal", [False, True])
def test_gradcheck_of_windows(causal):
    segments = [annulus.window([2, 1], first=2), {"window": [1, 3]}]
    def both(q, k, v):
        return dilated_attention(q, k, v, segments=segments, dilations=[1, 3], causal=causal, return_lse=True)
    assert torch.autograd.gradcheck(both, tensors())
    q, k, v = tensors()
    counts = often(12, 4, pattern_of(segments, (1, 3), causal))
    expected = composed(q, k, v, counts)
    for found, right in zip(both(q, k, v), expected):
        assert (found - right).abs().max() < 1e-12


@pytest.mark.parametrize("kind, tolerance", [(torch.float32, 3e-5), (torch.float16, 5e-3), (torch.bfloat16, 4e-2)])
def test_gradients_in_other_types(kind, tolerance):
    counts = often(12, 4, pattern_of(*PAIRS.values(), True))
    counts[:, range(12), range(12)] += counts.sum(-1) == 0
    exact = tensors(kind)
    found = tensors(kind)
    weight = torch.linspace(-1, 1, 2 * 12 * 4 * 3, dtype=torch.float64).reshape(2, 12, 4, 3).to(kind)
    out = dilated_attention(*found, causal=True, **PAIRS)
    assert out.dtype == kind
    (out * weight).sum().backward()
    doubles = [x.detach().double().requires_grad_() for x in exact]
    (composed(*doubles, counts)[0] * weight.double()).sum().backward()
    seen = often(12, 4, pattern_of(*PAIRS.values(), True)).sum(-1).min() > 0
    assert seen, "every row of this pattern sees a key"
    for ours, theirs in zip(found, doubles):
        assert ours.grad.dtype == kind
        assert (ours.grad.double() - theirs.grad).abs().max() <= tolerance * max(1, theirs.grad.abs().max())


def test_gradients_of_tensors_whose_sums_are_less_exact():
    """float64 with precision="float32": the numbers kept for the backward pass are float32."""
    gradients = []
    for precision in ("auto", "float32"):
        given = [*tensors(), torch.zeros(4, dtype=torch.float64, requires_grad=True)]
        out, lse = dilated_attention(*given[:3], sink=given[3], return_lse=True, precision=precision)
        gradients.append(torch.autograd.grad(out.square().sum() + lse.sum(), given))
    for exact, found in zip(*gradients):
        assert found.dtype == torch.float64
        assert 1e-10 < (found - exact).abs().max() < 3e-5 * max(1, exact.abs().max())


def test_only_some_need_gradients():
    q, k, v = tensors(grad=False)
    assert dilated_attention(q, k, v).requires_grad is False
    k.requires_grad_()
    out = dilated_attention(q, k, v)
    out.sum().backward()
    assert q.grad is None and v.grad is None and k.grad.shape == k.shape
    with torch.no_grad():
        assert dilated_attention(q, k, v).requires_grad is False


def test_the_same_graph_twice_and_changed_inputs():
    q, k, v = tensors()
    out = dilated_attention(q, k, v)
    out.sum().backward(retain_graph=True)
    once = q.grad.clone()
    out.sum().backward()
    assert torch.equal(q.grad, 2 * once)
    out = dilated_attention(q, k, v)
    with torch.no_grad():
        k.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(2, 4, 33, 16), (4, 33, 16), (2, 3, 4, 33, 16)])
def test_in_place_of_pytorchs(shape, causal):
    theirs = [torch.randn(*shape, generator=torch.Generator().manual_seed(i), dtype=torch.float64) for i in range(3)]
    ours = [x.clone().requires_grad_() for x in theirs]
    theirs = [x.requires_grad_() for x in theirs]
    expected = torch.nn.functional.scaled_dot_product_attention(*theirs, is_causal=causal, scale=0.4)
    found = scaled_dot_product_attention(*ours, is_causal=causal, scale=0.4)
    assert found.shape == expected.shape and (found - expected).abs().max() < 1e-12
    expected.square().sum().backward()
    found.square().sum().backward()
    assert all((a.grad - b.grad).abs().max() < 1e-11 for a, b in zip(ours, theirs))


@pytest.mark.parametrize("q, k, v", [
    ((2, 1), (1, 2), (1, 2)), ((2, 1), (1, 3), (2, 1)), ((3,), (1,), (3,)), ((1,), (3,), (3,)), ((2, 3), (3,), (2, 1)),
    ((), (2,), ()), ((2, 1, 2), (3, 1), (1,)), ((1, 1), (1, 1), (2, 3)), ((2, 2), (2, 2), (2, 2)),
])
def test_axes_before_the_heads_are_broadcast_as_pytorch_does(q, k, v):
    def random(i, batch):
        return torch.randn(*batch, 4, 33, 16, generator=torch.Generator().manual_seed(i), dtype=torch.float64)
    theirs = [random(i, batch).requires_grad_() for i, batch in enumerate((q, k, v))]
    ours = [x.detach().clone().requires_grad_() for x in theirs]
    expected = torch.nn.functional.scaled_dot_product_attention(*theirs, is_causal=True)
    found = scaled_dot_product_attention(*ours, is_causal=True)
    assert found.shape == expected.shape and (found - expected).abs().max() < 1e-12
    expected.square().sum().backward()
    found.square().sum().backward()
    assert all((a.grad - b.grad).abs().max() < 1e-11 for a, b in zip(ours, theirs))


@pytest.mark.parametrize("q, k, v", [((2, 3), (3, 2), (3, 2)), ((2,), (2,), (3,)), ((4, 1), (1, 2), (3, 1))])
def test_axes_that_pytorch_does_not_broadcast_are_refused(q, k, v):
    batches = [torch.ones(*batch, 4, 5, 8) for batch in (q, k, v)]
    with pytest.raises(RuntimeError):
        torch.nn.functional.scaled_dot_product_attention(*batches)
    with pytest.raises(annulus.AnnulusError, match="expected axes before the heads that are equal, or 1$"):
        scaled_dot_product_attention(*batches)


@pytest.mark.parametrize("words, message", [
    ({"attn_mask": torch.ones(5, 5)}, "attn_mask has numbers of type torch.float32, expected torch.bool"),
    ({"dropout_p": 0.1}, "dropout_p is 0.1, expected 0"),
    ({"key": torch.ones(1, 2, 5, 8)}, "key has 2 heads, query 4: expected enable_gqa=True, or as many"),
    ({"key": torch.ones(1, 4, 6, 8)}, "v is (1, 5, 4, 8) for q (1, 5, 4, 8) in the order (B, S, heads, D), expected "
                                      "(1, 6, 4, 8)"),
    ({"query": torch.ones(5, 8)}, "query (5, 8), key (1, 4, 5, 8), value (1, 4, 5, 8): expected (..., heads, rows, numbers)"),
    ({"query": torch.ones(1, 4, 5, 8, device="meta")}, "k is on cpu, q on meta; expected one device"),
    ({"statistics": "entropy"}, "statistics have no gradients"),
])
def test_what_it_cannot_do_is_said(words, message):
    x = torch.ones(1, 4, 5, 8)
    with pytest.raises(annulus.AnnulusError) as raised:
        scaled_dot_product_attention(**{"query": x, "key": x, "value": x} | words)
    assert str(raised.value).startswith(message)


def test_gradients_are_not_lost_in_silence():
    q, k, v = tensors()
    with pytest.raises(annulus.AnnulusError, match="^q requires gradients, which annulus.torch.dilated_attention"):
        annulus.attention(q, k, v)
    with torch.no_grad():
        assert isinstance(annulus.attention(q, k, v)[0], torch.Tensor)
    with pytest.raises(annulus.AnnulusError, match="^q is torch.sparse_coo, expected q.to_dense()"):
        annulus.attention(torch.zeros(1, 3, 2, 4).to_sparse(), k, v)


class Block(torch.nn.Module):
    """A layer of a transformer whose attention is a function of (B, S, H, D) tensors."""

    def __init__(self, width, heads, attention):
        super().__init__()
        self.heads, self.attention = heads, attention
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.Linear(2 * width, width))

    def forward(self, x):
        batch, rows, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, rows, 3, self.heads, -1).unbind(2)
        x = x + self.out(self.attention(q, k, v).reshape(batch, rows, width))
        return x + self.mlp(self.norms[1](x))


def train(attention, steps=20, rows=96):
    """Losses of a small LongNet-like model of bytes that learns to repeat the byte that it read four bytes ago."""
    torch.manual_seed(0)
    embedding, head = torch.nn.Embedding(32, 32), torch.nn.Linear(32, 32)
    model = torch.nn.Sequential(embedding, Block(32, 4, attention), Block(32, 4, attention), head)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for step in range(steps):
        text = torch.randint(0, 32, (2, rows), generator=torch.Generator().manual_seed(step))
        loss = torch.nn.functional.cross_entropy(model(text)[:, 4:].flatten(0, 1), text[:, :-4].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def test_a_model_learns_the_same():
    words = {"segments": (16, 48, "all"), "dilations": (1, 2, 4)}
    counts = often(96, 4, pattern_of(*words.values(), True))
    ours = train(lambda q, k, v: dilated_attention(q, k, v, causal=True, **words))
    theirs = train(lambda q, k, v: composed(q, k, v, counts)[0])
    assert abs(ours - theirs).max() < 1e-5 and theirs[-1] < theirs[0]


@pytest.mark.parametrize("first", ["torch", "annulus"])
def test_two_openmp_runtimes_in_one_process(first):
    """PyTorch's wheel has its own libgomp. Whichever library is imported first, both compute, also at the same time."""
    done = subprocess.run([sys.executable, "-P", "-c", textwrap.dedent(f"""
        import {first if first == "torch" else "annulus"}
        import numpy as np
        from concurrent.futures import ThreadPoolExecutor
        x = np.random.default_rng(0).standard_normal((1, 300, 4, 32)).astype("f4")
        import annulus
        before = annulus.attention(x, x, x)[0] if {first == "annulus"} else None
        import torch
        torch.set_num_threads(2)
        y = torch.from_numpy(x).transpose(1, 2)
        expected = torch.nn.functional.scaled_dot_product_attention(y, y, y).transpose(1, 2).numpy()
        assert before is None or abs(before - expected).max() < 1e-5
        def ours():
            for _ in range(20):
                assert abs(annulus.attention(x, x, x)[0] - expected).max() < 1e-5
        with ThreadPoolExecutor(1) as pool:
            thread = pool.submit(ours)
            for _ in range(20):
                torch.nn.functional.scaled_dot_product_attention(y, y, y)
            thread.result()  # raises what ours() raised
        ours()
        print("both", annulus.threads())
        """)], capture_output=True, text=True, timeout=600, env=__import__("os").environ | {"OMP_NUM_THREADS": "2"})
    assert done.returncode == 0 and done.stdout == "both 2\n", done.stdout + done.stderr


def test_flushing_denormal_numbers_is_the_callers_matter():
    """PyTorch's mode changes no bit of reproducible results, and annulus leaves the mode as it was."""
    done = subprocess.run([sys.executable, "-P", "-c", textwrap.dedent("""
        import annulus, torch
        from annulus.torch import dilated_attention
        x = torch.randn(1, 60, 2, 8, generator=torch.Generator().manual_seed(0))
        small = x * 1e-38
        def computed():
            q, k, v = x.clone().requires_grad_(), x.clone().requires_grad_(), small.clone().requires_grad_()
            out = dilated_attention(q, k, v, causal=True, reproducible=True)
            out.backward(x)
            return torch.cat([t.view(torch.int32).flatten() for t in (out.detach(), q.grad, k.grad, v.grad)])
        tiny = torch.tensor([1e-40])
        assert torch.set_flush_denormal(True)
        flushed = computed()
        assert (tiny * 1).item() == 0, "PyTorch's mode is as it was"
        torch.set_flush_denormal(False)
        usual = computed()
        denormal = ((usual & 0x7f800000) == 0) & ((usual & 0x7fffff) != 0)
        print(int(denormal.sum()) > 100, torch.equal(flushed, usual))
        """)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and done.stdout == "True True\n", done.stdout + done.stderr


def test_threads_are_pytorchs_unless_annulus_is_told():
    done = subprocess.run([sys.executable, "-P", "-c", textwrap.dedent("""
        import annulus, torch, os
        from annulus import _core, calls
        from annulus.torch import dilated_attention
        x = torch.ones(1, 64, 2, 8, requires_grad=True)
        seen = []
        class Watched:
            def __getattr__(self, name):
                made = getattr(_core, name)
                if name not in ("forward", "backward"):
                    return made
                def call(*words, **more):
                    seen.append((name, more["threads"], more["suggested"]))
                    return made(*words, **more)
                return call
        calls._core = Watched()
        torch.set_num_threads(2)
        dilated_attention(x, x, x).sum().backward()
        dilated_attention(x, x, x, threads=1)
        annulus.attention(*[x.detach()] * 3)
        print(seen)
        print(annulus.info()["threads"], annulus.info()["threads_from"])
        try:
            dilated_attention(x, x, x, threads=3)
        except annulus.AnnulusError as error:
            print(error)
        """)], capture_output=True, text=True, timeout=600, env=__import__("os").environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[('forward', 0, 2), ('backward', 0, 2), ('forward', 1, 2), ('forward', 0, 0)]", "1 OMP_NUM_THREADS",
        "threads: 3 threads; this process began to compute with 2, expected as many or fewer (set more before the first "
        "call, or OMP_NUM_THREADS)"]
