"""Attributes that say that stored numbers are not the real values. They come from netCDF; xarray and others write them.

    scale_factor, add_offset     the value is number * scale_factor + add_offset
    _FillValue, missing_value    a number that means "nothing here"

annulus computes with the numbers as they are stored. So it refuses a dataset with such attributes, unless they change
nothing: a fill value that does not occur in the numbers that are read, or a scale of 1 with an offset of 0.

No attribute marks numbers that were never written. report_gaps() and refuse_netcdf_fill() report these numbers.
"""
import sys

import numpy as np

from annulus import elements
from annulus.errors import AnnulusError

PACKED = {"scale_factor": 1, "add_offset": 0}  # {attribute: the value that changes nothing}
FILLS = ("_FillValue", "missing_value")
NETCDF_FILL = float.fromhex("0x1.ep+122")  # what netCDF returns for floats that were never written; float32 can hold it


def refuse_packed(where, attributes):
    for name, plain in PACKED.items():
        if name in attributes and not _says(attributes[name], plain):
            raise AnnulusError(f"{where}: attribute {name} is {_shown(attributes[name])}, so that its numbers "
                               "are not the values; expected the values (xarray.open_dataset() computes them)")


def refuse_missing(where, attributes, numbers, element):
    """Raises if `numbers` (of the element type, bfloat16 as bits) contain a fill value."""
    for name in FILLS:
        for fill in np.ravel(attributes[name]) if name in attributes else ():
            if (count := _occurrences(fill, numbers, element)):
                raise AnnulusError(f"{where}: {count} of the {numbers.size:,} entries read are {_shown(fill)}, which "
                                   f"attribute {name} calls missing; expected numbers everywhere")


def refuse_netcdf_fill(where, numbers, element):
    if (count := _occurrences(NETCDF_FILL, numbers, element)):
        raise AnnulusError(f"{where}: {count} of the {numbers.size:,} entries read are {NETCDF_FILL}, which netCDF "
                           "returns for numbers that were never written; expected numbers everywhere")


def report_gaps(gaps, fill, may_be_unread=False):
    """Reports numbers that were never written; they are read as `fill`, or, if `fill` is None, as whatever is in
    memory. Prints a warning if they are read as 0, or may not be read at all; otherwise raises AnnulusError. `gaps`
    says what is missing where."""
    read_as = f"{gaps}; they are read as {'whatever is in memory' if fill is None else fill}"
    if fill != 0 and not may_be_unread:
        raise AnnulusError(f"{read_as}; expected a tensor that is written completely")
    print(f"annulus-tools: warning: {read_as}", file=sys.stderr)


def _occurrences(fill, numbers, element):
    if np.asarray(fill).dtype.kind not in "fiu":
        return 0  # a number never equals a text
    values = elements.widened(numbers) if element.name == "bfloat16" else numbers
    if np.isnan(fill):
        return int(np.count_nonzero(np.isnan(values)))
    if element.is_float:  # the attribute may have a wider type than the numbers
        fill = elements.converted(np.array([fill], np.float64), elements.named("float64"), element)
        fill = elements.widened(fill) if element.name == "bfloat16" else fill
    return int(np.count_nonzero(values == fill))


def _says(value, plain):
    value = np.asarray(value)
    return value.dtype.kind in "fiu" and bool((value == plain).all())


def _shown(value):
    value = np.ravel(value)
    return str(value[0]) if value.size == 1 else str(value.tolist())
