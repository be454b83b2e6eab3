"""Types of a tensor's numbers. numpy has no bfloat16: such numbers are kept as their 16 bits, in uint16.

A bfloat16 is the upper half of a float32: 1.0 is 0x3f800000 in float32, 0x3f80 in bfloat16.
"""
from typing import NamedTuple

import numpy as np

from annulus.errors import AnnulusError


class Element(NamedTuple):
    name: str           # as in run files: float32, bfloat16, ...
    storage: np.dtype   # what arrays of it have; of bfloat16 uint16

    @property
    def is_float(self):
        return self.name in FLOATS


FLOATS = ("float64", "float32", "float16", "bfloat16")
BFLOAT16 = Element("bfloat16", np.dtype(np.uint16))
FLOAT32 = Element("float32", np.dtype(np.float32))


def named(name):
    """The element type of that name. Raises AnnulusError for one that annulus does not read."""
    if name not in FLOATS:
        raise AnnulusError(f"type {name}: expected one of {', '.join(FLOATS)}")
    return BFLOAT16 if name == "bfloat16" else Element(name, np.dtype(name))


def of_dtype(dtype):
    """The element type of a numpy dtype: a float or integer type of any byte order; else None."""
    dtype = np.dtype(dtype)
    if dtype.name == "bfloat16" or dtype == np.dtype("V2"):  # of ml_dtypes, and what numpy saves it as
        return BFLOAT16
    if dtype.kind not in "fiu" or dtype.itemsize > 8:
        return None
    return Element(dtype.name, dtype.newbyteorder("="))


def widened(bits):
    """float32 with the values of bfloat16 `bits`; exact."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrowed(values):
    """bfloat16 bits nearest to float32 `values`, ties to even."""
    word = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (word + (0x7fff + ((word >> 16) & 1)).astype(np.uint32)) >> 16
    # Rounding could carry a NaN into infinity or the sign; any NaN will do.
    return np.where(np.isnan(values), 0x7fc0, rounded).astype(np.uint16)


def infinite(array, element):
    """Where there are infinities in numbers of this type."""
    return (array & 0x7fff) == 0x7f80 if element.name == "bfloat16" else np.isinf(array)


def converted(array, source, target):
    """`array` of element type `source` as `target`, rounded to nearest (float64 to bfloat16 by way of float32); what is
    too large for `target` becomes infinity."""
    if source.name == target.name:
        return array
    values = widened(array) if source.name == "bfloat16" else array
    if target.name != "bfloat16":
        with np.errstate(over="ignore"):
            return values.astype(target.storage)
    with np.errstate(over="ignore"):
        return narrowed(values.astype(np.float32))
