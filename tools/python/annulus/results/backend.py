"""An engine for xarray that opens annulus' files: xarray.open_dataset("result.h5", engine="annulus").

The file needs no dimension scales. If it names axes as annulus does, variables get these dimensions:

    out, dq (batch, sequence, head, dim)    lse (batch, sequence, head)    of a layer y (batch, sequence, width)
    dk, dv  (batch, sequence, kv_head, dim) where there are fewer K/V heads than query heads
    entropy, received (batch, sequence, head)    top_rows, top_weights (batch, sequence, head, and one for the list)
    /run/rows -> rows (rank)                /run/hop_wait_seconds -> hop_wait_seconds (rank, hop)
    /run/backward/rows -> backward_rows (rank), /run/backward/hop_kept -> backward_hop_kept (rank, backward_hop)
    /run/bytes_from -> bytes_from (rank, sender)

No file stays open: each time numbers are read, the file is opened again.
"""
import itertools

import numpy as np
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from annulus import elements, hdf5
from annulus.errors import AnnulusError

DESCRIPTIONS = {
    "out": "output of attention", "lse": "log-sum-exp of the scores", "y": "output of the layer",
    "dq": "gradient of q", "dk": "gradient of k", "dv": "gradient of v",
    "entropy": "entropy of the attention of a query row", "received": "attention that a key row receives of all queries",
    "top_rows": "key rows of largest weight, of a query row; -1: none", "top_weights": "weights of these rows",
}


MOST_RANKS = 1_000_000  # of a dataset of /run; a damaged file may claim any number


class LazyArray(BackendArray):
    """A dataset of a file, read when it is used. bfloat16 becomes float32, which can represent all its values.

    Reading raises AnnulusError if the file has changed since it was opened, because its numbers may now belong to other
    settings.
    """

    def __init__(self, path, name, shape, element, identity):
        self.path, self.name, self.shape, self.element, self.identity = path, name, shape, element, identity
        self.dtype = elements.FLOAT32.storage if element.name == "bfloat16" else element.storage

    def __getitem__(self, key):
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key):
        """The numbers at `key`, a tuple of integers and slices."""
        slices = tuple(part if isinstance(part, slice) else slice(int(part), int(part) + 1) for part in key)
        with hdf5.reading(self.path) as file:
            if hdf5.identity(file) != self.identity:
                raise AnnulusError(f"{self.path}: has changed since it was opened, by another run or program; expected "
                                   "the same file (open it again)")
            numbers = hdf5.read(file[self.name], slices)
        if self.element.name == "bfloat16":
            numbers = elements.widened(numbers)
        return numbers[tuple(slice(None) if isinstance(part, slice) else 0 for part in key)]


def units_of(dataset):
    """The unit of a dataset as {"units": ...}, which xarray expects; in the file it is `units` or `unit`."""
    units = dataset.attrs.get("units", dataset.attrs.get("unit"))
    return {} if units is None else {"units": hdf5.text(units)}


def _attributes(dataset):
    kept = units_of(dataset)
    name = dataset.name.rpartition("/")[2]
    if "long_name" in dataset.attrs:
        kept["long_name"] = hdf5.text(dataset.attrs["long_name"])
    elif name in DESCRIPTIONS:
        kept["long_name"] = DESCRIPTIONS[name]
    if hdf5.element_of(dataset).name == "bfloat16":
        kept["stored_as"] = "bfloat16"
    return kept


class _Dimensions:
    """Names of axes. Each name has one size in the whole result: `head` with another size becomes `kv_head`."""

    def __init__(self):
        self.sizes = {}

    def of(self, dataset, names, variable):
        """Names for a dataset's axes: all different, and each with the same size in the whole result."""
        chosen = []
        for name, size in zip(names, dataset.shape):
            first = [name, "kv_" + name if name == "head" else f"{variable}_{name}"]
            candidates = itertools.chain(first, (f"{variable}_{name}_{i}" for i in itertools.count(2)))
            chosen.append(next(c for c in candidates if self.sizes.get(c, size) == size and c not in chosen))
            self.sizes[chosen[-1]] = size
        return tuple(chosen)


def _names(dataset, within_run, prefix):
    """Names of axes: in /run (rank, sender) or (rank, hop), with a hop axis for each pass; otherwise from the file."""
    if within_run and dataset.ndim <= 2:
        second = "sender" if dataset.name.endswith("/bytes_from") else prefix + "hop"
        return ("rank", second)[:dataset.ndim]
    return tuple(name or f"axis_{i}" for i, name in enumerate(hdf5.axes_of(dataset) or [""] * dataset.ndim))


def _check_column(path, dataset, ranks):
    """Checks that a dataset of /run has an entry, or a row of hops, for each rank."""
    if dataset.ndim > 2 or dataset.shape[0] != (ranks or dataset.shape[0]) or max(dataset.shape) > MOST_RANKS:
        raise AnnulusError(f"{path}: dataset {dataset.name} has shape {dataset.shape}; expected an entry for each of "
                           f"{ranks or 'its'} ranks, or (ranks, hops)")


def variables(path, file):
    """{name: xarray.Variable} of all datasets of numbers."""
    found, dimensions, identity = {}, _Dimensions(), hdf5.identity(file)
    # Datasets with query heads come first, so that their axis gets the name `head`.
    everything = sorted(hdf5.datasets(file).items(), key=lambda item: item[0] in ("dk", "dv", "k", "v"))
    for name, dataset in everything:
        within_run = name.startswith("run/")
        short = name.removeprefix("run/").replace("/", "_")
        prefix = "backward_" if name.startswith("run/backward/") else ""
        if within_run:
            _check_column(path, dataset, dimensions.sizes.get("rank"))
        axes = dimensions.of(dataset, _names(dataset, within_run, prefix), short)
        lazy = LazyArray(path, name, dataset.shape, hdf5.element_of(dataset), identity)
        found[short] = xr.Variable(axes, indexing.LazilyIndexedArray(lazy), _attributes(dataset))
    for axis in ("rank", "sender", "hop", "backward_hop"):
        if axis in dimensions.sizes:
            found[axis] = xr.Variable((axis,), np.arange(dimensions.sizes[axis]))
    return found


def attributes(file):
    """Text about the run: attributes of the file, of /run and of /provenance, and `settings`, the resolved run file."""
    kept = {}
    for group in ("/", "run", "provenance"):
        if hdf5.is_group(file, group):
            kept |= {name: hdf5.text(value) for name, value in file[group].attrs.items() if not name.startswith("_")}
    if hdf5.is_dataset(file, "run/settings"):
        kept["settings"] = hdf5.one_text(file["run/settings"])
    return kept


class AnnulusBackend(BackendEntrypoint):
    description = "results and inputs of annulus"
    open_dataset_parameters = ("filename_or_obj", "drop_variables")

    def open_dataset(self, filename_or_obj, *, drop_variables=None):
        path = str(filename_or_obj)
        with hdf5.reading(path) as file:
            found = variables(path, file)
            dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
            return xr.Dataset({name: one for name, one in found.items() if name not in dropped},
                              attrs=attributes(file))

    def guess_can_open(self, filename_or_obj):
        return False  # many programs write .h5, so users must name the engine
