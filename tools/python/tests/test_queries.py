"""Queries that are fewer than keys, or more: attention(query_offset=), gradients, PyTorch's alignment; docs/queries.md."""
import copy
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray
from conftest import LAUNCHER, ROOT, program, run
from definition import composed, often, pattern_of

import annulus
import annulus.plots
from annulus.torch import dilated_attention, scaled_dot_product_attention

ROWS, HEADS, KV_HEADS, DIM = 37, 4, 2, 6


def tensors(queries, rows=ROWS, heads=HEADS, kv_heads=KV_HEADS):
    """q (2, queries, H, D), k and v (2, rows, Hkv, D)."""
    generator = torch.Generator().manual_seed(queries)
    return [torch.randn(2, n, h, DIM, generator=generator, dtype=torch.float64, requires_grad=True)
            for n, h in ((queries, heads), (rows, kv_heads), (rows, kv_heads))]


def gradients_of(out, lse, inputs, seen):
    """Gradients of a loss over the rows that see a key."""
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
    loss = (out * weight)[seen].sum() + (lse * weight[..., 0])[seen].square().sum()
    return torch.autograd.grad(loss, inputs)


PATTERNS = [
    {"segments": ("all",), "dilations": (1,), "causal": False},
    {"segments": ("all",), "dilations": (1,), "causal": True},
    {"segments": (8, "all"), "dilations": (1, 3), "causal": True},
    {"segments": (annulus.window([4, 2], first=3), 16), "dilations": (1, 2), "causal": False},
]


@pytest.mark.parametrize("words", PATTERNS)
@pytest.mark.parametrize("documents", [None, (0, 9, 20, ROWS)])
@pytest.mark.parametrize("queries, offset", [(1, "auto"), (8, "auto"), (8, 0), (14, 11), (ROWS, "auto"), (36, 1)])
def test_they_stand_where_they_are_said_to(queries, offset, documents, words):
    q, k, v = tensors(queries)
    first = ROWS - queries if offset == "auto" else offset
    counts = often(ROWS, HEADS, pattern_of(*words.values()), documents)[:, first:first + queries]
    expected = composed(q, k, v, counts)
    found = dilated_attention(q, k, v, query_offset=offset, documents=documents, return_lse=True, **words)
    seen = torch.isfinite(expected[1])
    assert (torch.isfinite(found[1]) == seen).all() and seen.any()
    assert (found[0] - expected[0])[seen].abs().max() <= 1e-12 and (found[1] - expected[1])[seen].abs().max() <= 1e-12
    assert (found[0][~seen] == 0).all()
    if not seen.all():  # composed() gives NaN for rows that see no key
        return
    for mine, theirs in zip(gradients_of(*found, (q, k, v), seen), gradients_of(*expected, (q, k, v), seen)):
        assert (mine - theirs).abs().max() <= 1e-11


@pytest.mark.parametrize("queries", [1, 8, ROWS, 90])
def test_queries_without_row_numbers_see_every_key(queries):
    q, k, v = tensors(queries)
    expected = composed(q, k, v, torch.ones(HEADS, queries, ROWS, dtype=torch.float64))
    found = dilated_attention(q, k, v, query_offset="none", return_lse=True)
    assert (found[0] - expected[0]).abs().max() <= 1e-12 and (found[1] - expected[1]).abs().max() <= 1e-12
    seen = torch.isfinite(found[1])
    for mine, theirs in zip(gradients_of(*found, (q, k, v), seen), gradients_of(*expected, (q, k, v), seen)):
        assert (mine - theirs).abs().max() <= 1e-11


@pytest.mark.parametrize("queries, offset", [(5, 20), (50, "none")])
def test_statistics(queries, offset):
    q, k, v = (x.detach() for x in tensors(queries))
    group = HEADS // KV_HEADS
    weights = (torch.einsum("bxhd,bphd->bhxp", q, k.repeat_interleave(group, dim=2)) / DIM**0.5).softmax(-1)
    told = annulus.attention(q, k, v, query_offset=offset, statistics=["entropy", "received", "top"], top_keys=3)[2]
    assert told["received"].shape == (2, ROWS, HEADS) and told["top_rows"].shape == (2, queries, HEADS, 3)
    assert (told["received"] - weights.sum(2).transpose(1, 2)).abs().max() <= 1e-11
    assert (told["entropy"] + (weights * weights.log()).sum(-1).transpose(1, 2)).abs().max() <= 1e-11
    assert (told["top_rows"] == weights.topk(3).indices.transpose(1, 2)).all()


