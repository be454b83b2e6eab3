"""Run on several ranks by test_process_groups.py: process groups of PyTorch as comm=, and annulus.redistribute.

The ranks of PyTorch are in the opposite order of MPI's: RANK is SIZE - 1 minus the MPI rank.
"""
import functools
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import transformers
from definition import composed, often, pattern_of
from mpi4py import MPI
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.experimental import context_parallel

import annulus
from annulus.communicators import mpi_of
from annulus.torch import communicator_name, dilated_attention, register

comm = MPI.COMM_WORLD
SIZE, RANK = comm.size, comm.size - 1 - comm.rank
dist.init_process_group("gloo", init_method=f"file://{Path(sys.argv[1]).resolve()}/store", rank=RANK, world_size=SIZE)
WORLD = dist.group.WORLD
ROWS, HEADS = 29, 4
WORDS = {"segments": (8, "all"), "dilations": (1, 3), "causal": True}
whole = [torch.from_numpy(np.random.default_rng(i).standard_normal((2, ROWS, h, 8))) for i, h in enumerate((HEADS, 2, 2))]


def said_by(function, *arguments, **words):
    try:
        function(*arguments, **words)
        return ""
    except annulus.AnnulusError as error:
        return str(error)


def expected_gradients(rows):
    given = [x[:, :rows].clone().requires_grad_() for x in whole]
    out = composed(*given, often(rows, HEADS, pattern_of(*WORDS.values())))[0]
    out.square().sum().backward()
    return out.detach(), [x.grad for x in given]


def check(group, run=dilated_attention, rows=ROWS, comm=None):
    """The ranks of the group together compute the attention of the whole sequence. Rows are in the group's order."""
    mine = annulus.plan(rows, HEADS, 8, ranks=dist.get_world_size(group)).row_numbers(dist.get_rank(group))
    given = [x[:, mine].clone().requires_grad_() for x in whole]
    out = run(*given, comm=comm or group, **WORDS)
    out.square().sum().backward()
    expected, gradients = expected_gradients(rows)
    assert (out - expected[:, mine]).abs().max() < 1e-11
    for x, gradient in zip(given, gradients):
        assert (x.grad - gradient[:, mine]).abs().max() < 1e-11


def a_group_of_all_ranks():
    check(WORLD)
    check(WORLD)
    assert mpi_of(WORLD) is mpi_of(WORLD) and mpi_of(WORLD).rank == RANK
    check(None, comm=init_device_mesh("cpu", (SIZE,)).get_group())


def subgroups():
    halves = [dist.new_group(list(range(begin, SIZE, 2))) for begin in range(min(2, SIZE))]
    for begin, group in enumerate(halves):
        if RANK % 2 == begin:
            check(group, rows=11)
        else:
            said = said_by(annulus.attention, *[x[:, :3] for x in whole], comm=group)
            assert said.startswith("comm: this process is no member of the process group"), said
    dist.barrier()


def names():
    name = communicator_name(WORLD)
    assert name == communicator_name(WORLD) == communicator_name(name)
    check(WORLD, comm=name)
    assert said_by(communicator_name, WORLD, "other") == f"name is 'other', expected {name!r}: the communicator has it already"
    own = comm.Dup()
    assert communicator_name(own, "own") == "own"
    if SIZE == 1:  # on more ranks `own` has MPI's order of ranks, and WORLD the opposite order
        check(WORLD, comm="own")
    other = comm.Dup()
    assert said_by(communicator_name, other, "own").startswith("name is 'own', which is another communicator's")
    own.Free()
    assert said_by(mpi_of, "own") == ("comm is 'own', whose communicator has been freed, expected one that exists until the "
                                      "backward pass has ended")
    assert communicator_name(other, "own") == "own" and mpi_of("own") is other
    other.Free()
    alone = MPI.COMM_SELF.Dup()
    if comm.rank == 0:
        communicator_name(alone, "mine")
    where = "" if SIZE == 1 else " on rank 0"
    third = comm.Dup()
    assert said_by(communicator_name, third, "mine") == (
        f"name is 'mine', which is another communicator's{where}; expected a new name")
    third.Free()
    alone.Free()


def compiled_with_a_name():
    name = communicator_name(WORLD)
    for backend in ("aot_eager", "inductor") if SIZE < 3 else ("aot_eager",):
        torch.compiler.reset()
        check(WORLD, torch.compile(lambda *x, comm, **words: dilated_attention(*x, comm=comm, **words), fullgraph=True,
                                   backend=backend), comm=name)


