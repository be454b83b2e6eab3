"""Statistics of a result's attention, as `output.statistics` in the run file asked for them, for each query head.

  entropy   (batch, sequence, head)       of row x, in nats: the row looks at about exp(entropy) keys
  received  (batch, sequence, head)       by row p, from all queries together; 1 on average
  top_rows, top_weights (.., head, k)     the k rows that row x looks at most, and their weights; -1 and 0: no more rows

If queries are other rows than the keys, entropy and the top keys have the axis `query` instead of `sequence`.

P(x, p) is the share of row x's attention that goes to row p, mult(x, p) exp(s - lse(x)); docs/semantics.md.
"""
from typing import NamedTuple

import numpy as np

from annulus import arguments
from annulus.axes import has_rows, row_axis
from annulus.errors import AnnulusError

ROWS = ("batch", "sequence", "head")
# {dataset: the name in output.statistics with which a run makes it}
ASKED_AS = {"entropy": "entropy", "received": "received", "top_rows": "top", "top_weights": "top"}


class Listed(NamedTuple):
    """Rows that one query looks at most, by descending weight; equal weights by ascending row."""
    rows: np.ndarray     # (n,) int64
    weights: np.ndarray  # (n,) float64; of several heads the mean, to which a head without this row adds 0


def statistic(result, name):
    """The DataArray of a statistic. If the result lacks it, raises AnnulusError that says how to get the statistic."""
    if name not in ASKED_AS:
        raise AnnulusError(f"statistic {name!r}: expected one of {', '.join(ASKED_AS)}")
    if name not in result:
        raise AnnulusError(f"result has no {name}; expected that of a run with output.statistics: [{ASKED_AS[name]}]")
    found = result[name]
    if not has_rows(found.dims) or found.ndim != (4 if ASKED_AS[name] == "top" else 3):
        raise AnnulusError(f"{name} has shape {found.shape} and axes {found.dims}; expected {', '.join(ROWS)}"
                           f"{' and one for the list' if ASKED_AS[name] == 'top' else ''}, as annulus names them")
    return found


def checked(what, number, count):
    """Returns `number` if it is in 0 ... count - 1. Otherwise raises AnnulusError."""
    if not 0 <= number < count:
        raise AnnulusError(f"{what} {number}: expected 0 to {count - 1}")
    return number


def _finite(name, numbers):
    if not np.isfinite(numbers).all():
        raise AnnulusError(f"{name} has {numbers[~np.isfinite(numbers)][0]}; expected numbers")


@arguments.checked(result=arguments.dataset, name=arguments.text(), batch=arguments.whole(), head=arguments.index)
def of_rows(result, name, batch=0, head=None):
    """(sequence,) float64: entropy, or received, of every row, for one head or as the mean over all."""
    found = statistic(result, name)
    values = found.isel(batch=checked("batch entry", batch, found.sizes["batch"]))
    if head is not None:
        values = values.isel(head=checked("head", head, found.sizes["head"])).values.astype(float)
    else:
        values = values.astype(float).mean("head").values
    _finite(name, values)
    return values


@arguments.checked(result=arguments.dataset, query=arguments.whole(), batch=arguments.whole(), head=arguments.index)
def listed(result, query, batch=0, head=None):
    """Listed: what row `query` looks at most, for one head or as the mean over all.

    Two heads that list {3: 0.6, 5: 0.2} and {5: 0.4, 7: 0.4} give {3: 0.3, 5: 0.3, 7: 0.2}.
    """
    rows, weights = statistic(result, "top_rows"), statistic(result, "top_weights")
    if rows.sizes != weights.sizes:
        raise AnnulusError(f"top_rows has shape {rows.shape} and top_weights {weights.shape}; expected the same")
    heads = rows.sizes["head"]
    place = {"batch": checked("batch entry", batch, rows.sizes["batch"]),
             row_axis(rows.dims): checked("query", query, rows.sizes[row_axis(rows.dims)])}
    if head is not None:
        place["head"] = checked("head", head, heads)
    keys, shares = rows.isel(place).values.ravel(), weights.isel(place).values.ravel().astype(float)
    there = keys >= 0
    count = result.sizes.get("sequence", int(result["rows"].sum()) if "rows" in result else keys.max() + 1)
    strange = keys[(keys < -1) | (keys >= count)]
    if strange.size:
        raise AnnulusError(f"top_rows of query {query} has row {strange[0]}; expected 0 to {count - 1}, or -1 for none")
    _finite("top_weights", shares)
    found, of = np.unique(keys[there], return_inverse=True)
    sums = np.bincount(of, shares[there], len(found)) / (heads if head is None else 1)
    order = np.argsort(-sums, kind="stable")  # stable: rows with equal sums stay ascending, as in `found`
    return Listed(found[order], sums[order])