@pytest.mark.parametrize("axes", ["bshd", "bhsd"])
def test_arrays_of_numpy_and_the_reference(axes):
    q, k, v = (x.detach().numpy() for x in tensors(9))
    if axes == "bhsd":
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    words = {"segments": [8, "all"], "dilations": [1, 3], "causal": True, "query_offset": 13, "axes": axes}
    out, lse = annulus.attention(q, k, v, **words)
    assert out.shape == q.shape and lse.shape == q.shape[:3]
    expected = annulus.reference(q, k, v, **words)
    assert np.abs(out - expected[0]).max() <= 1e-12 and np.abs(lse - expected[1]).max() <= 1e-12
    assert annulus.verify(q, k, v, out, lse, **words)
    assert not annulus.verify(q, k, v, out, lse, **words | {"query_offset": 14})


@pytest.mark.parametrize("queries, rows", [(5, 12), (12, 5), (1, 12)])
@pytest.mark.parametrize("causal", [False, True])
def test_as_pytorch_aligns_them(queries, rows, causal):
    q, k, v = (x.detach().transpose(1, 2) for x in tensors(queries, rows))
    if causal and queries > rows:
        with pytest.raises(annulus.AnnulusError) as raised:
            scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        assert str(raised.value) == ("is_causal is True, query has 12 rows and key 5: expected as many rows of key or more, "
                                     "or is_causal=False")
        return
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    found = scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    assert (found - expected).abs().max() <= 1e-12


def test_compiled_and_without_numbers():
    q, k, v = tensors(5)
    call = torch.compile(lambda *x: scaled_dot_product_attention(*x, enable_gqa=True), fullgraph=True, backend="aot_eager")
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(*turned, enable_gqa=True)
    assert (call(*turned) - expected).abs().max() <= 1e-12
    meta = [x.detach().to("meta") for x in (q, k, v)]
    out, lse = dilated_attention(*meta, query_offset="none", return_lse=True)
    assert out.shape == q.shape and lse.shape == q.shape[:3]


@pytest.mark.parametrize("queries, words, message", [
    (9, {}, "plan: query_offset is auto, q has 9 rows and k 8: only queries without row numbers may be more than the keys; "
            "expected none"),
    (5, {"query_offset": 4}, "plan: query_offset is 4, q has 5 rows and k 8: expected 0 to 3, auto or none"),
    (5, {"query_offset": -1}, "query_offset is -1, expected a whole number, 0 or more, 'auto' or 'none'"),
    (5, {"query_offset": "first"}, "query_offset is 'first', expected a whole number, 0 or more, 'auto' or 'none'"),
    (5, {"query_offset": "none", "causal": True}, "plan: query_offset is none: queries without row numbers see every key, and "
                                                  "causal is true; expected dense attention, not causal"),
])
def test_mistakes_are_named(queries, words, message):
    with pytest.raises(annulus.AnnulusError) as raised:
        dilated_attention(*tensors(queries, 8), axes="bshd", **words)
    assert str(raised.value) == message


def test_a_plan_says_who_holds_which_queries():
    plan = annulus.plan(12, HEADS, DIM, ranks=2, queries=3, query_offset=5)
    assert plan.rows(1) == [(6, 12)] and plan.query_rows(0) == [(0, 1)] and plan.query_rows(1) == [(1, 3)]
    assert plan.query_row_numbers(1).tolist() == [1, 2]
    balanced = annulus.plan(4096, HEADS, DIM, ranks=4, queries=64, partition="auto", strategy="ring")
    assert [len(balanced.query_row_numbers(rank)) for rank in range(4)] == [16] * 4
    padded = annulus.plan(12, HEADS, DIM, ranks=2, batch=2, lengths=[5, 8], segments=[annulus.window(4)], dilations=[1])
    for one in (plan, balanced, padded):
        for same in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert same is not one and repr(same) == repr(one)
            assert [same.query_rows(1), same.rows(1)] == [one.query_rows(1), one.rows(1)]


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_page(ranks):
    example = Path(__file__).with_name("latents_example.py")
    page = (ROOT / "docs/queries.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^<!-- (.*) -->$", page, re.MULTILINE)) == {"tools/python/tests/latents_example.py"}
    told, _ = run(*LAUNCHER, "-n", ranks, sys.executable, "-P", example)
    # The ranks' lines may be mixed: PYTHONUNBUFFERED writes a line and its end apart, and so does a terminal of mpirun.
    assert sorted(re.findall(r"\d+ latents on rank \d", told)) == [f"{64 // ranks} latents on rank {rank}" for rank in range(ranks)]
    assert not re.sub(r"\d+ latents on rank \d", "", told).strip()


