"""Types of a tensor's numbers. numpy has no bfloat16, so such numbers are stored as their 16 bits in uint16.

A bfloat16 is the upper half of a float32: 1.0 is 0x3f800000 in float32, 0x3f80 in bfloat16.
"""
from typing import NamedTuple

import numpy as np

from annulus.errors import AnnulusError


class Element(NamedTuple):
    name: str           # as in run files: float32, bfloat16, ...
    storage: np.dtype   # dtype of its arrays; uint16 for bfloat16

    @property
    def is_float(self):
        return self.name in FLOATS


FLOATS = ("float64", "float32", "float16", "bfloat16")
BFLOAT16 = Element("bfloat16", np.dtype(np.uint16))
FLOAT32 = Element("float32", np.dtype(np.float32))


def named(name):
    """The element type called `name`. Raises AnnulusError if annulus cannot read numbers of this type."""
    if name not in FLOATS:
        raise AnnulusError(f"type {name}: expected one of {', '.join(FLOATS)}")
    return BFLOAT16 if name == "bfloat16" else Element(name, np.dtype(name))


def of_dtype(dtype):
    """The element type of a numpy dtype: a float or integer type of any byte order; otherwise None."""
    dtype = np.dtype(dtype)
    if dtype.name == "bfloat16" or dtype == np.dtype("V2"):  # from ml_dtypes; numpy saves it as V2
        return BFLOAT16
    if dtype.kind not in "fiu" or dtype.itemsize > 8:
        return None
    return Element(dtype.name, dtype.newbyteorder("="))


def widened(bits):
    """The values of bfloat16 `bits` as float32; exact."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrowed(values):
    """float32 `values` rounded to bfloat16, as bits; ties to even."""
    word = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (word + (0x7fff + ((word >> 16) & 1)).astype(np.uint32)) >> 16
    # Rounding the bits of a NaN could make it infinity or change its sign. So all NaNs become the same NaN.
    return np.where(np.isnan(values), 0x7fc0, rounded).astype(np.uint16)


def infinite(array, element):
    """True where numbers of this type are infinite."""
    return (array & 0x7fff) == 0x7f80 if element.name == "bfloat16" else np.isinf(array)


def converted(array, source, target):
    """Converts `array` from element type `source` to `target`, rounding to nearest (float64 to bfloat16 through
    float32). Numbers too large for `target` become infinity."""
    if source.name == target.name:
        return array
    values = widened(array) if source.name == "bfloat16" else array
    if target.name != "bfloat16":
        with np.errstate(over="ignore"):
            return values.astype(target.storage)
    with np.errstate(over="ignore"):
        return narrowed(values.astype(np.float32))
