"""Pictures of a table of cases (annulus.cases): scaling, and memory compared with the prediction."""
import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from annulus import arguments
from annulus.plots import style
from annulus.plots.problems import case_names, of_cases, problems, rows_text
from annulus.plots.style import known, spread

CASES_MOST = 24
TITLE_MOST = 44  # characters in a line of a title; the legend is beside the axes


def _ranks_axis(axes, ranks):
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(sorted(set(ranks))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("ranks")


@arguments.checked(table=of_cases, kind=arguments.choice("strong", "weak", expected="strong or weak"))
def scaling(table, kind="strong"):
    """Time over the number of ranks (strong: same problem), or efficiency (weak: rows grow with ranks).

    Points are medians; bars reach from the fastest to the slowest measurement. Strong scaling shows one problem: the
    one that was measured on the most different numbers of ranks, and of several such problems the one with the most
    rows. If cases with the same strategy and ranks differ in other keys, the fastest is shown.
    """
    table = known(table, "ranks", "attention_seconds_median")
    label = rows_text(table)
    if kind == "strong":
        label, table = max(problems(table), key=lambda problem: (problem[1]["ranks"].nunique(),
                                                                 problem[1]["sequence"].max()))
    with style.look():
        figure = style.figure()
        axes = figure.subplots()
        looks = style.of_strategy(table["strategy"])
        unit, unit_name = style.seconds_unit(table["attention_seconds_median"].max())
        for name, group in table.groupby("strategy"):
            best = group.loc[group.groupby("ranks")["attention_seconds_median"].idxmin()].sort_values("ranks")
            ranks, median = best["ranks"].to_numpy(), best["attention_seconds_median"].to_numpy()
            reach = spread(best)
            colour, marker = looks[name]
            if kind == "strong":
                values, errors = median / unit, reach / unit
            else:
                values, errors = median[0] / median, reach * median[0] / median ** 2
            axes.errorbar(ranks, values, yerr=errors, color=colour, marker=marker, capsize=4, label=name or "auto")
        _ranks_axis(axes, table["ranks"])
        if kind == "strong":
            fewest = table.loc[table["ranks"] == table["ranks"].min()]
            ends = np.array([table["ranks"].min(), table["ranks"].max()])
            axes.plot(ends, fewest["attention_seconds_median"].min() / unit * ends[0] / ends, color="black",
                      linestyle=":", linewidth=1.6, label="half the time\non twice the ranks")
            style.plain_log(axes)
            axes.set_ylabel(f"time of attention, {unit_name}")
            axes.set_title(style.wrapped(f"strong scaling, {label}", TITLE_MOST)[0])
        else:
            axes.axhline(1, color="black", linestyle=":", linewidth=1.4, label="perfect")
            axes.set_ylim(0, None)
            axes.set_ylabel("efficiency, time on fewest ranks / time")
            axes.set_title(style.wrapped(f"weak scaling, {label}", TITLE_MOST)[0])
        _legend_beside(figure, axes)
        return figure


def _legend_beside(figure, axes):
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False)


@arguments.checked(table=of_cases)
def memory(table):
    """Peak memory of the fullest rank, measured and as the plan predicted it: a pair of bars for each case.

    If there are more than 24 cases, those with the highest peaks are shown.
    """
    found = known(table, "peak_bytes")
    table = found.loc[found["peak_bytes"].nlargest(CASES_MOST).index].sort_index()
    names, width, lines = style.wrapped_names(case_names(table))
    with style.look():
        figure = style.figure(max(8.5, 6 + width), max(3.2, 1.4 + max(0.62, style.LINE * (lines + 1)) * len(table)))
        axes = figure.subplots()
        predicted = table["predicted_peak_bytes"].to_numpy(float)
        unit, unit_name = style.bytes_unit(np.nanmax([*table["peak_bytes"], *predicted]))
        place = np.arange(len(table))
        axes.barh(place - 0.19, table["peak_bytes"] / unit, 0.36, color=style.COLOURS["blue"], label="measured")
        if np.isfinite(predicted).any():
            axes.barh(place + 0.19, predicted / unit, 0.36, color="white", edgecolor=style.COLOURS["red"], hatch="///",
                      linewidth=1.4, label="predicted")
        axes.set_yticks(place, names)
        axes.set_ylim(len(table) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"peak of tensors and buffers on the fullest rank, {unit_name}")
        if len(table) < len(found):
            axes.set_title(f"the {len(table)} fullest of {len(found)} cases", loc="left")
        figure.legend(loc="outside upper right", ncols=2, frameon=False)
        return figure