def test_the_worked_example_of_the_definition():
    """docs/semantics.md: with equal scores, out is the mean of the numbers of the keys that a query sees."""
    q, k, v = np.zeros((1, 3, 1, 1)), np.zeros((1, 10, 1, 1)), np.arange(10.0).reshape(1, 10, 1, 1)
    for offset, seen in (("auto", ([4, 5, 6, 7], [8], [8, 9])), (3, ([0, 1, 2, 3], [4], [4, 5]))):
        out, lse = annulus.attention(q, k, v, causal=True, segments=[4], dilations=[1], query_offset=offset, axes="bshd")
        assert np.allclose(out[0, :, 0, 0], [np.mean(keys) for keys in seen])
        assert np.allclose(np.exp(lse[0, :, 0]), [len(keys) for keys in seen])


def test_results_of_the_program_are_opened_and_drawn(tmp_path):
    """9 queries at rows 20 ... 28 of 60 keys: what belongs to queries has the axis `query`, the rest `sequence`."""
    (tmp_path / "run.yaml").write_text(
        "input: {generate: {sequence: 60, queries: 9, heads: 4, kv_heads: 2, head_dim: 8, dtype: float64}, query_offset: 20}\n"
        "compute: {backward: true}\noutput: {file: out.h5, statistics: [entropy, received, top], top_keys: 3}\n")
    program("run", "run.yaml", folder=tmp_path)
    result = annulus.open_result(tmp_path / "out.h5")
    assert result.out.dims == ("batch", "query", "head", "dim") and result.dk.dims[1] == "sequence"
    assert (result.sizes["query"], result.sizes["sequence"]) == (9, 60)
    assert annulus.results.statistics.listed(result, 8).rows.max() <= 28
    for name in ("lse", "entropy", "received"):
        getattr(annulus.plots, name)(result)
    words = [f"word{i}" for i in range(60)]
    annulus.token_page(tmp_path / "out.h5", words, tmp_path / "page.html", query=4)
    assert "What query 4 looks at most" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("shape, message", [((1, 0, 2, 4), "q has no rows, expected 1"), ((0, 3, 2, 4), "q has no batch entry")])
def test_no_queries(shape, message):
    k = np.ones((shape[0], 5, 2, 4))
    with pytest.raises(annulus.AnnulusError, match=message):
        annulus.attention(np.ones(shape), k, k, query_offset="none")


def test_convert_takes_fewer_rows_of_q(tmp_path):
    generator = np.random.default_rng(3)
    for name, rows in (("q", 9), ("k", 60), ("v", 60), ("dout", 9)):
        np.save(tmp_path / f"{name}.npy", generator.standard_normal((1, rows, 4, 8)))
    annulus.convert([tmp_path / f"{name}.npy" for name in ("q", "k", "v", "dout")], tmp_path / "in.h5")
    opened = annulus.open_input(tmp_path / "in.h5")
    assert opened.q.dims == opened.dout.dims == ("batch", "query", "head", "dim") and opened.k.dims[1] == "sequence"
    (tmp_path / "run.yaml").write_text("input: {file: in.h5}\ncompute: {backward: true}\noutput: {file: out.h5}\n")
    program("run", "run.yaml", folder=tmp_path)
    assert annulus.open_result(tmp_path / "out.h5").dq.shape == (1, 9, 4, 8)


def test_a_forward_pass_of_few_queries_keeps_names_of_one_length(tmp_path):
    """The result has no k, so `received` says how many rows k has."""
    (tmp_path / "run.yaml").write_text(
        "input: {generate: {sequence: 20, queries: 4, heads: 2, head_dim: 8, value_dim: 5}, query_offset: none}\n"
        "attention: {causal: false}\noutput: {file: few.h5, statistics: [received, top], top_keys: 2}\n")
    program("run", tmp_path / "run.yaml")
    annulus.convert(tmp_path / "few.h5", tmp_path / "few.zarr")
    opened = xarray.open_zarr(tmp_path / "few.zarr", consolidated=False)
    assert opened.out.dims == ("batch", "query", "head", "dim") and opened.received.dims == ("batch", "sequence", "head")
    assert opened.top_rows.dims == ("batch", "query", "head", "top") and opened.sizes["sequence"] == 20
