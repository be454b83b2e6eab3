"""lengths= of annulus.attention and annulus.torch: each entry of a padded batch is computed from its own rows alone."""
import ml_dtypes
import numpy as np
import pytest
import torch
from definition import composed, often, pattern_of

import annulus
from annulus.torch import dilated_attention

B, S, HEADS, DIM = 3, 37, 4, 8
WORDS = {"segments": (8, "all"), "dilations": (1, 3), "causal": True}
TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 3e-3, "bfloat16": 2e-2}
LENGTHS = [[37, 20, 0], [[3, 30], [36, 37], [9, 9]], np.array([[0, 37], [1, 36], [5, 37]])]


def pairs_of(lengths):
    return [(0, int(n)) if np.ndim(n) == 0 else tuple(map(int, n)) for n in lengths]


def arrays(kind="float64", lengths=(), seed=5, shapes=(HEADS, 2, 2)):
    """q, k and v, with NaN in rows that do not exist."""
    generator = np.random.default_rng(seed)
    kind = ml_dtypes.bfloat16 if kind == "bfloat16" else kind
    made = [generator.standard_normal((B, S, heads, DIM)).astype(kind) for heads in shapes]
    for x in made:
        for b, (begin, end) in enumerate(pairs_of(lengths)):
            x[b, :begin] = x[b, end:] = np.nan
    return made


def defined(q, k, v, lengths, sink=None, causal=True):
    """out and lse of (B, S, heads, D) tensors, computed entry by entry from existing rows only."""
    out, lse = torch.zeros(q.shape, dtype=torch.float64), torch.full(q.shape[:3], -torch.inf, dtype=torch.float64)
    for b, (begin, end) in enumerate(pairs_of(lengths)):
        if begin < end:
            counts = often(end - begin, HEADS, pattern_of(WORDS["segments"], WORDS["dilations"], causal))
            rows = [x[b:b + 1, begin:end].double() for x in (q, k, v)]
            out[b, begin:end], lse[b, begin:end] = (x[0] for x in composed(*rows, counts, sink=sink))
    return out, lse


def turned(x, axes):
    return np.ascontiguousarray(x.swapaxes(1, 2)) if axes else x


def exists(lengths):
    return torch.tensor([[begin <= row < end for row in range(S)] for begin, end in pairs_of(lengths)])


@pytest.mark.parametrize("axes", [None, "bhsd"])
@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_each_entry_is_that_of_its_rows_alone(lengths, kind, axes):
    given = arrays(kind, lengths)
    lies = [turned(x, axes) for x in given]
    found = annulus.attention(*lies, lengths=lengths, axes=axes, **WORDS)
    out, lse = (torch.from_numpy(turned(x, axes).astype(np.float64)) for x in found)
    expected = defined(*[torch.from_numpy(x.astype(np.float64)) for x in given], lengths)
    there = exists(lengths)
    assert (out[~there] == 0).all() and (lse[~there] == -torch.inf).all()
    for x, y in zip((out, lse), expected):
        assert (x[there] - y[there]).abs().max() <= TOLERANCE[kind] * max(1, y[there].abs().max())
    assert annulus.verify(*lies, *found, lengths=lengths, axes=axes, rows=S, **WORDS)
    found[0][(0, 1, 10) if axes else (0, 10, 1)] += 1
    assert not annulus.verify(*lies, *found, lengths=lengths, axes=axes, rows=S, **WORDS)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_statistics_count_rows_of_their_entry(lengths):
    q, k, v = arrays(lengths=lengths)
    words = WORDS | {"statistics": ["entropy", "received", "top"], "top_keys": 5}
    told = annulus.attention(q, k, v, lengths=lengths, **words)[2]
    for b, (begin, end) in enumerate(pairs_of(lengths)):
        out_of_it = np.r_[0:begin, end:S]
        assert (told["entropy"][b, out_of_it] == 0).all() and (told["received"][b, out_of_it] == 0).all()
        assert (told["top_rows"][b, out_of_it] == -1).all() and (told["top_weights"][b, out_of_it] == 0).all()
        if begin == end:
            continue
        alone = annulus.attention(*[x[b:b + 1, begin:end] for x in (q, k, v)], axes="bshd", **words)[2]
        for name in ("entropy", "received", "top_weights"):
            assert abs(told[name][b, begin:end] - alone[name][0]).max() < 1e-13, name
        rows = alone["top_rows"][0]
        assert np.array_equal(told["top_rows"][b, begin:end], np.where(rows < 0, rows, rows + begin))


