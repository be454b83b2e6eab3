"""Moves rows from one partition of the sequence to another, in one all-to-all."""
import functools
import hashlib
import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from annulus.arguments import anything, checked, refuse_masked, whole, wrong
from annulus.arrays import dense
from annulus.communicators import core_communicator, gathered, mpi_of
from annulus.errors import AnnulusError
from annulus.plans import Plan


def _plan(value, name):
    if not isinstance(value, Plan):
        raise wrong(value, name, "a plan, which annulus.plan() makes")
    return value


def _around_checks(given):
    from annulus.calls import raised_on_all_ranks
    return raised_on_all_ranks(given.get("comm"))


@checked(x=anything, from_plan=_plan, to_plan=_plan, comm=anything, axis=whole(0), around_checks=_around_checks)
def redistribute(x, from_plan, to_plan, comm, *, axis=1):
    """Takes x, this rank's rows in `from_plan`; returns this rank's rows in `to_plan`. All ranks of comm must call.

    Parameters
    ----------
    x : array of NumPy or tensor of PyTorch (CPU), of any type. Along `axis` it has the rows
        from_plan.row_numbers(rank), in that order; each other axis has the same length on all ranks. The default, axis
        1, is for q, k, v (B, S, H, D) and tokens (B, S); use axis=2 for (B, H, S, D).
    from_plan, to_plan : from annulus.plan(), for the same sequence and for as many ranks as comm has.
    comm : as in annulus.attention(); None: this process alone.

    Returns a new array of the same kind and type with the rows to_plan.row_numbers(rank). A tensor's gradients
    are moved back by the reverse exchange. If x on one rank does not have the plan's rows, all raise AnnulusError.

    >>> zigzag, plain = (annulus.plan(8, 1, 1, ranks=2, strategy="ring", partition=name) for name in ("zigzag", "contiguous"))
    >>> x = zigzag.row_numbers(comm.rank)                  # rank 0: [0 1 6 7], rank 1: [2 3 4 5]
    >>> redistribute(x, zigzag, plain, comm, axis=0)       # rank 0: [0 1 2 3], rank 1: [4 5 6 7]
    """
    torch = sys.modules.get("torch")
    is_torch = torch is not None and isinstance(x, torch.Tensor)
    if is_torch and x.requires_grad and torch.is_grad_enabled() and not _transform_of(x):
        return _differentiable().apply(x, from_plan, to_plan, comm, axis)
    return _redistribute(x, from_plan, to_plan, comm, axis, has_gradients=False)


@functools.cache
def _differentiable():
    import torch

    class Redistribution(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, from_plan, to_plan, comm, axis):
            ctx.back = to_plan, from_plan, comm, axis
            return _redistribute(x, from_plan, to_plan, comm, axis, has_gradients=True)

        @staticmethod
        def backward(ctx, gradient):
            return redistribute(gradient, *ctx.back[:3], axis=ctx.back[3]), None, None, None, None

    return Redistribution


def _transform_of(x):
    """Why x cannot be moved while PyTorch differentiates or maps it, in a message's words; None if x can be moved."""
    import torch
    from torch.autograd import forward_ad
    if torch._C._functorch.is_functorch_wrapped_tensor(x):
        return "is inside a transform of torch.func (grad, vmap, jvp)"
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None:
        return "has a tangent of forward-mode differentiation"
    return None


class Rows(NamedTuple):
    """An array as bytes, with rows as the first axis."""
    numbers: np.ndarray                        # (rows, bytes of a row), uint8, contiguous
    others: str                                # type and other axes, the same on all ranks
    made: Callable[[np.ndarray], object]       # turns such numbers into an array of the caller's kind


def _rows_of(x, axis):
    torch = sys.modules.get("torch")
    is_torch = torch is not None and isinstance(x, torch.Tensor)
    refuse_masked(x, "x")
    if is_torch and dense(x, "x").device.type != "cpu":
        raise AnnulusError(f"x is on {x.device}, expected x.cpu()")
    if is_torch and (transform := _transform_of(x)):
        raise AnnulusError(f"x {transform}, which redistribute does not support; expected gradients by backward()")
    if not is_torch and (not isinstance(x, np.ndarray) or x.dtype.hasobject):
        raise wrong(x, "x", "an array of NumPy or a tensor of PyTorch")
    if x.ndim <= axis:
        raise AnnulusError(f"x has {x.ndim} axes, expected more than axis={axis}, along which its rows lie")
    if is_torch:
        ahead = x.detach().resolve_conj().resolve_neg().movedim(axis, 0).contiguous()
        flat = ahead.flatten().view(torch.uint8).numpy()
    else:
        ahead = np.ascontiguousarray(np.moveaxis(x, axis, 0))
        flat = ahead.reshape(-1).view(np.uint8)
    rest = tuple(ahead.shape[1:])
    width = math.prod(rest) * ahead.itemsize

    def made(numbers):
        if is_torch:
            whole_again = torch.from_numpy(numbers).flatten().view(x.dtype).reshape(len(numbers), *rest)
            return whole_again.movedim(0, axis).contiguous()
        return np.ascontiguousarray(np.moveaxis(numbers.reshape(-1).view(x.dtype).reshape(len(numbers), *rest), 0, axis))
    return Rows(flat.reshape(len(ahead), width), f"{x.dtype} {rest} for each row along axis {axis}", made)


