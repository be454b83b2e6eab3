"""Maps of a slide: the attention that its tiles receive from all rows, and the tiles at which one row looks."""
import numpy as np
from matplotlib.patches import Rectangle

from annulus import arguments, grid
from annulus.axes import row_axis
from annulus.errors import AnnulusError
from annulus.plots import style
from annulus.results.dataset import rows_of
from annulus.results.statistics import listed, of_rows, statistic

TISSUE = "#E4E4E4"
LEGIBLE = 120  # tiles across or down; if there are more, single tiles are hard to see
LABELS = {"received": ("how much a tile is looked at", "sum of the weights that queries give it"),
          "entropy": ("how widely a tile looks", "entropy, nats")}


@arguments.checked(
    result=arguments.dataset, coords=arguments.anything, what=arguments.text(), batch=arguments.whole(), head=arguments.index,
    query=arguments.index, tile=arguments.optional(arguments.number), first_row=arguments.index)
def slide(result, coords, what="received", batch=0, head=None, query=None, tile=None, first_row=None):
    """Draws a statistic of the rows where their tiles are on the slide; white where there is no tile.

    coords     (N, 2): x and y of each tile, in the order of the rows (annulus.coordinates() reads them from a file);
               or a Grid
    what       "received" or "entropy"
    batch      batch entry, counted from 0
    head       one query head; without it the mean over all heads
    query      a row: draws, instead of `what`, the rows that it looks at most (statistic top), on a grey slide
    tile       distance of neighbouring tiles; without it the most common distance
    first_row  row of the first tile; without it 0, or 1 if there is one row more than tiles, as with a class token
    """
    places = coords if isinstance(coords, grid.Grid) else grid.of(coords, tile)
    known = statistic(result, "top_rows" if query is not None else _known(what))
    rows = rows_of(result) if query is not None else known.sizes[row_axis(known.dims)]
    first = _first_row(rows, len(places.row), first_row)
    heads = f"head {head}" if head is not None else f"mean over {result.sizes['head']} heads"
    of_tiles = slice(first, first + len(places.row))
    if query is None:
        image = places.image(of_rows(result, what, batch, head)[of_tiles])
        title, label = LABELS[what]
        return _drawn(places, image, f"{title}, {heads}", label, style.most_of(image) if what == "received" else None)
    found = listed(result, query, batch, head)
    values = np.full(rows, np.nan)
    values[found.rows] = found.weights
    tiles = values[of_tiles]
    elsewhere = found.weights.sum() - np.nansum(tiles)
    image = places.image(tiles)
    title = f"what row {query} looks at most, {heads}\n{_share(found.weights.sum(), head)} of its attention is shown"
    if elsewhere > 0:
        title += f", {elsewhere:.3g} of it on rows that are no tiles"
    figure = _drawn(places, image, title, "weight" if head is not None else "weight, at least", None, tissue=True)
    if max(places.shape) > LEGIBLE:
        _dots(figure.axes[0], places, tiles)
    if row_axis(known.dims) == "sequence" and first <= query < first + len(places.row):
        _frame(figure.axes[0], places, query - first)
    return figure


def _known(what):
    if what not in LABELS:
        raise AnnulusError(f"{what!r} of a slide: expected {' or '.join(LABELS)}")
    return what


def _share(sum_of_weights, head):
    return f"{sum_of_weights:.3g}" if head is not None else f"at least {sum_of_weights:.3g}"


def _first_row(rows, tiles, first_row):
    if first_row is None and rows - tiles in (0, 1):
        return rows - tiles
    if first_row is None or not 0 <= first_row <= rows - tiles:
        said = "" if first_row is None else f" from row {first_row} on"
        raise AnnulusError(f"{tiles} tiles{said}, {rows} rows in the result; expected a row for each tile, and --first-row "
                           "if other rows come before the tiles")
    return first_row


def _extent(places):
    """Left, right, bottom, top of the image, in the unit of the coordinates."""
    (rows, columns), (x, y) = places.shape, places.origin
    return x, x + columns * places.tile, y + rows * places.tile, y


def _drawn(places, image, title, label, most, tissue=False):
    rows, columns = image.shape
    with style.look():
        figure = style.figure(*_size(rows, columns))
        axes = figure.subplots()
        if tissue:
            there = places.image(np.ones(len(places.row)))
            axes.imshow(np.where(there[..., None] == 1, _rgba(TISSUE), 0.0), interpolation="nearest", extent=_extent(places))
        shown = axes.imshow(image, interpolation="nearest", cmap=style.MAP, extent=_extent(places), vmin=0, vmax=most)
        axes.grid(visible=False)
        axes.set_xlabel("x, pixels")
        axes.set_ylabel("y, pixels")
        axes.tick_params(axis="x", rotation=30)
        axes.set_title(title)
        figure.colorbar(shown, ax=axes, label=label, extend=style.extend(image, most), shrink=0.85)
        return figure


def _size(rows, columns):
    """Size in inches such that tiles are square and there is room for letters."""
    longest = max(rows, columns)
    return max(6.0, 7.0 * columns / longest + 2.2), max(4.2, 7.0 * rows / longest + 1.2)


def _rgba(colour):
    return [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)] + [1.0]


def _corner(places, tile):
    """x and y of the tiles' upper left corners."""
    return places.origin[0] + places.tile * places.column[tile], places.origin[1] + places.tile * places.row[tile]


def _dots(axes, places, values):
    """Draws dots on the few tiles that have a value, larger than the tiles."""
    there = np.flatnonzero(np.isfinite(values))
    x, y = _corner(places, there)
    with style.look():
        axes.scatter(x + places.tile / 2, y + places.tile / 2, c=values[there], norm=axes.images[-1].norm, cmap=style.MAP,
                     s=36, edgecolors="black", linewidths=0.6)


def _frame(axes, places, tile):
    """Draws a frame round the tile of the query; if tiles are small, the frame is larger than the tile."""
    side = places.tile * max(1.0, 2 * max(places.shape) / LEGIBLE)
    x, y = (corner - (side - places.tile) / 2 for corner in _corner(places, tile))
    axes.add_patch(Rectangle((x, y), side, side, fill=False, edgecolor=style.COLOURS["red"], linewidth=2,
                             label="the row itself"))
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.12), frameon=False)