def test_rows_after_the_last_document():
    q, k, v = arrays(lengths=[20, 20, 20])
    out, lse = annulus.attention(q, k, v, documents=[0, 4, 20], **WORDS)
    alone = annulus.attention(*[x[:, :20] for x in (q, k, v)], documents=[0, 4, 20], **WORDS)
    assert abs(out[:, :20] - alone[0]).max() <= 1e-14 and abs(lse[:, :20] - alone[1]).max() <= 1e-14
    assert (out[:, 20:] == 0).all() and np.isinf(lse[:, 20:]).all()


def test_where_all_rows_exist_nothing_changes():
    q, k, v = arrays("float32")
    expected = annulus.attention(q, k, v, **WORDS)
    for lengths in ([S] * B, [[0, S]] * B):
        for x, y in zip(annulus.attention(q, k, v, lengths=lengths, **WORDS), expected):
            assert np.array_equal(x, y)


def as_tensors(lengths, **more):
    return [torch.from_numpy(x).requires_grad_() for x in arrays(lengths=lengths, **more)]


@pytest.mark.parametrize("form", [list, torch.tensor, exists])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("causal", [True, False])
def test_gradients_are_those_of_the_definition(lengths, form, causal):
    """With sink logits. NaN in dout and dlse of rows that do not exist has no effect; gradients of these rows are 0."""
    said = form(lengths) if form is not torch.tensor else torch.as_tensor(np.array(lengths))
    sink = torch.tensor([0.5, -1, 2, 0], dtype=torch.float64, requires_grad=True)
    given, there = as_tensors(lengths), exists(lengths)
    words = WORDS | {"causal": causal}
    out, lse = dilated_attention(*given, sink=sink, lengths=said, return_lse=True, **words)
    weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).reshape(out.shape)
    dout, dlse = weight.clone(), weight[..., 0].clone()
    dout[~there] = dlse[~there] = torch.nan
    torch.autograd.backward((out, lse), (dout, dlse))
    exact, exact_sink = as_tensors(lengths), sink.detach().clone().requires_grad_()
    expected = defined(*exact, lengths, exact_sink, causal)
    ((expected[0] * weight)[there].sum() + (expected[1] * weight[..., 0])[there].sum()).backward()
    assert (out[there] - expected[0][there]).abs().max() < 1e-13
    for x, y in zip(given, exact):
        assert (x.grad[~there] == 0).all() and (x.grad[there] - y.grad[there]).abs().max() < 1e-11
    assert (sink.grad - exact_sink.grad).abs().max() < 1e-11


@pytest.mark.parametrize("form", [lambda lengths: torch.as_tensor(np.array(lengths)), exists])
def test_compiled_and_exported_they_are_looked_at_when_it_computes(form):
    class Model(torch.nn.Module):
        def forward(self, q, k, v, lengths):
            return dilated_attention(q, k, v, lengths=lengths, **WORDS)
    exported = None
    for lengths in (LENGTHS[1], LENGTHS[2]):
        given = [x.detach() for x in as_tensors(lengths)] + [form(lengths)]
        expected = Model()(*given)
        assert torch.equal(torch.compile(Model(), fullgraph=True, backend="aot_eager")(*given), expected)
        exported = exported or torch.export.export(Model(), tuple(given)).module()
        assert torch.equal(exported(*given), expected)


def test_vmap_takes_lengths_of_the_batch():
    lengths = torch.tensor([37, 20, 0])
    given = [torch.stack([torch.from_numpy(x) for x in pair]) for pair in zip(arrays(seed=1), arrays(seed=2))]
    found = torch.vmap(lambda q, k, v: dilated_attention(q, k, v, lengths=lengths, **WORDS))(*given)
    for i in range(2):
        assert torch.equal(found[i], dilated_attention(*[x[i] for x in given], lengths=lengths, **WORDS))


