"""Attention of arrays by its definition: annulus.reference and annulus.verify."""
from typing import NamedTuple

import numpy as np

from annulus.arguments import anything, checked, listed, optional, whole
from annulus.arrays import as_numpy
from annulus.calls import ORDER, Call, _core, canonical_shape
from annulus.errors import AnnulusError
from annulus.options import WORDS, settings_of


@checked(q=anything, k=anything, v=anything, rows=optional(listed(whole(0), "a list of rows", ordered=False)),
         axes=ORDER, sink=anything, more=WORDS)
def reference(q, k, v, *, rows=None, axes=None, sink=None, **words):
    """attention() by its definition, in float64, for all rows or for the given ones. Slow: computes one row at a time.

    Returns (out, lse) as NumPy arrays of float64: (B, rows, H, Dv) and (B, rows, H), or with axes 'bhsd' (B, H, rows, Dv).
    """
    call = Call(q, k, v, settings_of(**words)._replace(statistics=(), top_keys=0), axes, sink=sink)
    (batch, sequence, heads, _), dim = call.q.shape, call.v.shape[3]
    rows = list(range(sequence)) if rows is None else list(rows)
    out, lse = np.empty((batch, len(rows), heads, dim)), np.empty((batch, len(rows), heads))
    of_all = [b * sequence + row for b in range(batch) for row in rows] if call.lies_end_to_end else rows
    for part, arrays, _ in call.each({"out": call.for_core(out), "lse": call.for_core(lse)}):
        _core.reference(part.plan, rows=of_all, sink=call.sink, **arrays)
    return (out.swapaxes(1, 2), lse.swapaxes(1, 2)) if axes == "bhsd" else (out, lse)


# Largest allowed deviation of results x from the definition y, as in `annulus verify`: max |x - y| / max(1, max |y|).
TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 3e-3, "bfloat16": 2e-2}


# The same limit by the precision of the computation (core/tolerance.hpp); for float64 the tensors' type decides.
OF_PRECISION = {"float32": 1e-5, "3xtf32": 1e-5, "6xbfloat16": 1e-5, "3xbfloat16": 1e-4, "tf32": 3e-3, "bfloat16": 2e-2}

# How much rounding may change a score of size 1, by the precision of the computation; other precisions: 2**-24.
SCORE_ROUNDING = {"float64": 2**-53, "3xtf32": 2**-22, "3xbfloat16": 2**-17, "tf32": 2**-11}


class Verified(NamedTuple):
    """What verify() found in these `rows`; true if error_out <= tolerance_out and error_lse <= tolerance. Large scores
    make tolerance_out larger than tolerance."""
    error_out: float
    error_lse: float
    tolerance: float
    rows: tuple
    tolerance_out: float

    def __bool__(self):
        return self.error_out <= self.tolerance_out and self.error_lse <= self.tolerance


def _error(found, expected):
    found = np.asarray(found, np.float64)
    same = (found == expected) & np.isinf(expected)
    if not np.all(np.isfinite(found) & np.isfinite(expected) | same):
        return np.inf
    found, expected = found[~same], expected[~same]
    return float(np.max(np.abs(found - expected), initial=0) / np.max(np.abs(expected), initial=1))


def _score_size(lse, sink, keys):
    """Estimates the largest |score| of any row as verify/forward.cpp does, from lse (B, rows, H) by the definition."""
    lse = np.where(np.isfinite(lse), lse, 0)  # rows without keys
    of_keys = 1 if sink is None else 1 - np.exp(np.minimum(_doubles(sink, "sink") - lse, 0))  # weight of keys, not sink
    return np.max(of_keys * (np.abs(lse) - np.log(keys)), initial=0)


def _doubles(array, name):
    found = as_numpy(array, name)
    numbers = found.numbers
    if found.type == "bfloat16":
        numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
    return numbers.astype(np.float64)


@checked(**dict.fromkeys(("q", "k", "v", "out", "lse"), anything), rows=whole(1), axes=ORDER,
         more=(*WORDS, "sink"))
def verify(q, k, v, out, lse, *, rows=8, axes=None, **words):
    """Compares out and lse of attention(q, k, v, **words) with the definition, in `rows` rows spread over the sequence.
    Returns a Verified, which is true if out and lse agree with it up to rounding.

    >>> x = np.ones((1, 10, 2, 4)); bool(annulus.verify(x, x, x, *annulus.attention(x, x, x)))
    True
    """
    sequence = canonical_shape(as_numpy(q, "q").numbers.shape, axes, "q")[1]
    looked_at = np.unique(np.linspace(0, sequence - 1, min(rows, sequence)).astype(int))
    expected = reference(q, k, v, rows=looked_at, axes=axes, **words)
    along = 2 if axes == "bhsd" else 1
    for name, found, like in (("out", out, expected[0]), ("lse", lse, expected[1])):
        shape, wanted = as_numpy(found, name).numbers.shape, list(like.shape)
        wanted[along] = sequence
        if list(shape) != wanted:
            raise AnnulusError(f"{name} is {shape}, expected ({', '.join(map(str, wanted))})")
    errors = [_error(np.take(_doubles(found, name), looked_at, axis=along), by_definition)
              for name, found, by_definition in (("out", out, expected[0]), ("lse", lse, expected[1]))]
    q_type, out_type, precision = as_numpy(q, "q").type, as_numpy(out, "out").type, words.get("precision", "auto")
    tolerance = max(TOLERANCES[q_type], TOLERANCES[out_type], OF_PRECISION.get(precision, 0))
    scores = _score_size(expected[1].swapaxes(1, 2) if axes == "bhsd" else expected[1], words.get("sink"),
                         canonical_shape(as_numpy(k, "k").numbers.shape, axes, "k")[1])
    rounding = SCORE_ROUNDING.get(q_type if precision == "auto" else precision, 2**-24)
    return Verified(*errors, tolerance, tuple(looked_at.tolist()), max(tolerance, float(2 * scores * rounding)))