def models_of_transformers():
    """A causal model, one with a window and one that is not causal; each rank has its rows of the text."""
    sizes = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2}
    text = torch.randint(0, 50, (2, ROWS), generator=torch.Generator().manual_seed(1))
    mine = torch.from_numpy(annulus.plan(ROWS, HEADS, 8, ranks=SIZE).row_numbers(RANK))
    words = {"input_ids": text[:, mine], "position_ids": mine.expand(2, -1)}
    torch.cuda.is_current_stream_capturing = lambda: False  # as in test_transformers.py
    register(comm=WORLD, threads=1)
    for kind, more in ((transformers.LlamaModel, {"use_cache": False}),
                       (transformers.MistralModel, {"use_cache": False, "sliding_window": 7}),
                       (transformers.BertModel, {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0})):
        torch.manual_seed(0)
        model = kind(kind.config_class(**sizes, **more)).double()
        model.set_attn_implementation("sdpa")
        expected = model(text).last_hidden_state[:, mine]
        model.set_attn_implementation("annulus")
        assert (model(**words).last_hidden_state - expected).abs().max() < 1e-10, kind
        mask = torch.ones(2, len(mine), dtype=torch.long)
        mask[1, -1] = RANK < SIZE - 1
        assert "attention_mask has padding" in said_by(model, attention_mask=mask, **words), kind


def transformed_by_torch_func():
    mine = annulus.plan(ROWS, HEADS, 8, ranks=SIZE).row_numbers(RANK)
    given = [x[:, mine] for x in whole]
    found = torch.func.grad(lambda *x: dilated_attention(*x, comm=WORLD, **WORDS).square().sum(), (0, 1, 2))(*given)
    for one, gradient in zip(found, expected_gradients(ROWS)[1]):
        assert (one - gradient[:, mine]).abs().max() < 1e-11
    two = torch.vmap(lambda *x: dilated_attention(*x, comm=WORLD, **WORDS))(*[torch.stack([x, 2 * x]) for x in given])
    assert (two[0] - expected_gradients(ROWS)[0][:, mine]).abs().max() < 1e-11


def distributed_tensors():
    q = distribute_tensor(torch.ones(1, 4 * SIZE, 2, 4), init_device_mesh("cpu", (SIZE,)), [Shard(1)])
    assert said_by(dilated_attention, q, q, q) == ("q is a DTensor, expected its shard, q.to_local(), and "
                                                   "comm=mesh.get_group()")


def the_rows_of_context_parallel():
    """The head-tail load balancer of context_parallel gives a rank the rows that the partition zigzag gives it."""
    rows = torch.arange(12 * SIZE)[None].clone()
    plan = annulus.plan(12 * SIZE, HEADS, 8, ranks=SIZE, causal=True, partition="zigzag", strategy="ring")
    with context_parallel(init_device_mesh("cpu", (SIZE,)), buffers=[rows], buffer_seq_dims=[1]):
        assert rows[0].tolist() == plan.row_numbers(RANK).tolist(), (rows, plan.rows(RANK))


def plans(rows):
    """Plans that give a rank two ranges of rows, one range, all rows or none, and blocks dealt round-robin."""
    more = {"heads": HEADS, "head_dim": 8, "ranks": SIZE, "causal": True}
    yield annulus.plan(rows, partition="zigzag", strategy="ring", **more)
    yield annulus.plan(rows, partition="contiguous", strategy="ring", **more)
    yield annulus.plan(rows, strategy="single", **more)
    yield annulus.plan(rows, partition="block_cyclic", strategy="ring", **more)


def of_a_kind(numbers, kind):
    return numbers if kind == "numpy" else torch.from_numpy(numbers).to(getattr(torch, kind))


def redistributed():
    for rows in (1, 2, 29, 64):
        numbers = np.random.default_rng(4).integers(0, 100, (2, rows, 3))
        for before in plans(rows):
            for after in plans(rows):
                had, wanted = before.row_numbers(RANK), after.row_numbers(RANK)
                for kind in ("numpy", "float32", "bfloat16", "int64", "complex64", "bool") if rows == 29 else ("numpy", "float16"):
                    x = of_a_kind(numbers, kind)
                    found = annulus.redistribute(x[:, had], before, after, WORLD)
                    assert type(found) is type(x) and found.dtype == x.dtype and found.shape == x[:, wanted].shape
                    assert (found == x[:, wanted]).all(), (before, after, kind)
                    turned = annulus.redistribute(x[:, had].swapaxes(1, 2), before, after, WORLD, axis=2)
                    assert (turned == x[:, wanted].swapaxes(1, 2)).all()
                one = annulus.redistribute(numbers[0, had, 0], before, after, WORLD, axis=0)
                assert (one == numbers[0, wanted, 0]).all()


def redistributed_with_gradients():
    zigzag, contiguous, *_ = plans(ROWS)
    weight = torch.arange(ROWS * 6.0).reshape(2, ROWS, 3)
    x = weight[:, zigzag.row_numbers(RANK)].clone().requires_grad_()
    moved = annulus.redistribute(x, zigzag, contiguous, WORLD)
    (moved * weight[:, contiguous.row_numbers(RANK)]).sum().backward()
    assert torch.equal(x.grad, weight[:, zigzag.row_numbers(RANK)])


