"""Pictures of a table of cases (annulus.cases): scaling, memory against prediction, strategies side by side."""
import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from annulus.errors import AnnulusError
from annulus.plots import style


def _known(table, *columns):
    """Rows in which these columns have numbers. Raises AnnulusError where none has."""
    for column in columns:
        kept = table[table[column].notna()]
        if kept.empty:
            raise AnnulusError(f"{', '.join(sorted(set(table['file'])))}: no case has {column}; expected a sweep of "
                               "annulus bench, or results of annulus run, that measured it")
        table = kept
    return table


def _ranks_axis(axes, ranks):
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(sorted(set(ranks))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("ranks")


def _plain_log(axes):
    """Powers of ten as 0.01, 1, 100; and where the axis has less than a power, marks between them with numbers."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    low, high = axes.get_ylim()
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if high / low < 20 else ""))


def scaling(table, kind="strong"):
    """Time over the number of ranks (strong: same problem), or efficiency (weak: rows grow with ranks).

    Points are medians, bars reach from the fastest to the slowest measurement. Of several cases that differ in more
    than strategy and ranks, the fastest stands for its number of ranks.
    """
    if kind not in ("strong", "weak"):
        raise AnnulusError(f"scaling {kind!r}: expected strong or weak")
    table = _known(table, "ranks", "attention_seconds_median")
    with style.look():
        figure = style.figure()
        axes = figure.subplots()
        looks = style.of_strategy(table["strategy"])
        unit, unit_name = style.seconds_unit(table["attention_seconds_median"].max())
        for name, group in table.groupby("strategy"):
            best = group.loc[group.groupby("ranks")["attention_seconds_median"].idxmin()].sort_values("ranks")
            ranks, median = best["ranks"].to_numpy(), best["attention_seconds_median"].to_numpy()
            spread = _spread(best)
            colour, marker = looks[name]
            if kind == "strong":
                values, errors = median / unit, spread / unit
            else:
                values, errors = median[0] / median, spread * median[0] / median ** 2
            axes.errorbar(ranks, values, yerr=errors, color=colour, marker=marker, capsize=4, label=name or "auto")
        _ranks_axis(axes, table["ranks"])
        if kind == "strong":
            fewest = table.loc[table["ranks"] == table["ranks"].min()]
            reach = np.array([table["ranks"].min(), table["ranks"].max()])
            axes.plot(reach, fewest["attention_seconds_median"].min() / unit * reach[0] / reach, color="black",
                      linestyle=":", linewidth=1.6, label="half the time\non twice the ranks")
            _plain_log(axes)
            axes.set_ylabel(f"time of attention, {unit_name}")
            axes.set_title(f"strong scaling, {_rows_text(table)}")
        else:
            axes.axhline(1, color="black", linestyle=":", linewidth=1.4, label="perfect")
            axes.set_ylim(0, None)
            axes.set_ylabel("efficiency, time on fewest ranks / time")
            axes.set_title(f"weak scaling, {_rows_text(table)}")
        _legend_beside(figure, axes)
        return figure


def _spread(table):
    """(2, n): from median down to the fastest, and up to the slowest."""
    median = table["attention_seconds_median"].to_numpy()
    low = table["attention_seconds_min"].fillna(table["attention_seconds_median"]).to_numpy()
    high = table["attention_seconds_max"].fillna(table["attention_seconds_median"]).to_numpy()
    return np.maximum(np.stack([median - low, high - median]), 0)


def _rows_text(table):
    rows = table["sequence"].dropna()
    if rows.empty:
        return "rows not known"
    low, high = int(rows.min()), int(rows.max())
    return f"{low:,} rows" if low == high else f"{low:,} to {high:,} rows"


def _legend_beside(figure, axes):
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False)


def memory(table):
    """Peak memory of the fullest rank, measured, beside what the plan had predicted: a pair of bars for each case."""
    table = _known(table, "peak_bytes").head(24)
    names = case_names(table)
    with style.look():
        figure = style.figure(8.5, max(3.2, 1.4 + 0.62 * len(table)))
        axes = figure.subplots()
        predicted = table["predicted_peak_bytes"].to_numpy(float)
        unit, unit_name = style.bytes_unit(np.nanmax([*table["peak_bytes"], *predicted]))
        place = np.arange(len(table))
        axes.barh(place - 0.19, table["peak_bytes"] / unit, 0.36, color=style.COLOURS["blue"], label="measured")
        if np.isfinite(predicted).any():
            axes.barh(place + 0.19, predicted / unit, 0.36, color="white", edgecolor=style.COLOURS["red"], hatch="///",
                      linewidth=1.4, label="predicted")
        axes.set_yticks(place, names)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"peak of tensors and buffers on the fullest rank, {unit_name}")
        figure.legend(loc="outside upper right", ncols=2, frameon=False)
        return figure


def strategies(table):
    """Strategies side by side, fastest first: time with its spread and the share spent waiting, and peak memory.

    Of several cases of a strategy on as many ranks and rows, the fastest stands for all.
    """
    table = _known(table, "attention_seconds_median").copy()
    keys = ["strategy", "ranks", "sequence"]
    table = table.loc[table.groupby(keys, dropna=False)["attention_seconds_median"].idxmin()]
    table = table.sort_values("attention_seconds_median").head(24)
    with style.look():
        figure = style.figure(11, max(3.2, 1.5 + 0.5 * len(table)))
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        place = np.arange(len(table))
        unit, unit_name = style.seconds_unit(table["attention_seconds_max"].max())
        spread = _spread(table) / unit
        left.barh(place, table["attention_seconds_median"] / unit, color=style.COLOURS["sky"],
                  label="median" if spread.any() else "time")
        if table["wait_seconds"].notna().any():
            left.barh(place, table["wait_seconds"].fillna(0) / unit, color=style.COLOURS["orange"], hatch="///",
                      edgecolor="white", height=0.45, label="of it waiting (slowest rank)")
        if spread.any():
            left.errorbar(table["attention_seconds_median"] / unit, place, xerr=spread, fmt="none", ecolor="black",
                          capsize=4, label="fastest to slowest")
        if table["predicted_seconds"].notna().any():
            left.plot(table["predicted_seconds"] / unit, place, "D", color=style.COLOURS["red"], markersize=8,
                      markeredgecolor="white", label="as the plan predicted")
        left.set_yticks(place, case_names(table))
        left.invert_yaxis()
        left.set_xlabel(f"time of attention, {unit_name}")
        _memory_panel(right, place, table)
        for axes in (left, right):
            axes.grid(axis="y", visible=False)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=4, frameon=False)
        return figure


def _memory_panel(axes, place, table):
    peaks = table["peak_bytes"]
    if peaks.isna().all():
        style.say_nothing_known(axes, "memory was not measured")
        return
    unit, unit_name = style.bytes_unit(peaks.max())
    axes.barh(place, peaks / unit, color=style.COLOURS["green"])
    axes.set_xlabel(f"peak memory, fullest rank, {unit_name}")


def case_names(table):
    """What a case is called beside its bar: strategy, and of ranks and rows what is not the same for all.

    Where that does not tell cases apart, the file or the case's number comes along.
    """
    several_ranks, several_rows = table["ranks"].nunique() > 1, table["sequence"].nunique() > 1
    names = []
    for row in table.itertuples():
        words = [row.strategy or "auto"]
        if several_ranks and row.ranks == row.ranks:
            words.append(f"{row.ranks:.0f} ranks" if row.ranks != 1 else "1 rank")
        if several_rows and row.sequence == row.sequence:
            words.append(f"{row.sequence:,.0f} rows")
        names.append(", ".join(words))
    if len(set(names)) == len(names):
        return names
    by_file = table["file"].nunique() == len(table)
    return [f"{name} ({row.file if by_file else f'case {row.Index}'})" for name, row in zip(names, table.itertuples())]
