"""Opening what annulus wrote: open_result, open_input, open_sweep -> xarray.Dataset."""
from pathlib import Path

import numpy as np
import xarray as xr
import yaml

from annulus import hdf5
from annulus.errors import AnnulusError
from annulus.results import backend


def _holds(file):
    names = [name for name, member in file.items() if not (hasattr(member, "shape") and hdf5.is_scale(member))]
    return ", ".join(names) or "nothing"


def open_result(path):
    """A result of `annulus run` as an xarray.Dataset; numbers are read when they are used.

    Tensors have the dimensions batch, sequence, head (kv_head), dim; what the run measured is there under its names in
    /run, by rank and hop. Units are in the attribute `units`; `attrs` holds provenance and `settings`, the run file.
    bfloat16 comes as float32. Raises AnnulusError for a file that is no result.
    """
    with hdf5.opened(path) as file:
        tensors = "out" in file or "y" in file
        if not tensors or "run" not in file:
            raise AnnulusError(f"{path}: is no result of annulus: expected datasets out and lse (y of a layer) and a "
                               f"group run; it holds {_holds(file)}")
    return xr.open_dataset(Path(path).absolute(), engine=backend.AnnulusBackend)


def open_input(path):
    """An input file, with q, k, v (or x of a layer), as an xarray.Dataset like open_result()."""
    with hdf5.opened(path) as file:
        if "q" not in file and "x" not in file:
            raise AnnulusError(f"{path}: is no input of annulus: expected datasets q, k, v (x of a layer); "
                               f"it holds {_holds(file)}")
    return xr.open_dataset(Path(path).absolute(), engine=backend.AnnulusBackend)


def open_sweep(path):
    """The table of `annulus bench` as an xarray.Dataset: a variable per column, all of the dimension `case`."""
    with hdf5.opened(path) as file:
        if "cases" not in file:
            raise AnnulusError(f"{path}: is no sweep of annulus: expected a group cases, which `annulus bench` writes; "
                               f"it holds {_holds(file)}")
        columns = {}
        for name, dataset in file["cases"].items():
            if not hasattr(dataset, "ndim") or dataset.ndim != 1 or hdf5.is_bare_scale(dataset):
                continue  # the scale `case` only names the axis; one that holds numbers is a column
            values = dataset.asstr()[...] if dataset.dtype.kind in "OS" else dataset[...]
            columns[name] = xr.Variable(("case",), np.asarray(values), backend.units_of(dataset))
        lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1:
            raise AnnulusError(f"{path}: group cases has columns of {sorted(lengths)} entries; expected one entry a case")
        return xr.Dataset(columns, attrs=backend.attributes(file))


def settings(result):
    """The run file of a result (or its text) as nested dictionaries: settings(result)["attention"]["segments"]."""
    text = result if isinstance(result, str) else result.attrs.get("settings")
    if not text:
        raise AnnulusError("no settings: expected a result of annulus, which keeps its run file in /run/settings")
    return yaml.safe_load(text)
