"""Opens files of annulus: open_result, open_input, open_sweep -> xarray.Dataset."""
import contextlib
import re
from pathlib import Path

import numpy as np
import xarray as xr
import yaml

from annulus import arguments, hdf5, packing
from annulus.errors import AnnulusError
from annulus.results import backend, statistics

RESULT = "result"
SWEEP = "sweep"
INPUT = "input"
# The contents by which each kind of file is recognized, as messages name them.
_EXPECTED = {
    RESULT: "a result of `annulus run` or `annulus train`: datasets out and lse (y of a layer, loss of a training) and a "
            "group run",
    SWEEP: "a sweep of `annulus bench`: a group cases",
    INPUT: "an input: datasets q, k, v (x of a layer)",
}


MOST_CASES = 100_000  # of a sweep; a damaged file may claim any number
_NEEDED = ("q", "k", "v", "x")


def kind_of(file):
    """RESULT, SWEEP, INPUT, or None for a file of another kind."""
    if hdf5.is_group(file, "cases"):
        return SWEEP
    if hdf5.is_group(file, "run") and any(hdf5.is_dataset(file, name) for name in ("out", "y", "loss")):
        return RESULT
    return INPUT if any(hdf5.is_dataset(file, name) for name in ("q", "x")) else None


def check(path, file, *wanted):
    """Raises AnnulusError unless the file is of one of the wanted kinds; the message says what the file is."""
    found = kind_of(file)
    if found not in wanted:
        expected = ", or ".join(_EXPECTED[kind] for kind in wanted)
        names = [name for name, member in file.items() if not (hasattr(member, "shape") and hdf5.is_scale(member))]
        holds = f"is {_EXPECTED[found].partition(':')[0]}" if found else f"holds {', '.join(names)[:200] or 'nothing'}"
        raise AnnulusError(f"{path}: {holds}; expected {expected}")


def _opened(path, kind):
    with hdf5.reading(path) as file:
        check(path, file, kind)
        for name in _NEEDED if kind == INPUT else ():  # other files are checked when they are read
            if hdf5.is_dataset(file, name):
                packing.refuse_packed(f"{path}: dataset {name}", file[name].attrs)
    return xr.open_dataset(Path(path).absolute(), engine=backend.AnnulusBackend)


_OTHER_SIZES = {"query": "sequence", "value_dim": "dim"}  # axes of results if q has other rows than k, or v another size


@arguments.checked(path=arguments.path)
def open_result(path):
    """A result of `annulus run` as an xarray.Dataset; numbers are read when they are used.

    Tensors have the dimensions batch, sequence (query if q has other rows than k), head (kv_head), dim (value_dim, if v
    has another head size than k). Statistics of the attention are included if the run made them
    (annulus.results.statistics). Measurements have the names of /run, by rank and hop. Units are in the attribute
    `units`; `attrs` has provenance and `settings`, the run file. bfloat16 becomes float32. Raises AnnulusError for a
    file that is not a result, and if numbers are used after the file has changed.
    """
    result = _opened(path, RESULT)
    for name, axes in (("out", ("batch", "sequence", "head", "dim")), ("lse", ("batch", "sequence", "head"))):
        if name in result and sorted(_OTHER_SIZES.get(axis, axis) for axis in result[name].dims) != sorted(axes):
            raise AnnulusError(f"{path}: dataset {name} has shape {result[name].shape} and axes {result[name].dims}; "
                               f"expected {', '.join(axes)}, as annulus names them")
    for name in statistics.ASKED_AS:
        if name in result:
            with about(path):
                statistics.statistic(result, name)
    return result


@contextlib.contextmanager
def about(path):
    """A context for a block that reads a result; adds the file's name to an AnnulusError that lacks it."""
    try:
        yield
    except AnnulusError as mistake:
        raise mistake if str(path) in str(mistake) else AnnulusError(f"{path}: {mistake}") from None


@arguments.checked(path=arguments.path)
def open_input(path):
    """An input file, with q, k, v (or x of a layer), as an xarray.Dataset like open_result().

    Also raises AnnulusError for datasets whose attributes say that the numbers must be scaled (scale_factor,
    add_offset), and if a fill value (_FillValue, missing_value) is read.
    """
    return _opened(path, INPUT)


@arguments.checked(path=arguments.path)
def open_sweep(path):
    """The table of `annulus bench` as an xarray.Dataset: a variable per column, all of the dimension `case`."""
    with hdf5.reading(path) as file:
        check(path, file, SWEEP)
        columns = {}
        for name, dataset in file["cases"].items():
            if not hasattr(dataset, "ndim") or dataset.ndim != 1 or hdf5.is_bare_scale(dataset):
                continue  # the scale `case` may only name the axis; if it has numbers it is a column
            if dataset.shape[0] > MOST_CASES:
                raise AnnulusError(f"{path}: dataset {dataset.name} has {dataset.shape[0]:,} entries; expected at most "
                                   f"{MOST_CASES:,} cases")
            values = dataset.asstr()[...] if dataset.dtype.kind in "OS" else dataset[...]
            columns[name] = xr.Variable(("case",), np.asarray(values), backend.units_of(dataset))
        lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1:
            raise AnnulusError(f"{path}: group cases has columns of {sorted(lengths)} entries; expected one entry a case")
        return xr.Dataset(columns, attrs=backend.attributes(file))


def rows_of(result):
    """Number of rows of the sequence. A training's result has only each rank's number of rows."""
    rows = result.sizes.get("sequence") or (int(result["rows"].sum()) if "rows" in result else 0)
    if rows < 1:
        raise AnnulusError(f"{_source(result)}: does not say how many rows it has; expected a result of annulus")
    return rows


class _RunFileLoader(yaml.SafeLoader):
    """Reads words without quotes as the program does (YAML 1.2): 1e-05 is a number, `on` and 2026-11-28 are texts. PyYAML
    follows YAML 1.1, where 1e-05 is a text, `on` is true, and 2026-11-28 is a date."""

    yaml_implicit_resolvers = {}


for _kind, _words, _first in (("null", "null|~|", ["n", "~", ""]), ("bool", "true|false", "tf"),
                              ("int", "[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
                              ("float", r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", "-+.0123456789"),
                              ("merge", "<<", "<")):
    _RunFileLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(f"^(?:{_words})$"), list(_first))


_result = arguments.instance("xarray", "Dataset",
                             "a result, which annulus.open_result() opens, or the text of a run file")


@arguments.checked(result=arguments.either(arguments.text(), arguments.is_text, _result))
def settings(result):
    """The run file of a result (or its text) as nested dictionaries: settings(result)["attention"]["segments"]."""
    text = result if isinstance(result, str) else result.attrs.get("settings")
    if not text:
        raise AnnulusError(f"{_source(result)}: has no /run/settings; expected a result of annulus, which keeps its run file "
                           "there")
    try:
        found = yaml.load(text, _RunFileLoader)
    except yaml.YAMLError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(part, dict) for part in found.values()):
        raise AnnulusError(f"{_source(result)}: dataset /run/settings is no run file; expected its sections, as annulus "
                           "writes them")
    return found


def _source(result):
    return "settings" if isinstance(result, str) else result.encoding.get("source", "result")
