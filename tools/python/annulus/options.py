"""The settings of attention(), and the kinds that check them. annulus.arguments says what a kind is."""
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from annulus.arguments import (anything, as_array, checked, choice, flag, is_text, listed, number, optional,
                               refuse_gradients, refuse_masked, shown, text, whole, wrong)
from annulus.errors import AnnulusError, one_line

STATISTICS = ("entropy", "received", "top")
TOP_KEYS_MOST = 1024  # the same limit as in a run file


class Settings(NamedTuple):
    """Arguments of attention(): all but q, k, v, sink, axes, comm, progress and threads; hashable."""
    segments: tuple
    dilations: tuple
    causal: bool
    semantics: str
    documents: tuple
    scale: float | None
    group_scale: bool
    softcap: float | None
    bias: tuple | None  # slopes (empty: ALiBi's own), and number of exempt rows
    coordinates_hex: str  # (S, 2) float64 in hexadecimal: short, and quick to hash
    statistics: tuple
    top_keys: int
    strategy: str
    partition: str
    precision: str
    reproducible: bool
    query_offset: int | str = "auto"
    lengths: tuple = ()  # (first row, end) of each batch entry


class Window(NamedTuple):
    """An entry of `segments` that is a window: row x sees the rows x - j r for -right <= j <= left, where r is the
    pair's dilation; with r = 1 also the first `first` rows of row x's document. annulus.window() makes one."""
    left: int
    right: int
    first: int = 0

    def __str__(self):
        return f"{{window: [{self.left}, {self.right}]{f', first: {self.first}' if self.first else ''}}}"


_rows = whole(1, also=", 'all' or a window")
_limits = listed(whole(0), "a number of rows, or [left, right]", lengths=(2,))


def _window_of(rows, first, names):
    """The Window for `rows`: w, or [left, right]."""
    if not isinstance(rows, (int, str, bytes)) and hasattr(rows, "__len__"):
        left, right = _limits(rows, names[0])
    else:
        left = right = whole(1, also=", or [left, right]")(rows, names[0]) - 1  # a causal mask hides the right side
    return Window(left, right, whole(0)(first, names[1]))


@checked(rows=anything, first=anything)
def window(rows, *, first=0):
    """Makes an entry of `segments`: each row sees a window of rows around it.

    rows : w: a row sees itself and w - 1 rows before it, and without a causal mask also w - 1 rows after it. Or [left,
        right]: `left` rows before it and `right` rows after it. With dilation r the window has every r-th row.
    first : the first rows of the sequence, or of the row's document, are also seen, each once (dilation 1 only).

    >>> window(4096, first=4)
    Window(left=4095, right=4095, first=4)
    """
    return _window_of(rows, first, ("rows", "first"))


def segment(value, name):
    """A kind: a number of rows (0 for "all", as in the library), or a Window (also from {"window": w, "first": f})."""
    if isinstance(value, Window):
        return Window(*(whole(0)(number, f"{name}: {limit}") for limit, number in value._asdict().items()))
    if isinstance(value, Mapping):
        if "window" not in value or not set(value) <= {"window", "first"}:
            raise wrong(value, name, "{'window': rows or [left, right], 'first': rows}")
        return _window_of(value["window"], value.get("first", 0), (f"{name}: window", f"{name}: first"))
    return 0 if value is None or (isinstance(value, str) and value == "all") else _rows(value, name)


_row = whole(0, also=", 'auto' or 'none'")


def _offset(value, name):
    return value if isinstance(value, str) and value in ("auto", "none") else _row(value, name)


def positive(value, name):
    value = number(value, name)
    if not value > 0:
        raise wrong(value, name, "a number above 0")
    return value


def bias(value, name):
    """A kind: (slopes, exempt) from {"alibi": "auto" or slopes, "exempt": rows}."""
    form = "{'alibi': 'auto' or one slope per head, 'exempt': rows}"
    if not isinstance(value, Mapping) or "alibi" not in value or not set(value) <= {"alibi", "exempt"}:
        raise wrong(value, name, form)
    slopes = value["alibi"]
    is_auto = isinstance(slopes, str) and slopes == "auto"
    return (() if is_auto else listed(number, "'auto' or a list of numbers", lengths=range(1, 2**31))(
        slopes, f"{name}: alibi"), whole(0)(value.get("exempt", 0), f"{name}: exempt"))


def coordinates(value, name):
    """A kind: (S, 2) numbers, of the whole sequence on every rank, in the form that Settings stores."""
    refuse_masked(value, name)
    refuse_gradients(value, name, "numbers, or .detach()")
    try:
        given = as_array(value)
        numbers = np.empty((0, 2)) if given.dtype.kind in "bcSUmM" else np.asarray(given, np.float64)
    except Exception as problem:  # not numbers, an endless iterator, numbers too large for float64
        why = f" ({one_line(problem)})" if hasattr(value, "dtype") else ""
        raise AnnulusError(f"{name} is {shown(value)}{why}, expected an array (S, 2) of numbers") from None
    if given.dtype.kind in "bcSUmM":  # kinds that NumPy would convert to numbers
        raise AnnulusError(f"{name} is of {given.dtype}, expected an array (S, 2) of numbers")
    if numbers.ndim != 2 or numbers.shape[1] != 2 or len(numbers) == 0:
        raise AnnulusError(f"{name} is {numbers.shape}, expected (S, 2)")
    return np.ascontiguousarray(numbers).tobytes().hex()


