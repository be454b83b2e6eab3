"""What attention() is asked for, beside the arrays."""
from typing import NamedTuple

from annulus.arguments import checked, choice, flag, is_text, listed, number, optional, text, whole
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


_rows = whole(1, also=", or 'all'")


def segment(value, name):
    """A number of rows; 0, as the library has it, for all of them."""
    return 0 if value is None or (isinstance(value, str) and value == "all") else _rows(value, name)


def _is_one(value):
    return isinstance(value, (str, int))


_called = text("its name, a text")
segments = listed(segment, "a list of whole numbers, or 'all'", alone=_is_one)
dilations = listed(whole(1), "a list of whole numbers", alone=_is_one)
WORDS = {
    "segments": optional(segments), "dilations": optional(dilations), "causal": flag, "semantics": _called,
    "documents": optional(listed(whole(0), "a list of whole numbers, where documents begin, and the end",
                                 lengths=range(1, 2**31))),
    "scale": optional(number), "group_scale": flag,
    "statistics": listed(choice(*STATISTICS), f"a list of some of {', '.join(STATISTICS)}",
                         alone=is_text),
    "top_keys": whole(1, TOP_KEYS_MOST), "strategy": _called, "partition": _called, "precision": _called,
    "reproducible": flag,
}


@checked("attention", **WORDS)
def settings_of(segments=None, dilations=None, causal=False, semantics="longnet", documents=None, scale=None,
                group_scale=False, statistics=(), top_keys=8, strategy="auto", partition="contiguous", precision="auto",
                reproducible=False):
    """The arguments of attention(), checked as far as no array is needed."""
    if (segments is None) != (dilations is None):
        raise AnnulusError("segments and dilations go together: one entry of each per pair")
    return Settings((0,) if segments is None else segments, (1,) if dilations is None else dilations, causal, semantics,
                    documents or (), scale, group_scale, statistics, top_keys if "top" in statistics else 0, strategy,
                    partition, precision, reproducible)