@pytest.mark.parametrize("words, message", [
    ({"lengths": [37]}, "lengths has 1 entries, expected 3, one for each batch entry"),
    ({"lengths": [3, 38, 1]}, r"lengths\[1\] is rows 0 to 38, expected 37 at most, the rows of k"),
    ({"lengths": [[5, 3], [0, 1], [0, 1]]}, r"lengths\[0\] is rows 5 to 3, expected 0 <= first row <= end"),
    ({"lengths": [-1, 2, 3]}, r"lengths\[0\] is rows 0 to -1, expected 0 <= first row <= end"),
    ({"lengths": [1.5, 2, 3]}, r"lengths is .*, expected whole numbers \(B,\), how many rows exist"),
    ({"lengths": 3}, r"lengths is 3, expected whole numbers"),
    ({"lengths": [3, 4, 5], "documents": [0, 37]}, "documents and lengths are given, expected one of them"),
])
def test_wrong_ones_are_named(words, message):
    given = arrays()
    with pytest.raises(annulus.AnnulusError, match=message):
        annulus.attention(*given, **words)
    with pytest.raises(annulus.AnnulusError, match=message):
        dilated_attention(*map(torch.from_numpy, given), **words)


def test_wrong_masks_are_named():
    given = [torch.from_numpy(x) for x in arrays()]
    mask = torch.ones(B, S, dtype=torch.bool)
    mask[1, 4] = mask[1, 30:] = False
    with pytest.raises(annulus.AnnulusError, match="rows 0 to 30 of entry 1 have 1 masked ones among them"):
        dilated_attention(*given, lengths=mask)
    with pytest.raises(annulus.AnnulusError, match=r"lengths is a mask \(3, 36\), expected \(3, 37\)"):
        dilated_attention(*given, lengths=mask[:, 1:])


def test_without_row_numbers_a_mask_is_of_the_keys():
    q, k, v = map(torch.from_numpy, arrays())
    mask = torch.arange(S) < torch.tensor([[S], [5], [1]])
    words = {"query_offset": "none"}
    found = dilated_attention(q[:, :4], k, v, lengths=mask, **words)
    assert torch.equal(found, dilated_attention(q[:, :4], k, v, lengths=[S, 5, 1], **words))
    with pytest.raises(annulus.AnnulusError, match=r"lengths is a mask \(3, 4\), expected \(3, 37\), k's entries and rows"):
        dilated_attention(q[:, :4], k, v, lengths=mask[:, :4], **words)


def test_a_plan_knows_what_exists():
    made = annulus.plan(36, HEADS, DIM, ranks=2, batch=B, lengths=[36, 20, 0])
    assert [made.rows(0), made.rows(1)] == [made.query_rows(0), made.query_rows(1)] == [[(0, 18)], [(18, 36)]]
    assert list(made.query_row_numbers(1)) == list(range(18, 36))
    assert made.kept(0) + made.kept(1) == HEADS * (36**2 + 20**2)
    for words, message in (({"partition": "zigzag"}, "36 rows on 2 ranks, zigzag; expected a multiple of 2 rows"),
                           ({"reproducible": True}, "reproducible is True with lengths on 2 ranks"),
                           ({"strategy": "single"}, "strategy is 'single' with lengths on 2 ranks")):
        with pytest.raises(annulus.AnnulusError, match=message):
            annulus.plan(36, HEADS, DIM, ranks=2, batch=B, lengths=[36, 20, 0], **words)


def test_a_plan_with_lengths_names_the_partition_of_each_entry():
    made = annulus.plan(36, HEADS, DIM, ranks=2, batch=B, lengths=[36, 20, 0])
    assert made.partition == "contiguous" and "contiguous" in made.reason and "block_cyclic" not in repr(made)
    made = annulus.plan(36, HEADS, DIM, ranks=2, partition="block_cyclic", strategy="ring")
    assert "ring, block_cyclic, 2 ranks" in repr(made)


def keys_alone(kind, axes):
    """q of 9 rows, k and v with NaN in hidden keys, and the lengths."""
    lengths = [[3, 30], [0, 37], [9, 9]]
    q, (_, k, v) = arrays(kind)[0][:, :9], arrays(kind, lengths)
    return [turned(x, axes) for x in (q, k, v)], lengths