def coordinate_list(settings):
    """The numbers of Settings.coordinates_hex, as one list."""
    return np.frombuffer(bytes.fromhex(settings.coordinates_hex), np.float64).tolist()


def _is_one(value):
    return isinstance(value, (str, int, Window, Mapping))


def lengths(value, name):
    """A kind: (B,) or (B, 2) whole numbers as pairs (first row, end)."""
    refuse_masked(value, name)
    try:
        found = np.asarray(value)
    except Exception:  # lists of unequal lengths, or tensors that are not in memory
        found = np.empty(0)
    if found.dtype.kind not in "iu" or found.ndim not in (1, 2) or found.shape[1:] not in ((), (2,)) or not len(found):
        raise wrong(value, name, "whole numbers (B,), how many rows exist, or (B, 2), the first row and the end")
    pairs = [(0, end) for end in found.tolist()] if found.ndim == 1 else [tuple(pair) for pair in found.tolist()]
    for entry, (begin, end) in enumerate(pairs):
        if not 0 <= begin <= end:
            raise AnnulusError(f"{name}[{entry}] is rows {begin} to {end}, expected 0 <= first row <= end")
    return tuple(pairs)


def lengths_of_mask(mask, name, rows_are="rows", first=0):
    """The same pairs as lengths(), from a mask (B, S), True where a row exists. The rows of an entry must be
    contiguous. Messages call the rows `rows_are` and number the entries from `first` on."""
    mask = np.asarray(mask, bool)
    pairs = []
    for entry, there in enumerate(mask, first):
        rows = np.flatnonzero(there)
        pair = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
        if pair[1] - pair[0] != len(rows):
            raise AnnulusError(f"{name}: {rows_are} {pair[0]} to {pair[1]} of entry {entry} have {pair[1] - pair[0] - len(rows)} "
                               "masked ones among them, expected padding at the ends alone")
        pairs.append(pair)
    return tuple(pairs)


def lse_type_of(kind):
    return "float64" if kind == "float64" else "float32"


def sum_type_of(kind, settings):
    """Type of the core's sums, and of the normalizers that it keeps for the backward pass; `kind` is the type of q."""
    return "float64" if (kind if settings.precision == "auto" else settings.precision) == "float64" else "float32"


def without_trivial_lengths(settings, batch, rows):
    """The settings for B entries of S rows; lengths are removed if all rows exist."""
    if not settings.lengths:
        return settings
    if len(settings.lengths) != batch:
        raise AnnulusError(f"lengths has {len(settings.lengths)} entries, expected {batch}, one for each batch entry")
    for entry, (begin, end) in enumerate(settings.lengths):
        if end > rows:
            raise AnnulusError(f"lengths[{entry}] is rows {begin} to {end}, expected {rows} at most, the rows of k")
    return settings._replace(lengths=()) if set(settings.lengths) == {(0, rows)} else settings


_called = text("its name, a text")
segments = listed(segment, "a list of whole numbers, 'all' or windows", alone=_is_one)
dilations = listed(whole(1), "a list of whole numbers", alone=_is_one)
WORDS = {
    "segments": optional(segments), "dilations": optional(dilations), "causal": flag, "semantics": _called,
    "documents": optional(listed(whole(0), "a list of whole numbers, where documents begin, and the end",
                                 lengths=range(1, 2**31))),
    "scale": optional(positive), "group_scale": flag,
    "softcap": optional(positive), "bias": optional(bias), "coordinates": optional(coordinates),
    "statistics": listed(choice(*STATISTICS), f"a list of some of {', '.join(STATISTICS)}",
                         alone=is_text, ordered=False),
    "top_keys": whole(1, TOP_KEYS_MOST), "strategy": _called, "partition": _called, "precision": _called,
    "reproducible": flag, "lengths": optional(lengths), "query_offset": _offset,
}


@checked("attention", **WORDS)
def settings_of(segments=None, dilations=None, causal=False, semantics="longnet", documents=None, scale=None,
                group_scale=False, softcap=None, bias=None, coordinates=None, statistics=(), top_keys=8, strategy="auto",
                partition="contiguous", precision="auto", reproducible=False, lengths=None, query_offset="auto"):
    """Checks the arguments of attention() that can be checked without arrays, and makes Settings of them."""
    if (segments is None) != (dilations is None):
        raise AnnulusError("segments and dilations go together: one entry of each per pair")
    if documents and lengths:
        raise AnnulusError("documents and lengths are given, expected one of them")
    if lengths and query_offset not in ("auto", "none"):
        raise AnnulusError(f"lengths and query_offset={query_offset} are given, expected one of them, or query_offset='none': "
                           "lengths are then of k alone")
    if causal and segments is not None:  # so that settings with the same meaning are equal
        segments = tuple(one._replace(right=0) if isinstance(one, Window) else one for one in segments)
    if coordinates is not None and bias is None:
        raise AnnulusError("coordinates: without bias nothing reads them, expected none")
    return Settings((0,) if segments is None else segments, (1,) if dilations is None else dilations, causal, semantics,
                    documents or (), scale, group_scale, softcap, bias, coordinates or "", statistics,
                    top_keys if "top" in statistics else 0, strategy, partition, precision, reproducible, query_offset,
                    lengths or ())