@functools.lru_cache(maxsize=16)
def _owners(plan):
    """(first rows of the plan's intervals, ascending; the rank that holds each interval; rows of the sequence)."""
    parts = sorted((begin, end, rank) for rank in range(plan.ranks) for begin, end in plan.rows(rank) if begin < end)
    return np.array([part[0] for part in parts]), np.array([part[2] for part in parts]), parts[-1][1]


def _partners(mine, plan, ranks):
    """(order, counts): `order` sorts the rows `mine` by the rank that holds them in `plan`, then by their number;
    `counts` has the number of rows for each rank. So sender and receiver agree on the order without a message."""
    first, holder, _ = _owners(plan)
    partner = holder[np.searchsorted(first, mine, "right") - 1]
    return np.lexsort((mine, partner)), np.bincount(partner, minlength=ranks)


def _redistribute(x, from_plan, to_plan, comm, axis, has_gradients):
    ours = core_communicator(comm)
    rows, problem = None, None
    try:
        _check_plans(from_plan, to_plan, ours.size)
        had, wanted = from_plan.row_numbers(ours.rank), to_plan.row_numbers(ours.rank)
        rows = _rows_of(x, axis)
        if len(rows.numbers) != len(had):
            problem = f"x has {len(rows.numbers)} rows along axis {axis}, from_plan gives rank {ours.rank} {len(had)}"
    except AnnulusError as error:
        problem = str(error)
    identities = problem is None and (_identity(from_plan), _identity(to_plan))
    _raise_on_all_ranks(mpi_of(comm), problem, rows and (rows.others, has_gradients), identities)
    out_order, out_counts = _partners(had, to_plan, ours.size)
    in_order, in_counts = _partners(wanted, from_plan, ours.size)
    arrived = _exchanged(mpi_of(comm), rows.numbers[out_order], out_counts, in_counts)
    sorted_back = np.empty_like(arrived)
    sorted_back[in_order] = arrived
    return rows.made(sorted_back)


def _check_plans(from_plan, to_plan, ranks):
    for name, plan in (("from_plan", from_plan), ("to_plan", to_plan)):
        if plan.ranks != ranks:
            raise AnnulusError(f"{name} is for {plan.ranks} ranks, comm has {ranks}; expected as many")
    if _owners(from_plan)[2] != _owners(to_plan)[2]:
        raise AnnulusError(f"from_plan has {_owners(from_plan)[2]} rows, to_plan {_owners(to_plan)[2]}; expected one sequence")


@functools.lru_cache(maxsize=16)
def _identity(plan):
    """A fingerprint of which rank holds which rows, in their order."""
    return hashlib.sha256(repr([plan.rows(rank) for rank in range(plan.ranks)]).encode()).hexdigest()


def _raise_on_all_ranks(comm, problem, others, plans):
    """Raises on every rank the mistake that one rank found, so that no rank waits for another."""
    said = [(problem, others, plans)] if comm is None else gathered(comm, (problem, others, plans))
    everywhere = len({found for found, _, _ in said}) == 1
    for rank, (found, _, _) in enumerate(said):
        if found:
            raise AnnulusError(found if everywhere else f"rank {rank}: {found}")
    for rank, (_, other, held) in enumerate(said):
        for name, mine, first in zip(("from_plan", "to_plan"), held, said[0][2]):
            if mine != first:
                raise AnnulusError(f"{name} of rank {rank} gives other rows to the ranks than that of rank 0; expected the "
                                   "same plans on every rank")
        (kind, has_gradients), (kind_of_first, first_has) = other, said[0][1]
        if kind != kind_of_first:
            raise AnnulusError(f"x of rank {rank} is {kind}, of rank 0 {kind_of_first}; expected the same")
        if has_gradients != first_has:  # in the backward pass some ranks would wait for the others
            raise AnnulusError(f"x of rank {rank} has requires_grad {has_gradients}, of rank 0 {first_has}; expected the same")


def _exchanged(comm, numbers, out_counts, in_counts):
    """Sends rows of bytes, sorted by receiving rank; returns the rows that arrive, sorted by sending rank."""
    if comm is None or numbers.shape[1] == 0:
        return numbers if comm is None else np.empty((in_counts.sum(), 0), np.uint8)
    from mpi4py import MPI
    arrived = np.empty((in_counts.sum(), numbers.shape[1]), np.uint8)
    row = MPI.BYTE.Create_contiguous(numbers.shape[1]).Commit()  # MPI's counts are C ints, so they count rows

    def described(array, counts):
        return [array, counts, np.cumsum(counts) - counts, row]
    try:
        comm.Alltoallv(described(numbers, out_counts), described(arrived, in_counts))
    finally:
        row.Free()
    return arrived
