"""A file with one array of numpy. bfloat16 is written as float32, because numpy has no bfloat16."""
import contextlib
import lzma
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np

from annulus import elements, tensors
from annulus.errors import AnnulusError, one_line

# What numpy and zipfile raise for files that are damaged, protected by a password, or of another kind.
DAMAGED = (ValueError, EOFError, OSError, RuntimeError, OverflowError, SyntaxError, tokenize.TokenError, struct.error,
           zipfile.BadZipFile, zlib.error, lzma.LZMAError)


def stored(spec):
    """The element type that a tensor gets in a file of numpy."""
    return elements.FLOAT32 if spec.element.name == "bfloat16" else spec.element


def bfloat16_note(specs):
    if any(spec.element.name == "bfloat16" for spec in specs):
        return "bfloat16 is kept as float32 (numpy has no bfloat16), values unchanged"
    return None


def note(path, specs):
    if len(specs) != 1:
        raise AnnulusError(f"{path}: a .npy file holds one tensor, found {', '.join(spec.name for spec in specs)}; "
                           "expected one, chosen with --only NAME, or a .npz file")
    return bfloat16_note(specs)


def tensor_of(where, array):
    if elements.of_dtype(array.dtype) is None:
        raise AnnulusError(f"{where}: has type {array.dtype}; expected float64, float32, float16 or bfloat16")
    return tensors.of_array(where, array)


def header(file, spec):
    """Writes the header, which comes before the numbers."""
    np.lib.format.write_array_header_2_0(
        file, {"descr": np.lib.format.dtype_to_descr(stored(spec).storage), "fortran_order": False, "shape": spec.shape})


def write_piece(file, spec, piece):
    piece = elements.converted(piece, spec.element, stored(spec))
    file.write(np.ascontiguousarray(piece).data.cast("B"))


@contextlib.contextmanager
def reading(path):
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except DAMAGED as problem:
        raise AnnulusError(f"{path}: is no .npy file of numbers ({one_line(problem)}); "
                           "expected what numpy.save writes") from None
    yield {Path(path).stem: tensor_of(str(path), array)}


@contextlib.contextmanager
def writing(path, specs):
    with open(path, "wb") as file:
        header(file, specs[0])
        yield lambda name, index, piece: write_piece(file, specs[0], piece)
