"""What all pictures share: colours that colour-blind people can distinguish, text that is legible at half size."""
import contextlib
import io
import textwrap

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from annulus import arguments, files
from annulus.errors import AnnulusError

# Okabe and Ito's palette (jfly.uni-koeln.de/color), without its yellow, which is too light for lines on white.
COLOURS = {"blue": "#0072B2", "orange": "#E69F00", "green": "#009E73", "red": "#D55E00", "sky": "#56B4E9",
           "purple": "#CC79A7", "black": "#000000"}
CYCLE = list(COLOURS.values())
MARKERS = "osD^vPX"  # so that lines differ in more than colour
MAP = "cividis"      # brightness rises evenly, also for colour-blind people
GREY = "#9A9A9A"
SUFFIXES = (".png", ".svg", ".pdf")
DPI = 150
CHARACTER = 0.105    # inches, mean width of a character of the text
LINE = 0.22          # inches, height of a line of text
NAME_MOST = 48       # characters of a name beside a bar; longer names have several lines

_LOOK = {
    "font.size": 13, "axes.titlesize": 13, "axes.labelsize": 13, "legend.fontsize": 11.5, "lines.linewidth": 2.2,
    "lines.markersize": 8, "axes.grid": True, "grid.color": "#DDDDDD", "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "annulus",
}


def look():
    """Context manager that sets the style in which pictures are made."""
    return matplotlib.rc_context(_LOOK)


class Picture(Figure):
    """A figure outside pyplot: it opens no window and is in no global list. Notebooks show it nevertheless."""

    def _repr_png_(self):
        buffer = io.BytesIO()
        with look():
            self.savefig(buffer, format="png", dpi=100, facecolor="white")
        return buffer.getvalue()


def figure(width=8.0, height=5.0):
    made = Picture(figsize=(width, height), layout="constrained")
    made.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    return made


def wrapped(text, most):
    """The text in lines of at most `most` characters (20 if `most` is less), and their largest width, in inches."""
    lines = textwrap.wrap(text, max(most, 20)) or [""]
    return "\n".join(lines), CHARACTER * max(map(len, lines))


def wrapped_names(names):
    """Names beside bars in lines, how wide they are at most in inches, and how many lines the longest has."""
    pairs = [wrapped(name, NAME_MOST) for name in names]
    return [text for text, _ in pairs], max(width for _, width in pairs), max(text.count("\n") + 1 for text, _ in pairs)


PICTURE = arguments.instance("matplotlib.figure", "Figure", "a picture, which the functions of annulus.plots make")


@arguments.checked(picture=PICTURE, path=arguments.path, overwrite=arguments.flag)
def save(picture, path, overwrite=False):
    """Writes a figure: complete or not at all."""
    if not str(path).lower().endswith(SUFFIXES):
        raise AnnulusError(f"{path}: expected the name of a picture, ending in {', '.join(SUFFIXES)}")
    with files.new_path(path, overwrite) as aside, look(), _no_dates(path) as metadata:
        picture.savefig(aside, dpi=DPI, facecolor="white", metadata=metadata)


@contextlib.contextmanager
def _no_dates(path):
    """Metadata without dates, so that the same picture has the same bytes."""
    yield {"Date": None} if str(path).lower().endswith(".svg") else (
        {"CreationDate": None} if str(path).lower().endswith(".pdf") else None)


def of_strategy(names):
    """{strategy: (colour, marker)}; the same in all pictures that show the same strategies."""
    return {name: (CYCLE[i % len(CYCLE)], MARKERS[i % len(MARKERS)]) for i, name in enumerate(sorted(set(names)))}


def bytes_unit(largest):
    """(divisor, name) of the unit for numbers of bytes up to `largest`."""
    for power, name in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if largest >= 1024 ** power:
            return 1024.0 ** power, name
    return 1.0, "bytes"


def seconds_unit(largest):
    """(divisor, name) of the unit for times up to `largest`."""
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if largest >= unit:
            return unit, name
    return 1e-6, "µs"


def most_of(values):
    """Where a scale of shades ends: one value in a hundred is above it, or one value if there are fewer."""
    finite = values[np.isfinite(values)]
    most = np.quantile(finite, 0.99, method="lower") if finite.size else 0.0
    return float(most if most > 0 else finite.max(initial=0.0) or 1.0)


def extend(values, most):
    """Whether a colour bar shows that there are values beyond its end."""
    return "max" if most is not None and (values > most).any() else "neither"


def say_nothing_known(axes, text):
    """Shows a text instead of a picture."""
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
    axes.set_axis_off()


def known(table, *columns):
    """The rows in which these columns have numbers. Raises AnnulusError if there are none."""
    for column in columns:
        kept = table[table[column].notna()]
        if kept.empty:
            raise AnnulusError(f"{', '.join(sorted(set(table['file'])))}: no case has {column}; expected a sweep of "
                               "annulus bench, or results of annulus run, that measured it")
        table = kept
    return table


def spread(table):
    """(2, n): the distances from the median down to the fastest and up to the slowest."""
    median = table["attention_seconds_median"].to_numpy()
    low = table["attention_seconds_min"].fillna(table["attention_seconds_median"]).to_numpy()
    high = table["attention_seconds_max"].fillna(table["attention_seconds_median"]).to_numpy()
    return np.maximum(np.stack([median - low, high - median]), 0)


def plain_log(axes):
    """A log scale with plain numbers: powers of ten as 0.01, 1, 100, and marks between them where there is room."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    low, high = axes.get_ylim()
    shown = range(2, 10) if high / low < 8 else (2, 5) if high / low < 1000 else ()

    def number(value, _):
        digit = round(value / 10 ** np.floor(np.log10(value) + 1e-9))
        return f"{value:g}" if digit in shown else ""

    axes.yaxis.set_minor_formatter(FuncFormatter(number))
