"""Reads and writes Zarr groups in folders. bfloat16 is written as float32, because Zarr has no bfloat16."""
import base64
import contextlib
import functools
import math
import os
import struct

from annulus import elements, packing, tensors
from annulus.errors import AnnulusError, one_line
from annulus.formats import npy


def note(path, specs):
    return npy.bfloat16_note(specs)


def _zarr_or_error(path):
    try:
        import zarr
    except ImportError:
        raise AnnulusError(f"{path}: Zarr is not installed in this Python: pip install 'zarr>=3'") from None
    return zarr


def _attributes(array):
    """The attributes of an array. xarray writes a fill value of floats as a text: 8 bytes in base 64."""
    found = dict(array.attrs)
    if isinstance(fill := found.get("_FillValue"), str):
        with contextlib.suppress(ValueError, struct.error):
            found["_FillValue"], = struct.unpack("<d", base64.standard_b64decode(fill))
    return found


def _chunks_and_lacks(path, array):
    """How many chunks (or shards) an array has, and how many of them have no file. Files are counted, because
    array.nchunks_initialized takes minutes for 100,000 chunks (the time grows with the square of their number), and
    does not fit array.nchunks if there are shards."""
    total = math.prod(-(-extent // chunk) for extent, chunk in zip(array.shape, array.shards or array.chunks))
    files = (name for *_, names in os.walk(os.path.join(path, array.path)) for name in names)
    return total, total - sum(name != "zarr.json" and not name.startswith(".") for name in files)


def _tensor(path, name, array):
    where, attributes = f"{path}: {name}", _attributes(array)
    element = elements.of_dtype(array.dtype)
    if element is None:
        raise AnnulusError(f"{where}: has type {array.dtype}; expected float64, float32, float16 or bfloat16")
    axes = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS")
    axes = tuple(axis or "" for axis in axes) if axes and any(axes) else None

    @functools.cache  # runs once, before the first piece
    def check():
        packing.refuse_packed(where, attributes)
        total, lacks = _chunks_and_lacks(path, array)
        if lacks > 0:  # Zarr does not write chunks of fill values either
            packing.report_gaps(f"{where} lacks {lacks} of its {total} chunks (never written, or only fill values)",
                                array.fill_value or 0)

    def read(index):
        check()
        try:
            numbers = array[index].astype(element.storage)
        except Exception as problem:  # codecs raise many kinds of exceptions
            raise AnnulusError(f"{where}: cannot be read ({one_line(problem)}); expected whole chunks") from None
        packing.refuse_missing(where, attributes, numbers, element)
        return numbers

    return tensors.Tensor(where, tuple(array.shape), element, read, axes)


@contextlib.contextmanager
def reading(path):
    zarr = _zarr_or_error(path)
    try:
        root = zarr.open(str(path), mode="r")
        arrays = {"tensor": root} if isinstance(root, zarr.Array) else {
            name: member for name, member in root.members(max_depth=None)
            if isinstance(member, zarr.Array) and elements.of_dtype(member.dtype) is not None}
    except Exception:  # raised by zarr, its stores or its codecs
        raise AnnulusError(f"{path}: is no readable Zarr group or array; expected a folder that Zarr wrote") from None
    yield {name: _tensor(path, name, array) for name, array in arrays.items()}


def _chunks(spec):
    """Chunks have the shape of the first piece that will be written, so that no chunk is written twice."""
    first = next(tensors.pieces(spec.shape, spec.element.storage.itemsize, tensors.PIECE_BYTES), None)
    return tuple(piece.stop - piece.start for piece in first) if first else tuple(max(1, n) for n in spec.shape)


@contextlib.contextmanager
def writing(path, specs):
    zarr = _zarr_or_error(path)
    root = zarr.create_group(str(path))
    arrays = {}
    for spec in specs:
        stored = npy.stored(spec)
        arrays[spec.name] = root.create_array(
            spec.name, shape=spec.shape, dtype=stored.storage, chunks=_chunks(spec), dimension_names=spec.axes)

    specs = {spec.name: spec for spec in specs}

    def write(name, index, piece):
        arrays[name][index] = elements.converted(piece, specs[name].element, npy.stored(specs[name]))

    yield write
