"""One table of measurements, from sweeps (`annulus bench`) and from single runs, for plots to compare."""
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from annulus import arguments, hdf5
from annulus.errors import AnnulusError
from annulus.results.dataset import RESULT, SWEEP, check, kind_of, open_result, open_sweep, settings

# {column of every table: its unit}; unknown entries are NaN or "". Further columns of a sweep keep their own names.
COLUMNS = {
    "strategy": "word", "ranks": "ranks", "threads": "threads per rank", "sequence": "rows",
    "attention_seconds_min": "s", "attention_seconds_median": "s", "attention_seconds_max": "s",
    "gflop_per_cpu_second": "GFLOP/s", "wait_seconds": "s", "bytes_received": "bytes",
    "peak_bytes": "bytes", "predicted_peak_bytes": "bytes", "predicted_seconds": "s",
}
# Columns of a sweep that have another name than the key of the run file whose values they show.
KEYS = {"strategy": "distribution.strategy", "sequence": "input.generate.sequence"}
# Keys of the run file that say which problem a result solves, or beginnings of such keys.
_PROBLEM = ("attention.", "compute.backend", "compute.backward", "compute.precision", "input.coordinates",
            "input.documents", "input.lengths", "input.query_offset", "input.sink", "layer.heads", "layer.kv_heads",
            "layer.rope")
_SHAPE = "input.generate."
_SIZES = ("batch", "heads", "kv_heads", "head_dim", "value_dim", "queries", "dtype")  # keys below _SHAPE


@arguments.checked(paths=arguments.paths)
def cases(paths):
    """A pandas.DataFrame with a row per case of a sweep, and one per result; columns as in COLUMNS, and `file`.

    Times and bytes of a result are those of its slowest or fullest rank, summed over the forward and the backward pass;
    a peak is the largest of all passes. Keys of the run file have columns, too: those that a sweep varies and, if there
    are results, those that say which problem was solved. Unfinished cases of a sweep (`status`) are left out;
    left_out(table) counts them. Raises AnnulusError for a file that is neither a sweep nor a result.
    """
    tables, problems = zip(*map(_of_file, paths))
    if any(problem["is_result"] for problem in problems):
        for table, problem in zip(tables, problems):
            for key, value in problem["keys"].items():
                if key not in table:
                    table[key] = value
    table = pd.concat(tables, ignore_index=True)
    table.attrs["left_out"] = sum((one.attrs["left_out"] for one in tables), Counter())
    if table.empty:
        raise AnnulusError(f"{paths[0]}: has no finished case ({left_out(table) or 'it has none at all'}); expected some, "
                           "which `annulus bench` measures when it is run again")
    return table


def left_out(table):
    """The cases that cases() left out, counted: "3 missing, 1 failed", or ""."""
    return ", ".join(f"{count} {status}" for status, count in table.attrs.get("left_out", {}).items())


def summary(table):
    """The columns that people compare, in readable units: a pandas.DataFrame to print."""
    shown = {"strategy": table["strategy"], "ranks": table["ranks"], "rows": table["sequence"]}
    shown |= {key: table[key] for key in table if "." in key and key not in KEYS.values()}
    seconds = {"min": "attention_seconds_min", "median": "attention_seconds_median", "max": "attention_seconds_max",
               "wait": "wait_seconds", "predicted": "predicted_seconds"}
    sizes = {"received": "bytes_received", "peak": "peak_bytes"}
    for name, unit, columns in (("s", 1, seconds), ("MiB", 2**20, sizes)):
        shown |= {f"{title}, {name}": (table[column] / unit).map("{:.4g}".format) for title, column in columns.items()}
    return pd.DataFrame(shown)


def _of_file(path):
    """The table of a file, and its problem: {"is_result": ..., "keys": {key of the run file: value, or a column}}."""
    with hdf5.reading(path) as file:
        check(path, file, SWEEP, RESULT)
        is_sweep = kind_of(file) == SWEEP
        lines = hdf5.one_text(file["sweep"]).splitlines() if is_sweep and hdf5.is_dataset(file, "sweep") else ()
    if is_sweep:
        table = _of_sweep(path)
        fixed = {key: value for key, _, value in (line.partition(": ") for line in lines)}
        keys = _of_problem(fixed | {_SHAPE + size: table[size] for size in _SIZES if size in table})
    else:
        table, keys = _of_result(path)
    for name in COLUMNS:
        if name not in table:
            table[name] = "" if name == "strategy" else np.nan
    table["file"] = Path(path).name
    table.attrs["left_out"] = table.attrs.get("left_out", Counter())
    return table, {"is_result": not is_sweep, "keys": keys}


def _of_problem(keys):
    """Those of the keys that say which problem was solved. Whole numbers become int, as in columns of a sweep."""
    return {key: int(value) if isinstance(value, str) and value.isdecimal() else value for key, value in keys.items()
            if key.startswith(_PROBLEM) or (key.startswith(_SHAPE) and key.removeprefix(_SHAPE) in _SIZES)}


