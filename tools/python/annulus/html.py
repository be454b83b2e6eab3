"""report: one HTML page about a result. The pictures are inside the page, so that it can be mailed as one file."""
import base64
import html

from annulus import arguments, pages
from annulus.errors import AnnulusError
from annulus.pattern import Pattern
from annulus.plots import heads, measured, patterns, ranks, style, training
from annulus.results.cases import cases
from annulus.results.dataset import open_result, rows_of, settings

RANKS_LISTED = 64
PATTERN_ROWS = 4096


@arguments.checked(result_file=arguments.path, page_file=arguments.path, overwrite=arguments.flag)
def report(result_file, page_file, overwrite=False):
    """Writes one self-contained HTML page about a result of `annulus run`: what was run and where, what each rank
    measured, and pictures. Raises AnnulusError for a file that is not a result."""
    pages.check_name(page_file, overwrite)
    with open_result(result_file) as result:
        page = _page(result, result_file)
    pages.write(page, page_file, overwrite)


def _page(result, path):
    attributes = result.attrs
    run_settings = settings(result)
    words = [f"{result.sizes.get('rank', 1)} rank" + ("s" if result.sizes.get("rank", 1) != 1 else ""),
             f"annulus {attributes.get('version', '?')}", attributes.get("date", "")]
    sections = [
        ("Tensors", pages.table(("dataset", "axes", "type", "size"), _tensors(result))),
        ("What was measured", _overview(path)),
        ("Pictures", _pictures(result, run_settings, path)),
        ("Ranks", _rank_table(result)),
        ("Run file", f"<pre>{html.escape(attributes['settings'])}</pre>"),
        ("Where it is from", pages.table(("", ""), [(name, attributes[name]) for name in sorted(attributes)
                                                    if name not in ("settings", "title")])),
    ]
    return pages.page(f"annulus: {path}", " · ".join(word for word in words if word), sections)


def _tensors(result):
    for name, variable in result.data_vars.items():
        if "rank" not in variable.dims:
            axes = ", ".join(f"{axis} {size:,}" for axis, size in variable.sizes.items())
            yield name, axes, variable.attrs.get("stored_as", str(variable.dtype)), _bytes(_size(variable))


def _size(variable):
    return variable.size * (2 if variable.attrs.get("stored_as") == "bfloat16" else variable.dtype.itemsize)


def _bytes(number):
    unit, name = style.bytes_unit(number)
    return f"{number / unit:.3g} {name}" if name != "bytes" else f"{number:.0f} bytes"


def _overview(path):
    row = cases(path).iloc[0]
    seconds = row["attention_seconds_median"]
    lines = [("strategy", row["strategy"] or "auto"), ("time of attention", f"{seconds:.4g} s (slowest rank)"),
             ("rate of the kernel", f"{row['gflop_per_cpu_second']:.4g} GFLOP per CPU second"),
             ("longest wait for messages", f"{row['wait_seconds']:.4g} s"),
             ("received by the busiest rank", _bytes(row["bytes_received"])),
             ("peak memory of the fullest rank",
              f"{_bytes(row['peak_bytes'])} ({_bytes(row['predicted_peak_bytes'])} predicted)")]
    # A result of `annulus train` lacks some of these numbers.
    return pages.table(("", ""), [line for line in lines if "nan" not in line[1].split()])


def _pictures(result, run_settings, path):
    """The pictures for which the result has numbers."""
    makers = [
        ("Loss of every step.", lambda: training.loss(result)),
        ("Memory, measured and as the plan had predicted it.", lambda: measured.memory(cases(path))),
        ("What each rank did, forward.", lambda: ranks.timeline(result)),
        ("Who received how much from whom.", lambda: ranks.traffic(result)),
        ("What each rank did, backward.", lambda: ranks.timeline(result, backward=True)),
        ("Who received how much from whom, backward.", lambda: ranks.traffic(result, backward=True)),
        ("Log-sum-exp of every query row and head.", lambda: heads.lse(result)),
        ("Entropy of every query row and head.", lambda: heads.entropy(result)),
        ("What every row receives of all queries, by head.", lambda: heads.received(result)),
        ("Which keys a query sees; only the first rows if there are many.", lambda: _pattern(result, run_settings)),
    ]
    text = ""
    for caption, make in makers:
        try:
            image = base64.b64encode(make()._repr_png_()).decode("ascii")
        except AnnulusError:  # the result lacks the numbers; a layer has no LSE, for example
            continue
        text += (f'<figure><img alt="{html.escape(caption)}" src="data:image/png;base64,{image}">'
                 f"<figcaption>{html.escape(caption)}</figcaption></figure>\n")
    return text


def _pattern(result, run_settings):
    count = result.sizes.get("head") or (run_settings.get("layer") or {}).get("heads", 1)
    return patterns.pattern(Pattern.of_result(run_settings), min(rows_of(result), PATTERN_ROWS), 0, count)


def _rank_table(result):
    """A line for each metric: unit, least, mean and most over all ranks, then the values of the first 64 ranks."""
    if "rank" not in result.sizes:
        return ""
    shown = min(result.sizes["rank"], RANKS_LISTED)
    lines = []
    for name, variable in result.data_vars.items():
        if variable.dims == ("rank",):
            values = variable.values
            numbers = (values.min(), values.mean(), values.max(), *values[:shown])
            lines.append((name, _unit(variable), *map(_number, numbers)))
    more = result.sizes["rank"] - shown
    note = f'<p class="note">{more} more ranks are not listed.</p>' if more > 0 else ""
    return pages.table(("", "unit", "least", "mean", "most", *(f"rank {rank}" for rank in range(shown))), lines, 2) + note


def _unit(variable):
    unit = variable.attrs.get("units", "")
    return "" if unit == "1" else unit


def _number(value):
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"