@pytest.mark.parametrize("axes", [None, "bhsd"])
@pytest.mark.parametrize("kind", TOLERANCE)
def test_lengths_of_keys_that_every_query_sees(kind, axes):
    """With query_offset="none" every query exists, and sees the keys of its entry."""
    (q, k, v), lengths = keys_alone(kind, axes)
    words = {"lengths": lengths, "query_offset": "none", "axes": axes}
    shown = []
    out, lse, told = annulus.attention(q, k, v, statistics=["entropy", "received", "top"], top_keys=40,
                                       progress=lambda share, where: shown.append(share), **words)
    assert shown == sorted(shown) and shown[-1] <= 1
    assert annulus.verify(q, k, v, out, lse, rows=9, **words)
    row_axis = 2 if axes else 1
    for b, (begin, end) in enumerate(lengths):
        entry = [np.moveaxis(x[b:b + 1], row_axis, 1) for x in (q, k, v, out, lse, *told.values())]
        if begin == end:
            assert (entry[3] == 0).all() and (entry[4] == -np.inf).all()
            assert all((x == (-1 if name == "top_rows" else 0)).all() for name, x in zip(told, entry[5:]))
            continue
        own = [torch.from_numpy(x.astype(np.float64)) for x in (entry[0], *(x[:, begin:end] for x in entry[1:3]))]
        expected, expected_lse = composed(*own, torch.ones(HEADS, 9, end - begin))
        assert abs(entry[3].astype(np.float64) - expected.numpy()).max() <= TOLERANCE[kind] * 2
        assert abs(entry[4] - expected_lse.numpy()).max() <= 1e-5
        names = dict(zip(told, entry[5:]))
        assert (names["received"][:, :begin] == 0).all() and (names["received"][:, end:] == 0).all()
        assert abs(names["received"].sum() - 9 * HEADS) < 1e-4
        listed = np.sort(names["top_rows"], axis=-1)[..., 40 - (end - begin):]
        assert (listed == np.arange(begin, end)).all() and (names["top_rows"] >= -1).all()


def test_gradients_of_keys_that_every_query_sees():
    """Gradients equal those of each entry computed alone; a sink's gradient is the sum over entries."""
    given, lengths = keys_alone("float64", None)
    q, k, v = [torch.from_numpy(x).requires_grad_() for x in given]
    sink = torch.linspace(-1, 1, HEADS, dtype=torch.float64).requires_grad_()
    out, lse = dilated_attention(q, k, v, sink=sink, lengths=lengths, query_offset="none", return_lse=True)
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
    (out * weight).sum().backward()
    expected = [torch.zeros_like(x) for x in (q, k, v, sink)]
    for b, (begin, end) in enumerate(lengths):
        if begin == end:
            continue
        own = [x.detach()[b:b + 1, rows].requires_grad_() for x, rows in ((q, slice(None)), (k, slice(begin, end)), (v, slice(begin, end)))]
        logits = sink.detach().clone().requires_grad_()
        alone = dilated_attention(*own, sink=logits, query_offset="none")
        (alone * weight[b:b + 1]).sum().backward()
        expected[0][b:b + 1] = own[0].grad
        expected[1][b, begin:end], expected[2][b, begin:end] = own[1].grad[0], own[2].grad[0]
        expected[3] += logits.grad
    for x, y in zip((q, k, v, sink), expected):
        assert (x.grad - y).abs().max() < 1e-13


@pytest.mark.parametrize("words, message", [
    ({"query_offset": 3}, "lengths and query_offset=3 are given, expected one of them, or query_offset='none'"),
    ({"query_offset": "none", "causal": True}, "query_offset is none: queries without row numbers see every key, and causal"),
    ({"query_offset": "none", "lengths": [38, 1, 1]}, r"lengths\[0\] is rows 0 to 38, expected 37 at most, the rows of k"),
])
def test_what_keys_alone_cannot_be(words, message):
    with pytest.raises(annulus.AnnulusError, match=message):
        annulus.attention(*arrays(), **{"lengths": [3, 2, 1]} | words)
