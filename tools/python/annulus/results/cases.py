"""One table of measurements, from sweeps (`annulus bench`) and from single runs, for plots to compare."""
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

from annulus import arguments, hdf5
from annulus.errors import AnnulusError
from annulus.results.dataset import RESULT, SWEEP, check, kind_of, open_result, open_sweep, settings

# Columns that every table has (NaN or "" where unknown); further columns of a sweep keep their own names.
COLUMNS = {
    "strategy": "word", "ranks": "ranks", "threads": "threads per rank", "sequence": "rows",
    "attention_seconds_min": "s", "attention_seconds_median": "s", "attention_seconds_max": "s",
    "gflop_per_cpu_second": "GFLOP/s", "wait_seconds": "s", "bytes_received": "bytes",
    "peak_bytes": "bytes", "predicted_peak_bytes": "bytes", "predicted_seconds": "s",
}
# Columns of a sweep that have another name than the key of the run file whose values they show.
KEYS = {"strategy": "distribution.strategy", "sequence": "input.generate.sequence"}


@arguments.checked(paths=arguments.paths)
def cases(paths):
    """A pandas.DataFrame with a row per case of a sweep, and one per result; columns as in COLUMNS, and `file`.

    Times and bytes of a result are those of its slowest or fullest rank. Unfinished cases of a sweep (`status`) are
    left out; left_out(table) counts them. Raises AnnulusError for a file that is neither a sweep nor a result.
    """
    tables = [_of_file(path) for path in paths]
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
    with hdf5.reading(path) as file:
        check(path, file, SWEEP, RESULT)
        is_sweep = kind_of(file) == SWEEP
    table = _of_sweep(path) if is_sweep else pd.DataFrame([_of_result(path)])
    for name in COLUMNS:
        if name not in table:
            table[name] = "" if name == "strategy" else np.nan
    table["file"] = Path(path).name
    table.attrs["left_out"] = table.attrs.get("left_out", Counter())
    return table


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
    result = open_result(path)
    run_settings = settings(result) if "settings" in result.attrs else {}
    threads = re.match(r"(\d+) thread", result.attrs.get("devices", ""))

    def most(name):
        return float(result[name].max()) if name in result else np.nan

    seconds = most("attention_seconds")
    kept, cpu = result.get("kept"), result.get("kernel_cpu_seconds")
    values = result.sizes.get("value_dim", result.sizes.get("dim", np.nan))
    # If v has another head size than k, a result without gradients has no axis dim: out has value_dim instead.
    keys = result.sizes.get("dim", _at(run_settings, "input.generate.head_dim") or np.nan)
    rate = 2 * (keys + values) * float(kept.sum()) / max(float(cpu.sum()), 1e-9) * 1e-9 if kept is not None else np.nan
    return {
        "strategy": result.attrs.get("strategy") or _at(run_settings, "distribution.strategy") or "",
        "ranks": result.sizes.get("rank", np.nan), "threads": float(threads[1]) if threads else np.nan,
        "sequence": result.sizes.get("sequence", np.nan),
        "attention_seconds_min": seconds, "attention_seconds_median": seconds, "attention_seconds_max": seconds,
        "gflop_per_cpu_second": rate, "wait_seconds": most("wait_seconds"), "bytes_received": most("bytes_received"),
        "peak_bytes": most("peak_bytes"), "predicted_peak_bytes": most("predicted_peak_bytes"),
    }
