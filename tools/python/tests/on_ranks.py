"""Run on several ranks by test_mpi.py. Each rank passes its rows; results are compared with the whole sequence's."""
import sys

import numpy as np
import torch
from definition import composed, often, pattern_of
from mpi4py import MPI
from test_combined import drawn

import annulus
from annulus.torch import dilated_attention, scaled_dot_product_attention

comm = MPI.COMM_WORLD
ROWS, HEADS = 41, 4
WORDS = {"segments": (8, "all"), "dilations": (1, 3), "causal": True}
whole = [np.random.default_rng(i).standard_normal((2, ROWS, h, 8)) for i, h in enumerate((HEADS, 2, 2))]


def forward_of_every_strategy():
    expected = annulus.reference(*whole, **WORDS)
    for strategy in ("auto", "ring", "rotation", "allgather", "ulysses", "hybrid", "onesided"):
        for partition in ("contiguous", "zigzag"):
            plan = annulus.plan(ROWS, HEADS, 8, ranks=comm.size, batch=2, kv_heads=2, type="float64", strategy=strategy,
                                partition=partition, **WORDS)
            mine = plan.row_numbers(comm.rank)
            out, lse = annulus.attention(*[x[:, mine] for x in whole], comm=comm, strategy=strategy, partition=partition, **WORDS)
            assert abs(out - expected[0][:, mine]).max() < 1e-12, (strategy, partition)
            assert abs(lse - expected[1][:, mine]).max() < 1e-12


def gradients():
    mine = annulus.plan(ROWS, HEADS, 8, ranks=comm.size).row_numbers(comm.rank)
    ours = [torch.from_numpy(x[:, mine].copy()).requires_grad_() for x in whole]
    out = dilated_attention(*ours, comm=comm, **WORDS)
    out.square().sum().backward()
    all_rows = [torch.from_numpy(x).requires_grad_() for x in whole]
    composed(*all_rows, often(ROWS, HEADS, pattern_of(*WORDS.values())))[0].square().sum().backward()
    for found, expected in zip(ours, all_rows):
        assert (found.grad - expected.grad[:, mine]).abs().max() < 1e-11


def partition_that_is_chosen_if_reproducible():
    """A call with gradients accepts the rows that plan() names, also if ranks share a key head."""
    for strategy, queries in (("allgather", ROWS), ("ring", ROWS), ("auto", ROWS), ("auto", 20)):
        words = {"strategy": strategy, "partition": "auto", "reproducible": True, "causal": True}
        plan = annulus.plan(ROWS, HEADS, 8, ranks=comm.size, queries=queries, kv_heads=1, **words)
        q, k = np.ones((1, queries, HEADS, 8), "f4"), np.ones((1, ROWS, 1, 8), "f4")
        ours = [torch.from_numpy(x[:, rows].copy()).requires_grad_() for x, rows in (
            (q, plan.query_row_numbers(comm.rank)), (k, plan.row_numbers(comm.rank)), (k, plan.row_numbers(comm.rank)))]
        dilated_attention(*ours, comm=comm, **words).sum().backward()
        assert abs(comm.allreduce(ours[2].grad.sum().item()) - queries * HEADS * 8) < 1e-3, (strategy, queries)


