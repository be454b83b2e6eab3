"""Which keys a query sees under a pattern."""
import numpy as np
from matplotlib import colormaps
from matplotlib.colors import BoundaryNorm, ListedColormap

from annulus import arguments
from annulus.errors import AnnulusError
from annulus.pattern import Pattern
from annulus.plots import style

ROWS_MOST = 1 << 16  # of the sequence
DOTS_MOST = 600      # of the map, across and down


def _is_pattern(value, name):
    if not isinstance(value, Pattern):
        raise arguments.wrong(value, name, "an annulus.Pattern")
    return value.checked()


@arguments.checked(chosen=_is_pattern, rows=arguments.whole(), head=arguments.whole(), heads=arguments.whole(),
                   query=arguments.index)
def pattern(chosen: Pattern, rows, head=0, heads=1, query=None):
    """A map: which keys (across) a query row (down) sees, and how often. Below it: the keys of one query, which is
    marked by a line in the map.

    By default the query is the one that sees most keys among the last quarter of the rows (at most 256). If there are
    more than 600 rows, a dot of the map is a block of queries and keys, and shows the largest count among them.
    """
    if not 1 <= rows <= ROWS_MOST:
        raise AnnulusError(f"{rows} rows: expected 1 to {ROWS_MOST} for a picture")
    if not 0 <= head < heads:
        raise AnnulusError(f"head {head}: expected 0 to {heads - 1}")
    query = _query_that_sees_most(chosen, rows, head, heads) if query is None else query
    if not 0 <= query < rows:
        raise AnnulusError(f"query {query}: expected 0 to {rows - 1}")
    counts = _blocks(chosen, rows, head, heads)
    of_query = chosen.multiplicity([query], rows, head, heads)[0]
    most = max(int(counts.max()), 1)
    shades = ListedColormap(["#FFFFFF", "#9ECAE1", "#0072B2", "#D55E00", "#5A1E00"][:most + 1] if most < 5 else
                            ["#FFFFFF", *colormaps["cividis_r"](np.linspace(0, 1, most))])
    with style.look():
        figure = style.figure(8.2, 8.2)
        square, strip = figure.subplots(2, 1, height_ratios=(7, 1), sharex=True)
        norm = BoundaryNorm(np.arange(-0.5, most + 1), most + 1)
        image = square.imshow(counts, cmap=shades, norm=norm, interpolation="nearest", aspect="auto",
                              extent=(0, rows, rows, 0))
        square.axhline(query + 0.5, color="black", linewidth=1.2)
        square.set_ylabel("query row")
        square.grid(visible=False)
        square.set_title(f"{chosen}\nhead {head} of {heads}", fontsize=12)
        figure.colorbar(image, ax=square, ticks=range(most + 1), label="times that the query sees the key", shrink=0.7)
        strip.stairs(of_query, np.arange(rows + 1), fill=True, color=style.COLOURS["blue"])
        strip.set_ylim(0, most + 0.3)
        strip.set_yticks(range(most + 1))
        strip.set_xlabel("key row")
        strip.set_ylabel("times")
        strip.set_title(f"query {query} sees {int((of_query > 0).sum()):,} of {rows:,} keys", fontsize=12)
        return figure


def _blocks(chosen, rows, head, heads):
    """(n, n) with n <= DOTS_MOST: the largest multiplicity among the queries and keys of each block."""
    size = -(-rows // DOTS_MOST)
    begins = np.arange(0, rows, size)
    lines = []
    for begin in begins:
        seen = chosen.multiplicity(np.arange(begin, min(begin + size, rows)), rows, head, heads).max(axis=0)
        lines.append(np.maximum.reduceat(seen, begins))
    return np.array(lines)


def _query_that_sees_most(chosen, rows, head, heads):
    """Among up to 256 rows of the last quarter, the one that sees most keys, counted as often as it sees them."""
    candidates = np.arange(rows - max(1, rows // 4), rows)[-256:]
    return int(candidates[chosen.multiplicity(candidates, rows, head, heads).sum(axis=1).argmax()])
