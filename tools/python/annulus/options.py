"""What attention() is asked for, beside the arrays."""
from collections.abc import Mapping
from typing import NamedTuple

from annulus.arguments import anything, checked, choice, flag, is_text, listed, number, optional, text, whole, wrong
from annulus.errors import AnnulusError

STATISTICS = ("entropy", "received", "top")
TOP_KEYS_MOST = 1024  # as in a run file


class Settings(NamedTuple):
    """What attention() is asked for, beside the arrays; hashable."""
    segments: tuple
    dilations: tuple
    causal: bool
    semantics: str
    documents: tuple
    scale: float | None
    group_scale: bool
    statistics: tuple
    top_keys: int
    strategy: str
    partition: str
    precision: str
    reproducible: bool
    query_offset: int | str


class Window(NamedTuple):
    """An entry of `segments` that is a window: row x sees rows x - j r, r the pair's dilation, for -right <= j <= left,
    and with r = 1 the first `first` rows of its document, too. annulus.window() makes one."""
    left: int
    right: int
    first: int = 0

    def __str__(self):
        return f"{{window: [{self.left}, {self.right}]{f', first: {self.first}' if self.first else ''}}}"


_rows = whole(1, also=", 'all' or a window")
_limits = listed(whole(0), "a number of rows, or [left, right]", lengths=(2,))


def _window_of(rows, first, names):
    """`rows`: w, or [left, right]."""
    if not isinstance(rows, (str, bytes)) and hasattr(rows, "__len__"):
        left, right = _limits(rows, names[0])
    else:
        left = right = whole(1, also=", or [left, right]")(rows, names[0]) - 1  # a causal mask hides what is on the right
    return Window(left, right, whole(0)(first, names[1]))


@checked(rows=anything, first=anything)
def window(rows, *, first=0):
    """An entry of `segments`: what each row sees is a window of rows around it.

    rows : w: a row sees itself and w - 1 rows before it, and without a causal mask as many after it; or [left, right]:
        `left` before it and `right` after it. With dilation r the window has every r-th row.
    first : the first rows of the sequence, or of the row's document, are seen, too, each once (dilation 1 alone).

    >>> window(4096, first=4)
    Window(left=4095, right=4095, first=4)
    """
    return _window_of(rows, first, ("rows", "first"))


def segment(value, name):
    """A number of rows; 0, as the library has it, for all of them; a Window of {"window": rows, "first": rows}."""
    if isinstance(value, Window):
        return value
    if isinstance(value, Mapping):
        if "window" not in value or not set(value) <= {"window", "first"}:
            raise wrong(value, name, "{'window': rows or [left, right], 'first': rows}")
        return _window_of(value["window"], value.get("first", 0), (f"{name}: window", f"{name}: first"))
    return 0 if value is None or (isinstance(value, str) and value == "all") else _rows(value, name)


_row = whole(0, also=", 'auto' or 'none'")


def _offset(value, name):
    return value if isinstance(value, str) and value in ("auto", "none") else _row(value, name)


def _is_one(value):
    return isinstance(value, (str, int, Window, Mapping))


_called = text("its name, a text")
segments = listed(segment, "a list of whole numbers, 'all' or windows", alone=_is_one)
dilations = listed(whole(1), "a list of whole numbers", alone=_is_one)
WORDS = {
    "segments": optional(segments), "dilations": optional(dilations), "causal": flag, "semantics": _called,
    "documents": optional(listed(whole(0), "a list of whole numbers, where documents begin, and the end",
                                 lengths=range(1, 2**31))),
    "scale": optional(number), "group_scale": flag,
    "statistics": listed(choice(*STATISTICS), f"a list of some of {', '.join(STATISTICS)}",
                         alone=is_text),
    "top_keys": whole(1, TOP_KEYS_MOST), "strategy": _called, "partition": _called, "precision": _called,
    "reproducible": flag, "query_offset": _offset,
}


@checked("attention", **WORDS)
def settings_of(segments=None, dilations=None, causal=False, semantics="longnet", documents=None, scale=None,
                group_scale=False, statistics=(), top_keys=8, strategy="auto", partition="contiguous", precision="auto",
                reproducible=False, query_offset="auto"):
    """The arguments of attention(), checked as far as no array is needed."""
    if (segments is None) != (dilations is None):
        raise AnnulusError("segments and dilations go together: one entry of each per pair")
    if causal and segments is not None:  # what is hidden anyway makes no other pattern
        segments = tuple(one._replace(right=0) if isinstance(one, Window) else one for one in segments)
    return Settings((0,) if segments is None else segments, (1,) if dilations is None else dilations, causal, semantics,
                    documents or (), scale, group_scale, statistics, top_keys if "top" in statistics else 0, strategy,
                    partition, precision, reproducible, query_offset)
