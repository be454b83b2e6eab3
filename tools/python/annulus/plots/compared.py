"""Strategies side by side, problem by problem."""
import numpy as np

from annulus import arguments
from annulus.plots import style
from annulus.plots.problems import case_names, of_cases, problems, ranks_text
from annulus.plots.style import known, spread

PROBLEMS_MOST = 6
BARS_MOST = 24  # for each problem


@arguments.checked(table=of_cases)
def strategies(table):
    """Strategies side by side, fastest first: time with its spread and the share spent waiting, and peak memory.

    Each problem (rows, and other keys in which cases differ) has its own pair of panels; the six largest problems are
    shown. If a strategy has several cases on the same number of ranks, the fastest is shown; at most 24 in a panel.
    """
    found = problems(known(table, "attention_seconds_median"))
    shown = [(label, _fastest(cases)) for label, cases in found[-PROBLEMS_MOST:]]
    names = [style.wrapped_names(case_names(cases)) for _, cases in shown]
    widest = max(width for _, width, _ in names)
    width = max(11, 8 + widest)
    most = int((width - widest - 1) / style.CHARACTER)
    titles = [style.wrapped(_title(label, cases), most)[0] for label, cases in shown]
    heights = [1.3 + style.LINE * (title.count("\n") + 1) + max(0.5, style.LINE * (lines + 1)) * len(cases)
               for title, (_, cases), (_, _, lines) in zip(titles, shown, names)]
    with style.look():
        figure = style.figure(width, max(3.2, 0.4 + sum(heights)))
        panels = figure.subplots(len(shown), 2, sharey="row", squeeze=False,
                                 gridspec_kw={"width_ratios": (3, 2), "height_ratios": heights})
        for (left, right), title, (_, cases), (bars, _, _) in zip(panels, titles, shown, names):
            _times(left, cases, bars)
            _memory(right, np.arange(len(cases)), cases)
            left.set_title(title, loc="left")
            for axes in (left, right):
                axes.grid(axis="y", visible=False)
        drawn = {label: handle for left, _ in panels
                 for handle, label in zip(*left.get_legend_handles_labels())}
        more = len(found) - len(shown)
        figure.legend(drawn.values(), drawn.keys(), loc="outside upper left", ncols=4, frameon=False,
                      title=f"{more} smaller problem{'s are' if more > 1 else ' is'} not shown" if more else None)
        return figure


def _fastest(cases):
    """The fastest case of each strategy on each number of ranks, fastest first."""
    best = cases.loc[cases.groupby(["strategy", "ranks"], dropna=False)["attention_seconds_median"].idxmin()]
    return best.sort_values("attention_seconds_median").head(BARS_MOST)


def _title(label, cases):
    ranks = cases["ranks"].dropna().unique()
    return f"{label}, {ranks_text(ranks[0])}" if len(ranks) == 1 else label


def _times(axes, cases, names):
    place = np.arange(len(cases))
    unit, unit_name = style.seconds_unit(cases["attention_seconds_median"].max())
    reach = spread(cases) / unit
    axes.barh(place, cases["attention_seconds_median"] / unit, color=style.COLOURS["sky"],
              label="median" if reach.any() else "time")
    if cases["wait_seconds"].notna().any():
        axes.barh(place, cases["wait_seconds"].fillna(0) / unit, color=style.COLOURS["orange"], hatch="///",
                  edgecolor="white", height=0.45, label="of it waiting (slowest rank)")
    if reach.any():
        axes.errorbar(cases["attention_seconds_median"] / unit, place, xerr=reach, fmt="none", ecolor="black",
                      capsize=4, label="fastest to slowest")
    if cases["predicted_seconds"].notna().any():
        axes.plot(cases["predicted_seconds"] / unit, place, "D", color=style.COLOURS["red"], markersize=8,
                  markeredgecolor="white", label="as the plan predicted")
    axes.set_yticks(place, names)
    axes.set_ylim(len(cases) - 0.4, -0.6)
    axes.set_xlim(0, None)
    axes.set_xlabel(f"time of attention, {unit_name}")


def _memory(axes, place, cases):
    peaks = cases["peak_bytes"]
    if peaks.isna().all():
        style.say_nothing_known(axes, "memory was not measured")
        return
    unit, unit_name = style.bytes_unit(peaks.max())
    axes.barh(place, peaks / unit, color=style.COLOURS["green"])
    axes.set_xlabel(f"peak memory, fullest rank, {unit_name}")
