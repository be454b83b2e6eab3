"""Maps over heads and rows: log-sum-exp, entropy, attention received."""
import numpy as np

from annulus import arguments
from annulus.axes import has_rows, row_axis
from annulus.errors import AnnulusError
from annulus.plots import style
from annulus.results.statistics import ROWS, checked, statistic

COLUMNS_MOST = 1200  # more columns could not be seen


@arguments.checked(result=arguments.dataset, batch=arguments.whole())
def lse(result, batch=0):
    """Log-sum-exp of every query row and head of one batch entry; grey where a row sees no key (-inf).

    In long sequences neighbouring rows are averaged; the mean leaves out rows that see no key.
    """
    if "lse" not in result:
        raise AnnulusError("result has no lse; expected the result of an attention run (a layer's has none)")
    found = _of_batch(result["lse"], batch)
    return _map(_averaged(found), found.shape[1], "query row", "log-sum-exp of scores, nats",
                f"how much a row's keys weigh together, batch entry {batch}")


@arguments.checked(result=arguments.dataset, batch=arguments.whole())
def entropy(result, batch=0):
    """Entropy of every query row and head of one batch entry: 0 where a row looks at one key only, ln n where it looks
    at n keys equally (a key in two pairs counts as two); grey where it sees no key. Averages rows as lse() does."""
    found = _of_batch(statistic(result, "entropy"), batch)
    seen = _of_batch(result["lse"], batch) if "lse" in result else None
    return _map(_averaged(found, seen), found.shape[1], "query row", "entropy, nats",
                f"how widely a row looks, batch entry {batch}", vmin=0)


@arguments.checked(result=arguments.dataset, batch=arguments.whole())
def received(result, batch=0):
    """Attention that every key row receives from all queries, for each query head of one batch entry; 1 on average.

    The scale ends at the value that one row in a hundred exceeds, because some rows collect far more than others.
    """
    found = _of_batch(statistic(result, "received"), batch)
    values = _averaged(found)
    return _map(values, found.shape[1], "key row", "sum of the weights that queries give it",
                f"how much a row is looked at, batch entry {batch}", vmin=0, vmax=style.most_of(values))


def _of_batch(found, batch):
    """The values of one batch entry as (heads, rows)."""
    if found.ndim != len(ROWS) or not has_rows(found.dims):
        raise AnnulusError(f"{found.name} has axes {found.dims}; expected {', '.join(ROWS)}, as annulus names them")
    return found.isel(batch=checked("batch entry", batch, found.sizes["batch"])).transpose("head", row_axis(found.dims))


def _map(values, rows, across, label, title, **limits):
    with style.look():
        figure = style.figure(9, min(7, 2.6 + 0.28 * len(values)))
        axes = figure.subplots()
        axes.set_facecolor(style.GREY)
        seen = np.isfinite(values)
        shown = np.where(seen, values, np.nan)
        image = axes.imshow(shown, aspect="auto", interpolation="nearest", cmap=style.MAP,
                            extent=(0, rows, len(values) - 0.5, -0.5), **limits)
        axes.set_yticks(range(0, len(values), max(1, len(values) // 12)))
        axes.grid(visible=False)
        axes.set_xlabel(across)
        axes.set_ylabel("head")
        grey = "" if seen.all() else " (grey: sees no key)"
        figure.colorbar(image, ax=axes, label=label, extend=style.extend(values, limits.get("vmax")))
        axes.set_title(f"{title}{grey}")
        return figure


def _averaged(heads_by_rows, seen=None):
    """(heads, columns), at most COLUMNS_MOST columns: means of the finite values, -inf if there are none. Values where
    `seen` is not finite do not count."""
    rows = heads_by_rows.shape[1]
    columns = min(rows, COLUMNS_MOST)
    borders = np.linspace(0, rows, columns + 1).astype(int)
    lines = []
    for head in range(heads_by_rows.sizes["head"]):
        line = heads_by_rows.isel(head=head).values.astype(float)
        counted = np.isfinite(line)
        if seen is not None:
            counted &= np.isfinite(seen.isel(head=head).values)
        sums = np.add.reduceat(np.where(counted, line, 0.0), borders[:-1])
        counts = np.add.reduceat(counted.astype(float), borders[:-1])
        lines.append(np.where(counts > 0, sums / np.maximum(counts, 1), -np.inf))
    return np.array(lines)
