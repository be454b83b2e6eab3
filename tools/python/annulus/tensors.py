"""Tensors that are read piece by piece, and views of them: transposed, stacked, cast.

Nothing here stores numbers: a view reads a piece from its tensors when the piece is asked for.

    with formats.reading(path) as found:                     q is (B, H, S, D), in a file of 100 GiB
        transposed(found["q"], (0, 2, 1, 3)).read(piece)     a piece of (B, S, H, D): only the piece is in memory
"""
import math
from collections.abc import Callable
from typing import NamedTuple, Optional

import numpy as np

from annulus import elements
from annulus.errors import AnnulusError

PIECE_BYTES = 1 << 24  # bytes that are moved at a time


class Spec(NamedTuple):
    """A tensor to be written. `axes` are names like ("batch", "sequence", "head", "dim"), or None."""
    name: str
    shape: tuple
    element: elements.Element
    axes: Optional[tuple] = None


class Tensor(NamedTuple):
    """A tensor to read. `read` takes a tuple of slices with start and stop, one per axis, without steps.

    `where` names file and tensor, for messages.
    """
    where: str
    shape: tuple
    element: elements.Element
    read: Callable
    axes: Optional[tuple] = None


def of_array(where, array, element=None, axes=None):
    """A tensor whose numbers are in memory, or in a file that is mapped into memory."""
    element = element or elements.of_dtype(array.dtype)

    def read(index):
        piece = array[index]
        return piece.view(np.uint16) if element.name == "bfloat16" else piece.astype(element.storage, copy=False)

    return Tensor(where, tuple(array.shape), element, read, axes)


def pieces(shape, number_bytes, limit):
    """Tuples of slices that cover `shape` in row-major order, each of at most `limit` bytes, or of one number.

    (4, 1000), 4 bytes a number, limit 8000: ([0, 2), [0, 1000)) and ([2, 4), [0, 1000)).
    """
    if 0 in shape:
        return
    if not shape:
        yield ()
        return
    row = math.prod(shape[1:]) * number_bytes
    if row <= limit or len(shape) == 1:
        rows = max(1, limit // row)
        for begin in range(0, shape[0], rows):
            yield (slice(begin, min(begin + rows, shape[0])), *(slice(0, extent) for extent in shape[1:]))
        return
    for i in range(shape[0]):
        for rest in pieces(shape[1:], number_bytes, limit):
            yield (slice(i, i + 1), *rest)


def cast(tensor, element):
    """The tensor rounded to another type. Reading raises AnnulusError if a finite number is too large for the type."""

    def read(index):
        numbers = tensor.read(index)
        made = elements.converted(numbers, tensor.element, element)
        large = elements.infinite(made, element)
        if large.any() and (large := large & ~elements.infinite(numbers, tensor.element)).any():
            at = tuple(map(int, np.argwhere(large)[0]))
            value = elements.converted(numbers[at], tensor.element, elements.named("float64"))
            place = [part.start + i for part, i in zip(index, at)]
            raise AnnulusError(f"{tensor.where}: entry {place} is {value:g}, which is too large for {element.name}; "
                               "expected smaller numbers, or a wider type")
        return made

    return tensor._replace(element=element, read=read)


def transposed(tensor, order):
    """Axis i of the view is axis order[i] of `tensor`."""
    inverse = np.argsort(order)
    return tensor._replace(shape=tuple(tensor.shape[axis] for axis in order),
                           axes=tensor.axes and tuple(tensor.axes[axis] for axis in order),
                           read=lambda index: tensor.read(tuple(index[i] for i in inverse)).transpose(order))


def with_batch(tensor):
    """(S, H, D) as (1, S, H, D)."""
    return tensor._replace(shape=(1, *tensor.shape), axes=tensor.axes and ("batch", *tensor.axes),
                           read=lambda index: tensor.read(index[1:])[np.newaxis][index[0]])


def stacked(tensors):
    """(B1, ...), (B2, ...), ... one after another: (B1 + B2 + ..., ...)."""
    begins = np.cumsum([0, *(tensor.shape[0] for tensor in tensors)])

    def read(index):
        parts = []
        for tensor, begin, end in zip(tensors, begins, begins[1:]):
            first, last = max(index[0].start, begin), min(index[0].stop, end)
            if first < last:
                parts.append(tensor.read((slice(int(first - begin), int(last - begin)), *index[1:])))
        return np.concatenate(parts)

    return tensors[0]._replace(shape=(int(begins[-1]), *tensors[0].shape[1:]), read=read)


def split_heads(tensor, heads):
    """(..., S, H * D), as a model's projections return it, as (..., S, H, D)."""
    size = tensor.shape[-1] // heads

    def read(index):
        *before, head, dim = index
        flat = tensor.read((*before, slice(head.start * size, head.stop * size)))
        return flat.reshape(*flat.shape[:-1], head.stop - head.start, size)[..., dim]

    return tensor._replace(shape=(*tensor.shape[:-1], heads, size), read=read,
                           axes=tensor.axes and (*tensor.axes[:-1], "head", "dim"))


def picked(tensor, axis, numbers):
    """The entries `numbers` of an axis, in that order; an entry may occur twice."""

    def read(index):
        parts = []
        for run in _runs(numbers[index[axis]]):
            parts.append(tensor.read((*index[:axis], run, *index[axis + 1:])))
        return np.concatenate(parts, axis=axis)

    return tensor._replace(shape=(*tensor.shape[:axis], len(numbers), *tensor.shape[axis + 1:]), read=read)


def _runs(numbers):
    """[4, 5, 6, 0] as slices 4:7, 0:1."""
    begin = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] != numbers[i - 1] + 1:
            yield slice(numbers[begin], numbers[i - 1] + 1)
            begin = i