def _flat(tree, prefix=""):
    """{"input.generate.heads": "4", "attention.segments": "[32, all]", ...} of a run file."""
    found = {}
    for name, value in tree.items():
        if isinstance(value, dict) and prefix + name + "." in ("input.", _SHAPE, "attention.", "compute.", "layer."):
            found |= _flat(value, f"{prefix}{name}.")
        elif prefix:
            found[prefix + name] = _text(value)
    return found


def _text(value):
    """A key's value as run files and sweeps write it."""
    if isinstance(value, str):
        return value
    return yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False).removesuffix("...\n").strip()


def _of_sweep(path):
    sweep = open_sweep(path)
    table = pd.DataFrame({name: column.values for name, column in sweep.variables.items()})
    shared = settings(sweep) if "settings" in sweep.attrs else {}
    for short, key in KEYS.items():
        if short not in table and key in table:
            table[short] = table[key]
        elif short not in table:
            table[short] = _at(shared, key)
    others = Counter()
    if "status" in table:
        done = table["status"].map(_is_done)
        others, table = Counter(map(str, table["status"][~done])), table[done].copy()
    for name in COLUMNS:
        if name in table and name != "strategy":
            table[name] = pd.to_numeric(table[name], errors="coerce").replace([np.inf, -np.inf], np.nan)
        if name in table and name.startswith("attention_seconds"):
            table[name] = table[name].where(table[name] > 0)  # 0 means: not measured
    table["strategy"] = table["strategy"].fillna("").astype(str)
    table.attrs["left_out"] = others
    return table


def _is_done(status):
    return str(status) in ("ok", "done", "0", "0.0")


def _at(tree, key):
    for word in key.split("."):
        tree = (tree or {}).get(word) if isinstance(tree, dict) else None
    return tree


def _of_result(path):
    """The row of the table for a result, and the keys of its problem. Columns mean what they mean in a sweep
    (src/annulus/app/bench/columns.cpp): times and counts are sums of the forward and the backward pass, a peak is the
    largest of all passes."""
    result = open_result(path)
    run_settings = settings(result) if "settings" in result.attrs else {}
    threads = re.match(r"(\d+) thread", result.attrs.get("devices", ""))

    def total(name):
        found = [float(result[one].max()) for one in (name, f"backward_{name}") if one in result]
        return sum(found) if found else np.nan

    def peak(name):
        passes = (name, f"statistics_{name}", f"backward_{name}")
        return max((float(result[one].max()) for one in passes if one in result), default=np.nan)

    seconds = total("attention_seconds")
    return pd.DataFrame([{
        "strategy": result.attrs.get("strategy") or _at(run_settings, "distribution.strategy") or "",
        "ranks": result.sizes.get("rank", np.nan), "threads": float(threads[1]) if threads else np.nan,
        "sequence": result.sizes.get("sequence", np.nan),
        "attention_seconds_min": seconds, "attention_seconds_median": seconds, "attention_seconds_max": seconds,
        "gflop_per_cpu_second": _rate(result, run_settings), "wait_seconds": total("wait_seconds"),
        "bytes_received": total("bytes_received"),
        "peak_bytes": peak("peak_bytes"), "predicted_peak_bytes": peak("predicted_peak_bytes"),
    }]), _of_problem(_sizes(result, run_settings) | _flat(run_settings))


def _rate(result, run_settings):
    """GFLOP per CPU second in the kernel, both passes together; NaN if the result lacks the measurements."""
    values = result.sizes.get("value_dim", result.sizes.get("dim", np.nan))
    # If v has another head size than k, a result without gradients has no axis dim: out has value_dim instead.
    keys = result.sizes.get("dim", _at(run_settings, "input.generate.head_dim") or np.nan)
    flop = cpu = 0.0
    # A kept triple takes two products forward, and five backward: three with keys' head size, two with values'.
    for prefix, flop_of_triple in (("", 2 * (keys + values)), ("backward_", 2 * (3 * keys + 2 * values))):
        if prefix + "kept" in result and prefix + "kernel_cpu_seconds" in result:
            flop += flop_of_triple * float(result[prefix + "kept"].sum())
            cpu += float(result[prefix + "kernel_cpu_seconds"].sum())
    return flop / cpu * 1e-9 if cpu > 0 else np.nan


def _sizes(result, run_settings):
    """{key of input.generate: size}, for the sizes that a result's tensors show."""
    if "out" not in result:
        return {}
    axes = {"batch": "batch", "heads": "head", "kv_heads": "kv_head", "head_dim": "dim"}
    found = {name: result.sizes[axis] for name, axis in axes.items() if axis in result.sizes}
    if _at(run_settings, "compute.backward") and "kv_head" not in result.sizes:
        found["kv_heads"] = found.get("heads")  # dk has the axis `head`
    found |= {"value_dim": result.sizes.get("value_dim", "auto"), "queries": result.sizes.get("query", "auto")}
    if _at(run_settings, "output.type") == "auto":
        found["dtype"] = result["out"].attrs.get("stored_as", str(result["out"].dtype))
    return {_SHAPE + name: size for name, size in found.items()}