def partition_that_is_chosen():
    """Calls with gradients, a sink, statistics, fewer key heads or another type use the same partition as a plan()
    without all of these."""
    words = {"segments": ["all", annulus.window([0, 0], first=2), annulus.window(32), annulus.window(64)],
             "dilations": [1, 1, 1, 16], "causal": True, "semantics": "paper", "partition": "auto"}
    chosen = set()
    for sizes in ((97, 4, 16), (41, 4, 8), (640, 2, 8)):
        plan = annulus.plan(*sizes, ranks=comm.size, **words)
        chosen.add(plan.partition)
        mine = plan.row_numbers(comm.rank)
        q, k = (torch.randn(2, sizes[0], heads, sizes[2], dtype=torch.float64, generator=torch.Generator().manual_seed(heads))
                for heads in (sizes[1], sizes[1] // 2))
        expected = dilated_attention(q, k, k, **words)[:, mine]
        sink = torch.full((sizes[1],), -np.inf)  # a sink logit of -inf changes nothing
        for gradients in (False, True):
            for more in ({}, {"sink": sink}):
                ours = q[:, mine].clone().requires_grad_(gradients)
                out = dilated_attention(ours, k[:, mine], k[:, mine], comm=comm, **more, **words)
                assert (out - expected).abs().max() < 1e-12, (sizes, gradients, more)
        told = annulus.attention(q[:, mine], k[:, mine], k[:, mine], comm=comm, statistics=["entropy"], **words)
        assert (told[0] - expected).abs().max() < 1e-12
    assert comm.size == 1 or chosen != {"contiguous"}, chosen


def padded_batches():
    """With lengths=, each rank passes its rows of every batch entry."""
    rows, lengths = 36, [[4, 31], [0, 17]]
    mine = annulus.plan(rows, HEADS, 8, ranks=comm.size).row_numbers(comm.rank)
    padded = [x[:, :rows].copy() for x in whole]
    for x in padded:
        for b, (begin, end) in enumerate(lengths):
            x[b, :begin] = x[b, end:] = np.nan
    expected = annulus.reference(*padded, lengths=lengths, **WORDS)
    all_rows = [torch.from_numpy(x).requires_grad_() for x in padded]
    dilated_attention(*all_rows, lengths=lengths, **WORDS).square().sum().backward()
    for strategy in ("ring", "rotation", "allgather", "ulysses", "onesided"):
        words = {"comm": comm, "lengths": lengths, "strategy": strategy} | WORDS
        ours = [torch.from_numpy(x[:, mine].copy()).requires_grad_() for x in padded]
        out, lse = dilated_attention(*ours, return_lse=True, **words)
        for found, exact in zip((out, lse), expected):  # np.allclose takes -inf and -inf as equal
            assert np.allclose(found.detach().numpy(), exact[:, mine], rtol=0, atol=1e-12), strategy
        out.square().sum().backward()
        for found, exact in zip(ours, all_rows):
            assert (found.grad - exact.grad[:, mine]).abs().max() < 1e-11, strategy
        top = annulus.attention(*[x[:, mine] for x in padded], statistics=["top"], **words)[2]["top_rows"]
        assert top[0].max() < 31 and top[1].max() < 17
    assert comm.size == 1 or "rows, expected as many on each" in said_by(lengths=[41, 3], comm=comm)
    assert said_by(lengths=[ROWS, ROWS], comm=comm) == "nothing"  # if all rows exist, ranks may have different numbers of rows


def keys_that_do_not_exist():
    """With query_offset='none', lengths and masks hide keys, not queries. NaN in hidden keys has no effect."""
    for queries, lengths in ((9, [[4, 31], [0, 17]]), (41, [[40, 41], [0, 0]]), (50, [[0, 41], [13, 13]])):
        given = [np.random.default_rng(i).standard_normal((2, n, h, 8)) for i, (n, h) in enumerate(((queries, HEADS), (ROWS, 2), (ROWS, 2)))]
        out, dq, dk, dv, lse = [np.zeros_like(x) for x in (given[0], *given)] + [np.full((2, queries, HEADS), -np.inf)]
        there = np.zeros((2, ROWS), bool)
        for b, (begin, end) in enumerate(lengths):
            there[b, begin:end] = True
            given[1][b, ~there[b]] = given[2][b, ~there[b]] = np.nan
            if begin < end:
                q, k, v = (torch.from_numpy(x).requires_grad_() for x in (given[0][b:b + 1], given[1][b:b + 1, begin:end], given[2][b:b + 1, begin:end]))
                made, own = composed(q, k, v, torch.ones(HEADS, queries, end - begin))
                made.square().sum().backward()
                out[b], lse[b], dq[b], dk[b, begin:end], dv[b, begin:end] = (
                    x.detach().numpy()[0] for x in (made, own, q.grad, k.grad, v.grad))
        for strategy in ("auto", "ring", "rotation", "allgather", "ulysses", "onesided", "pass_q"):
            for partition in ("contiguous", "zigzag", "auto"):
                words = {"query_offset": "none", "strategy": strategy, "partition": partition}
                plan = annulus.plan(ROWS, HEADS, 8, ranks=comm.size, batch=2, kv_heads=2, queries=queries, lengths=lengths, **words)
                mine, keys = plan.query_row_numbers(comm.rank), plan.row_numbers(comm.rank)
                ours = given[0][:, mine], given[1][:, keys], given[2][:, keys]
                found = annulus.attention(*ours, comm=comm, lengths=lengths, statistics=["received", "top"], top_keys=41, **words)
                assert np.allclose(found[0], out[:, mine], atol=1e-12), (strategy, partition)
                assert np.allclose(found[1], lse[:, mine], atol=1e-12)
                assert (found[2]["received"][~there[:, keys]] == 0).all()
                listed = found[2]["top_rows"]
                assert all(set(listed[b].ravel()) <= {-1, *np.flatnonzero(there[b])} for b in range(2))
                assert ((listed >= 0).sum(axis=-1) == there.sum(axis=1)[:, None, None]).all()
                tensors = [torch.from_numpy(x.copy()).requires_grad_() for x in ours]
                dilated_attention(*tensors, comm=comm, lengths=lengths, **words).square().sum().backward()
                for x, expected in zip(tensors, (dq[:, mine], dk[:, keys], dv[:, keys])):
                    assert np.allclose(x.grad.numpy(), expected, atol=1e-11), (strategy, partition)
        plan = annulus.plan(ROWS, HEADS, 8, ranks=comm.size, batch=2, kv_heads=2, queries=queries, query_offset="none")
        mine, keys = plan.query_row_numbers(comm.rank), plan.row_numbers(comm.rank)
        q, k, v = (torch.from_numpy(x).transpose(1, 2) for x in (given[0][:, mine], given[1][:, keys], given[2][:, keys]))
        masked = scaled_dot_product_attention(q, k, v, attn_mask=torch.from_numpy(there)[:, None, None], enable_gqa=True, comm=comm)
        assert np.allclose(masked.transpose(1, 2), out[:, mine], atol=1e-12)


def queries_of_which_some_ranks_have_none():
    """A rank's own rows do not show whether q has fewer rows than k. Results are nevertheless those of PyTorch."""
    q, k, v = (torch.from_numpy(np.random.default_rng(i).standard_normal((1, 2, rows, 8))) for i, rows in enumerate((4, 8, 8)))
    for causal, words in ((False, {}), (True, {}), (True, {"segments": ["all"], "dilations": [1]})):
        plan = annulus.plan(8, 2, 8, ranks=comm.size, queries=4, query_offset=0 if causal else "none", causal=causal)
        mine, keys = plan.query_row_numbers(comm.rank), plan.row_numbers(comm.rank)
        found = scaled_dot_product_attention(q[:, :, mine], k[:, :, keys], v[:, :, keys], is_causal=causal, comm=comm, **words)
        assert torch.allclose(found, torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)[:, :, mine])


def said_by(**words):
    mine = annulus.plan(ROWS, HEADS, 8, ranks=comm.size).row_numbers(comm.rank)
    try:
        annulus.attention(*[x[:, mine] for x in whole], **words)
        return "nothing"
    except annulus.AnnulusError as error:
        return str(error)


def mistakes():
    """If one rank makes a mistake, all ranks get the error."""
    for words, expected in (({"causal": False}, "calls with other arrays or settings than rank 0: causal is False, there True"), ({}, "wants (2, ")):
        mine = annulus.plan(ROWS, HEADS, 8, ranks=comm.size).row_numbers(comm.rank)
        bad = comm.rank == comm.size - 1
        if bad and not words:
            mine = mine[:-1] if comm.size > 1 else mine
        if not bad and not words and comm.rank == 0 and comm.size > 1:
            mine = np.arange(len(mine) + 1)
        try:
            annulus.attention(*[x[:, mine] for x in whole], comm=comm, **WORDS | (words if bad else {}))
            said = ""
        except annulus.AnnulusError as error:
            said = str(error)
        assert (expected in said) == (comm.size > 1), said


def mistakes_in_torch():
    """A mistake of the last rank is raised on every rank, also if it is found before the operator is called."""
    last = comm.size - 1
    bad = comm.rank == last
    x, heads_first = torch.ones(1, 6, 2, 8), torch.ones(1, 2, 6, 8)
    keys = torch.ones(1, 1, 1, 6 * comm.size, dtype=torch.bool)
    hole = keys.clone()
    hole[..., 2] = False
    queries = keys.expand(1, 1, 6, -1)
    for call, expected in (
            (lambda: dilated_attention(x.long() if bad else x, x, x, comm=comm), "q has numbers of type int64, expected float64"),
            (lambda: dilated_attention([1.0] if bad else x, x, x, comm=comm), "q is a list, expected a tensor of PyTorch"),
            (lambda: dilated_attention(x, x.to("meta") if bad else x, x, comm=comm), "k is on meta, q on cpu"),
            (lambda: dilated_attention(x, x, x, comm=comm, documents=[-1] if bad else None), "documents[0] is -1, expected"),
            (lambda: dilated_attention(x, x, x, comm=comm, axes="sbhd" if bad else None), "axes is 'sbhd', expected"),
            (lambda: scaled_dot_product_attention(*[heads_first] * 3, comm=comm, scale=-1 if bad else 1), "scale is -1.0, expected"),
            (lambda: annulus.attention(x, x, x, comm=comm, segments=[0] if bad else None), "segments[0] is 0, expected"),
            (lambda: annulus.attention(x, x, x, comm=comm, axes="sbhd" if bad else None), "axes is 'sbhd', expected"),
            (lambda: annulus.attention(x, x, x, comm=comm, **{"casual": True} if bad else {}),
             "attention: got an unexpected keyword argument 'casual', expected"),
            (lambda: dilated_attention(x, x, x, comm=comm, lengths=torch.ones(1, 5, dtype=torch.bool) if bad else None),
             "lengths is a mask (1, 5), expected (1, 6)"),
            (lambda: scaled_dot_product_attention(*[heads_first] * 3, comm=comm, attn_mask=queries if bad else keys),
             f"attn_mask is (1, 1, 6, {6 * comm.size}) and comm is given, expected a mask of keys"),
            (lambda: scaled_dot_product_attention(*[heads_first] * 3, comm=comm, attn_mask=hole if bad else keys),
             f"attn_mask: keys 0 to {6 * comm.size} of entry 0 have 1 masked ones"),
            (lambda: scaled_dot_product_attention(*[heads_first[0, 0] if bad else heads_first] * 3, comm=comm), "query (6, 8), key")):
        try:
            call()
            said = ""
        except annulus.AnnulusError as error:
            said = str(error)
        assert said.startswith(expected if comm.size == 1 else f"rank {last}: {expected}"), (said, expected)
    for words in ({}, {"strategy": "onesided", "reproducible": True}):
        try:
            dilated_attention(x.clone().requires_grad_(bad), x, x, comm=comm, **words)
            said = ""
        except annulus.AnnulusError as error:
            said = str(error)
        assert said == ("" if comm.size == 1 else f"rank {last} calls with other arrays or settings than rank 0: requires_grad is "
                        "True, there False"), said


def one_rank_with_no_array():
    """If one rank passes a list in place of an array, all ranks get the error, and no rank waits for that rank."""
    mine = annulus.plan(ROWS, HEADS, 8, ranks=comm.size).row_numbers(comm.rank)
    q, k, v = (x[:, mine] for x in whole)
    try:
        annulus.attention(q, k, [1.0] if comm.rank == comm.size - 1 else v, comm=comm, **WORDS)
        said = ""
    except annulus.AnnulusError as error:
        said = str(error)
    text = "v is a list, expected an array of NumPy, PyTorch or JAX"
    assert said == (text if comm.size == 1 else f"rank {comm.size - 1}: {text}"), said


def more_heads_than_rows():
    """The check counts the rows of all ranks: a single rank may have fewer rows than heads."""
    refused = "k has 4 key/value heads and 3 rows: are the axes in another order? (axes= says which)"
    for rows, expected in ((5, ""), (3, refused)):
        x = np.random.default_rng(3).standard_normal((1, rows, 4, 8))
        mine = annulus.plan(rows, 4, 8, ranks=comm.size).row_numbers(comm.rank)
        try:
            annulus.attention(*[x[:, mine]] * 3, comm=comm)
            said = ""
        except annulus.AnnulusError as error:
            said = str(error)
        assert said == expected, said


def other_communicators():
    half = comm.Split(comm.rank % 2, comm.rank)
    x = np.random.default_rng(7).standard_normal((1, 10, 2, 4))
    mine = annulus.plan(10, 2, 4, ranks=half.size).row_numbers(half.rank)
    for _ in range(3):
        out, _lse = annulus.attention(*[x[:, mine]] * 3, comm=half)
        assert abs(out - annulus.reference(x, x, x)[0][:, mine]).max() < 1e-12
    half.Free()


class Stop(Exception):
    pass


def calls_after_an_interrupted_one():
    """Messages of a call that progress has ended do not reach the next one. At first the call ends on all ranks, with
    messages in flight: their work takes more than 0.1 s. Then it ends on the last rank alone, and well on the others."""
    rows, heads, last = 1024, (256, 1, 1), comm.size - 1
    mine = annulus.plan(rows, 256, 1, ranks=comm.size, kv_heads=1).row_numbers(comm.rank)
    wanted, other = ([np.random.default_rng(seed + i).standard_normal((1, rows, h, 1), dtype=np.float32)[:, mine] for i, h in enumerate(heads)]
                     for seed in (0, 100))
    words = {"comm": comm, "strategy": "ring", "threads": 1}
    expected = annulus.attention(*wanted, **words)
    for ends, stops in ((True, lambda share: True), (comm.rank == last, lambda share: share == 1 and comm.rank == last)):
        def progress(share, where):
            if stops(share):
                raise Stop
        try:
            annulus.attention(*other, progress=progress, **words)
            ended = False
        except Stop:
            ended = True
        assert ended == ends
        for _ in range(2):
            assert all((found == exact).all() for found, exact in zip(annulus.attention(*wanted, **words), expected))


def ranks_without_rows():
    """There are fewer rows than ranks, or the strategy has all rows on rank 0."""
    words = {"causal": True, "statistics": ["entropy", "received", "top"], "top_keys": 2}
    for rows, strategy in ((1, "ring"), (2, "auto"), (2, "ulysses"), (7, "single")):
        x = np.random.default_rng(3).standard_normal((2, rows, 4, 8))
        plan = annulus.plan(rows, 4, 8, ranks=comm.size, batch=2, type="float64", strategy=strategy, **words)
        mine = plan.row_numbers(comm.rank)
        expected, lse = annulus.reference(x, x, x, axes="bshd", causal=True)
        for kind in (np.asarray, torch.from_numpy, lambda y: y.swapaxes(1, 2).copy().swapaxes(1, 2)):
            q = kind(x[:, mine].copy())
            found = annulus.attention(q, q, q, axes="bshd", comm=comm, strategy=strategy, **words)
            assert np.shape(found[0]) == (2, len(mine), 4, 8) and np.shape(found[2]["top_rows"]) == (2, len(mine), 4, 2)
            assert np.allclose(found[0], expected[:, mine], atol=1e-12) and np.allclose(found[1], lse[:, mine], atol=1e-12)
        q = torch.from_numpy(x[:, mine].copy()).requires_grad_()
        dilated_attention(q, q, q, axes="bshd", comm=comm, strategy=strategy, causal=True).sum().backward()
        assert q.grad.shape == q.shape


def fewer_queries_or_more():
    """Every rank passes its rows of q and of k. Some ranks may have no query."""
    for queries, offset, pattern in ((5, 20, WORDS), (1, "auto", WORDS), (7, "none", {}), (60, "none", {})):
        words = pattern | {"query_offset": offset}
        q, k, v = np.random.default_rng(queries).standard_normal((2, queries, HEADS, 8)), *whole[1:]
        expected, lse = annulus.reference(q, k, v, **words)
        exact = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
        dilated_attention(*exact, **words).square().sum().backward()
        for partition in ("contiguous", "zigzag"):
            plan = annulus.plan(ROWS, HEADS, 8, ranks=comm.size, batch=2, kv_heads=2, type="float64", queries=queries,
                                partition=partition, **words)
            mine, keys = plan.query_row_numbers(comm.rank), plan.row_numbers(comm.rank)
            ours = [torch.from_numpy(x[:, rows].copy()).requires_grad_() for x, rows in ((q, mine), (k, keys), (v, keys))]
            out, own_lse = dilated_attention(*ours, comm=comm, partition=partition, return_lse=True, **words)
            assert out.shape == (2, len(mine), HEADS, 8)
            assert np.allclose(out.detach(), expected[:, mine], atol=1e-12), (queries, partition)
            assert np.allclose(own_lse.detach(), lse[:, mine], atol=1e-12)
            out.square().sum().backward()
            for found, wanted, rows in zip(ours, exact, (mine, keys, keys)):
                assert np.allclose(found.grad, wanted.grad[:, rows], atol=1e-11), (queries, partition)


def all_together():
    """Problems that test_combined draws have the same results on these ranks as in one process."""
    for seed in range(24):
        q, k, v, words = drawn(seed)
        if "lengths" in words:  # padded_batches() tests lengths, which need rows that are a multiple of the ranks
            continue
        sink = words.pop("sink", None)
        partition = ("contiguous", "zigzag")[seed % 2]
        plan = annulus.plan(k.shape[1], q.shape[2], q.shape[3], ranks=comm.size, batch=2, kv_heads=k.shape[2], type="float64",
                            queries=q.shape[1], partition=partition, **words)
        mine, keys = plan.query_row_numbers(comm.rank), plan.row_numbers(comm.rank)
        results = []
        for (queries, held), more in (((slice(None), slice(None)), {}), ((mine, keys), {"comm": comm, "partition": partition})):
            given = [torch.from_numpy(x[:, rows].copy()).requires_grad_() for x, rows in ((q, queries), (k, held), (v, held))]
            logits = None if sink is None else torch.from_numpy(sink).requires_grad_()
            out = dilated_attention(*given, sink=logits, **words, **more)
            out.square().sum().backward()
            results.append([out.detach(), *[x.grad for x in given]])
        for whole_one, found, rows in zip(*results, (mine, mine, keys, keys)):
            assert torch.allclose(found, whole_one[:, rows], rtol=1e-11, atol=1e-11), (seed, words, partition)


for test in (forward_of_every_strategy, all_together, fewer_queries_or_more, gradients, partition_that_is_chosen,
             partition_that_is_chosen_if_reproducible,
             padded_batches, keys_that_do_not_exist, queries_of_which_some_ranks_have_none, mistakes, mistakes_in_torch, one_rank_with_no_array, more_heads_than_rows, other_communicators,
             calls_after_an_interrupted_one, ranks_without_rows):
    test()
    comm.Barrier()
if comm.rank == 0:
    print(f"all well on {comm.size} ranks")
sys.exit(0)