def redistribution_of_tangents_and_in_transforms_is_refused():
    """If it is asked on one rank only, every rank raises the error."""
    plan, is_first = next(plans(ROWS)), RANK == 0
    x = torch.ones(1, len(plan.row_numbers(RANK)), 2)
    move = functools.partial(annulus.redistribute, from_plan=plan, to_plan=plan, comm=WORLD)
    for transformed, expected in (
            (lambda x: torch.func.grad(lambda x: move(x).sum())(x), "x is inside a transform of torch.func (grad, vmap, jvp)"),
            (lambda x: torch.vmap(move)(x[None]), "x is inside a transform of torch.func (grad, vmap, jvp)"),
            (lambda x: torch.func.jvp(move, (x,), (x,)), "x is inside a transform of torch.func (grad, vmap, jvp)"),
            (lambda x: with_tangent(move, x), "x has a tangent of forward-mode differentiation"),
            (lambda x: with_tangent(move, x.requires_grad_()), "x has a tangent of forward-mode differentiation")):
        said = said_by(transformed if is_first else move, x.clone())
        assert said == ("" if SIZE == 1 else "rank 0: ") + (
            f"{expected}, which redistribute does not support; expected gradients by backward()"), said


def with_tangent(function, x):
    with torch.autograd.forward_ad.dual_level():
        return function(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)))


def redistribution_refused():
    zigzag, contiguous, *_ = plans(ROWS)
    x = np.ones((1, len(zigzag.row_numbers(RANK)) + (RANK == SIZE - 1), 2))
    said = said_by(annulus.redistribute, x, zigzag, contiguous, WORLD)
    if SIZE > 1:  # a square array; the ranks choose different axes
        square = np.ones((len(zigzag.row_numbers(RANK)),) * 2)
        told = said_by(annulus.redistribute, square, zigzag, zigzag, WORLD, axis=min(RANK, 1))
        assert "for each row along axis 1" in told and "for each row along axis 0" in told, told
    found = f"x has {len(zigzag.row_numbers(SIZE - 1)) + 1} rows along axis 1, from_plan gives rank {SIZE - 1} " \
            f"{len(zigzag.row_numbers(SIZE - 1))}"
    assert said == (found if SIZE == 1 else f"rank {SIZE - 1}: {found}"), said
    x = np.ones((1, len(zigzag.row_numbers(RANK)), 2 + (RANK == SIZE - 1)))
    said = said_by(annulus.redistribute, x, zigzag, contiguous, WORLD)
    assert said == ("" if SIZE == 1 else f"x of rank {SIZE - 1} is float64 (1, 3) for each row along axis 1, of "
                    "rank 0 float64 (1, 2) for each row along axis 1; expected the same"), said
    x = torch.ones(1, len(zigzag.row_numbers(RANK)), 2, requires_grad=RANK == SIZE - 1)
    said = said_by(annulus.redistribute, x, zigzag, contiguous, WORLD)
    assert said == ("" if SIZE == 1 else f"x of rank {SIZE - 1} has requires_grad True, of rank 0 False; expected the same"), said
    said = said_by(annulus.redistribute, x, zigzag, contiguous, WORLD, axis=-1 if RANK == SIZE - 1 else 1)
    found = "axis is -1, expected a whole number, 0 or more"
    assert said == (found if SIZE == 1 else f"rank {SIZE - 1}: {found}"), said
    many, longer = (annulus.plan(rows, 1, 1, ranks=ranks) for rows, ranks in ((ROWS, SIZE + 1), (ROWS + 1, SIZE)))
    assert said_by(annulus.redistribute, x, many, contiguous, WORLD) == (
        f"from_plan is for {SIZE + 1} ranks, comm has {SIZE}; expected as many")
    x = np.ones((1, len(zigzag.row_numbers(RANK)), 2))
    assert said_by(annulus.redistribute, x, zigzag, longer, WORLD) == (
        f"from_plan has {ROWS} rows, to_plan {ROWS + 1}; expected one sequence")
    is_last = RANK == SIZE - 1
    said = said_by(annulus.redistribute, x, zigzag, zigzag if is_last else contiguous, WORLD)
    assert said == ("" if SIZE == 1 else f"to_plan of rank {SIZE - 1} gives other rows to the ranks than that of rank 0; "
                    "expected the same plans on every rank"), said
    said = said_by(annulus.redistribute, x, zigzag, longer if is_last else contiguous, WORLD)
    found = f"from_plan has {ROWS} rows, to_plan {ROWS + 1}; expected one sequence"
    assert said == (found if SIZE == 1 else f"rank {SIZE - 1}: {found}"), said


for test in (a_group_of_all_ranks, subgroups, names, compiled_with_a_name, models_of_transformers,
             transformed_by_torch_func, distributed_tensors,
             the_rows_of_context_parallel, redistributed, redistributed_with_gradients,
             redistribution_of_tangents_and_in_transforms_is_refused, redistribution_refused):
    test()
    comm.Barrier()
dist.destroy_process_group()
if comm.rank == 0:
    print(f"all well on {comm.size} ranks")
