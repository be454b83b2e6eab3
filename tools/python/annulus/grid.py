"""Tiles of a slide as an image with one dot per tile: coordinates (N, 2) become rows and columns.

    coords [[512, 0], [768, 0], [768, 256]]   x to the right, y down, as Prov-GigaPath and CLAM write them
    tile   256                                distance of neighbouring tiles
    image  [[a, b], [nan, c]]                 of the values [a, b, c]; nan: no tile there
"""
from typing import NamedTuple

import numpy as np

from annulus import arguments, elements, formats
from annulus.errors import AnnulusError

DOTS_MOST = 1 << 25  # of an image


class Grid(NamedTuple):
    column: np.ndarray  # (N,) int: the column of each tile
    row: np.ndarray     # (N,) int: the row of each tile
    tile: float         # side of a dot, in the unit of the coordinates
    origin: tuple       # x and y of the upper left corner

    @property
    def shape(self):
        return int(self.row.max()) + 1, int(self.column.max()) + 1

    @arguments.checked(values=arguments.array())
    def image(self, values):
        """(rows, columns) float64: for each dot the value of its tile, or the mean of several tiles; nan: no tile.

        A tile whose value is nan or infinite counts as no tile.
        """
        rows, columns = self.shape
        if values.shape != self.row.shape:
            raise AnnulusError(f"values have shape {values.shape}; expected {self.row.shape}, one for each tile")
        there = np.isfinite(values)
        place = (self.row * columns + self.column)[there]
        counts = np.bincount(place, minlength=rows * columns)
        sums = np.bincount(place, np.asarray(values, float)[there], rows * columns)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).reshape(rows, columns)


def _tiles(value, name):
    """A kind of argument: coordinates (N, 2) as float64, with N above 0."""
    coords = arguments.array("x and y of each tile")(value, name)
    if coords.ndim == 3 and len(coords) == 1:
        coords = coords[0]  # a batch with one slide
    if coords.ndim != 2 or coords.shape[1] != 2 or len(coords) == 0:
        raise AnnulusError(f"coordinates have shape {coords.shape}; expected (tiles, 2): x and y of each tile")
    coords = coords.astype(float)
    if not np.isfinite(coords).all():
        raise AnnulusError("coordinates are not all finite; expected x and y of each tile")
    return coords


@arguments.checked(coords=_tiles, tile=arguments.optional(arguments.number))
def of(coords, tile=None):
    """The Grid of coordinates (N, 2). Without `tile`, distance() finds the size."""
    tile = distance(coords) if tile is None else tile
    if not 0 < tile < np.inf:
        raise AnnulusError(f"tile size {tile:g}: expected a number above 0, the distance of neighbouring tiles")
    origin = coords.min(axis=0)
    places = np.floor((coords - origin) / tile + 1e-3)  # 1e-3: tiles begin at borders of dots, so 2.9999 means dot 3
    extents = places.max(axis=0) + 1
    if extents.prod() > DOTS_MOST:
        raise AnnulusError(f"tile size {tile:g} makes {extents[0]:.0f} x {extents[1]:.0f} dots of {len(coords)} tiles; "
                           f"expected at most {DOTS_MOST}: give the distance of neighbouring tiles")
    column, row = places.astype(int).T
    return Grid(column, row, tile, tuple(origin))


@arguments.checked(coords=_tiles)
def distance(coords):
    """The most common distance of neighbours in a line: 256 for x = 0, 256, 512, 1024 at the same y.

    Tissue may be cut into parts with separate grids, as CLAM does, so tiles in different lines are not compared.
    """
    if len(coords) == 1:
        return 1.0
    apart = []
    for along, across in ((0, 1), (1, 0)):
        line = coords[np.lexsort((coords[:, along], coords[:, across]))]
        steps = np.diff(line[:, along])[np.diff(line[:, across]) == 0]
        apart.append(steps[steps > 0])
    found, counts = np.unique(np.concatenate(apart), return_counts=True)
    if not found.size:
        raise AnnulusError("no two tiles stand in a line, so their size is not known; say it (--tile)")
    return float(found[counts.argmax()])


@arguments.checked(path=arguments.path, name=arguments.optional(arguments.text()))
def coordinates(path, name=None):
    """Reads (N, 2) float64 from a file of any format; without a name: `coords`, or the only tensor of two columns."""
    with formats.reading(path) as found:
        two = [one for one, tensor in found.items() if len(tensor.shape) > 1 and tensor.shape[-1] == 2]
        if name is None:
            name = "coords" if "coords" in found else two[0] if len(two) == 1 else None
        if name not in found:
            what = f"no {name}" if name else "no coords, nor one tensor of two columns alone"
            raise AnnulusError(f"{path}: has {what}; it has {', '.join(found) or 'nothing'}; expected x and y of each tile")
        tensor = found[name]
        values = tensor.read(tuple(slice(0, extent) for extent in tensor.shape))
        return elements.converted(values, tensor.element, elements.named("float64"))
