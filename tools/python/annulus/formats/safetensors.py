"""safetensors: 8 bytes with the length of the header, a JSON header, then the numbers, one tensor after another.

    {"q": {"dtype": "BF16", "shape": [1, 4096, 8, 64], "data_offsets": [0, 4194304]}, "__metadata__": {...}}

Files are mapped for reading and written piece after piece. The library of this format is not used, because it needs all
tensors in memory.
"""
import contextlib
import json
import math
import os

import numpy as np

from annulus import elements, tensors
from annulus.errors import AnnulusError, one_line

NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
         "int16": "I16", "int8": "I8", "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64"}
ELEMENTS = {short: elements.BFLOAT16 if name == "bfloat16" else elements.of_dtype(name)
            for name, short in NAMES.items()}
HEADER_MOST = 100_000_000  # bytes; a limit of the format
# Exceptions that reading raises if a header has wrong types of values, or too many levels.
DAMAGED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, OSError)


def note(path, specs):
    return None


def _header(path):
    """(header, position of the numbers). Raises ValueError for files of another kind."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(HEADER_MOST, os.path.getsize(path) - 8):
            raise ValueError("its first 8 bytes are no length of a header")
        header = json.loads(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("its header is no JSON object")
    return header, 8 + length


def _tensor(path, name, entry, start, axes):
    where = f"{path}: {name}"
    element = ELEMENTS[entry["dtype"]]
    shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
    if end - begin != math.prod(shape) * element.storage.itemsize or start + end > os.path.getsize(path):
        raise ValueError(f"the numbers of {name} are not all there")
    mapped = np.empty(shape, element.storage) if 0 in shape else np.memmap(
        path, element.storage, "r", start + begin, shape)
    return tensors.of_array(where, mapped, element, tuple(axes.split()) or None)


@contextlib.contextmanager
def reading(path):
    try:
        header, start = _header(path)
        notes = header.pop("__metadata__", {})
        found = {name: _tensor(path, name, entry, start, notes.get(f"axes.{name}", ""))
                 for name, entry in header.items() if entry["dtype"] in ELEMENTS}  # BOOL and others are left out
    except DAMAGED as problem:
        raise AnnulusError(f"{path}: is no safetensors file ({one_line(problem)}); expected a whole one") from None
    yield found


@contextlib.contextmanager
def writing(path, specs):
    header, offset = {}, 0
    for spec in specs:
        end = offset + math.prod(spec.shape) * spec.element.storage.itemsize
        header[spec.name] = {"dtype": NAMES[spec.element.name], "shape": list(spec.shape), "data_offsets": [offset, end]}
        offset = end
    axes = {f"axes.{spec.name}": " ".join(spec.axes) for spec in specs if spec.axes}
    if axes:
        header["__metadata__"] = axes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the numbers begin at a multiple of 8 bytes
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        yield lambda name, index, piece: file.write(np.ascontiguousarray(piece).data.cast("B"))
