"""The verbs of annulus-tools, and their options."""
import argparse
import re
import sys

from annulus import __version__
from annulus.errors import AnnulusError

HDF5 = (".h5", ".hdf5", ".nc")
BY_HEAD = ("lse", "entropy", "received")  # maps over heads and rows
EXAMPLES = """examples:
  annulus-tools convert tokens.npz tokens.h5 --axes bhsd     an input file for `annulus run`
  annulus-tools convert result.h5 result.safetensors         the result in another format
  annulus-tools show result.h5
  annulus-tools plot strategies sweep.h5 strategies.png
  annulus-tools plot slide result.h5 slide.png --coords coords.h5
  annulus-tools tokens result.h5 text.html --tokens tokens.json
  annulus-tools report result.h5 result.html"""


def parser():
    top = argparse.ArgumentParser(prog="annulus-tools", description="Inputs, results and pictures of annulus.",
                                  epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--version", action="version", version=__version__)
    verbs = top.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add_show(verbs)
    _add_convert(verbs)
    _add_plot(verbs)
    _add_tokens(verbs)
    _add_report(verbs)
    return top


def _verb(verbs, name, act, about):
    verb = verbs.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
    verb.set_defaults(act=act)
    return verb


def _overwrite(verb):
    verb.add_argument("--overwrite", action="store_true", help="replace an existing file")


def _add_show(verbs):
    verb = _verb(verbs, "show", show, "say what is in a file: result, sweep, or tensors of any kind")
    verb.add_argument("file")


def show(options):
    import xarray

    from annulus import formats, hdf5
    from annulus.results.dataset import RESULT, SWEEP, kind_of, open_result
    kind = None
    if options.file.lower().endswith(HDF5):
        with hdf5.reading(options.file) as file:
            kind = kind_of(file)
    if kind == SWEEP:
        _show_sweep(options.file)
        return
    if kind == RESULT:
        with open_result(options.file) as found, xarray.set_options(display_max_rows=1000, display_width=110):
            print(found)
        return
    with formats.reading(options.file) as found:
        for name, tensor in found.items():
            axes = f"  ({', '.join(axis or '?' for axis in tensor.axes)})" if tensor.axes else ""
            print(f"{name:12} {tensor.element.name:9} {tensor.shape}{axes}")
        if not found:
            raise AnnulusError(f"{options.file}: has no tensors of numbers; expected q, k, v, a result or a sweep")


def _show_sweep(path):
    from annulus.results.cases import cases, left_out, summary
    from annulus.results.dataset import open_sweep
    table = cases(path)
    print(summary(table).to_string(index=False))
    if more := left_out(table):
        print(f"and {more}")
    columns = open_sweep(path).variables
    print(f"columns: {', '.join(columns)}")


def _add_convert(verbs):
    verb = _verb(verbs, "convert", convert, "write tensors to another kind of file, piece by piece")
    verb.add_argument("source", nargs="+", help=".h5, .npy, .npz, .safetensors, .pt or .zarr; several files with "
                                                "the same tensors become one batch")
    verb.add_argument("target", help="a file of one of these kinds; .h5: an input for `annulus run`, with q, k, v")
    for name in ("q", "k", "v", "dout"):
        verb.add_argument(f"--{name}", metavar="NAME", help=f"name of {name} in the sources")
    verb.add_argument("--only", metavar="NAME,...", help="names of the tensors to write")
    verb.add_argument("--axes", choices=("bshd", "bhsd"), help="order of axes in the sources; bhsd is PyTorch's")
    verb.add_argument("--to-axes", choices=("bshd", "bhsd"), help="order of axes in the target (that of the sources)")
    verb.add_argument("--split-heads", metavar="H[,HKV]",
                      help="the sources are (batch, sequence, H x dim); K and V have HKV heads")
    verb.add_argument("--heads", metavar="LIST", help="query heads to take, with the K/V heads that they read: 0-3,8")
    verb.add_argument("--interleaved", action="store_true",
                      help="query head h reads K/V head h mod HKV in the sources (annulus: h div (H / HKV))")
    verb.add_argument("--type", choices=("float64", "float32", "float16", "bfloat16"), help="type in the target")
    _overwrite(verb)


def convert(options):
    from annulus.conversion import convert as do
    names = {name: getattr(options, name) for name in ("q", "k", "v", "dout") if getattr(options, name)}
    written = do(options.source, options.target, names=names, only=options.only and options.only.split(","),
                 axes=options.axes, to_axes=options.to_axes, interleaved=options.interleaved, type=options.type,
                 split_heads=options.split_heads and _numbers("--split-heads", options.split_heads, (1, 2)),
                 heads=options.heads and _numbers("--heads", options.heads), overwrite=options.overwrite,
                 say=lambda line: print(f"annulus-tools: {line}", file=sys.stderr))
    print(f"{options.target}: {', '.join(written)}")


def _numbers(option, text, lengths=None):
    """[0, 1, 2, 3, 8] for "0-3,8"."""
    numbers = []
    for word in text.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
        if not found or (found[2] and int(found[2]) < int(found[1])):
            raise AnnulusError(f"{option} {text}: expected numbers, for example 0-3,8")
        numbers += range(int(found[1]), int(found[2] or found[1]) + 1)
    if lengths and (len(numbers) not in lengths or 0 in numbers):
        raise AnnulusError(f"{option} {text}: expected one or two numbers above 0, for example 8,2")
    return numbers


def _add_plot(verbs):
    verb = _verb(verbs, "plot", None, "draw a picture (.png, .svg, .pdf)")
    kinds = verb.add_subparsers(title="kinds", metavar="KIND", required=True)
    for name, about in (("strategies", "strategies side by side: time, waiting, memory"),
                        ("memory", "peak memory, measured and predicted"),
                        ("strong", "time over the number of ranks"),
                        ("weak", "efficiency where rows grow with ranks")):
        kind = _verb(kinds, name, plot_cases, about)
        kind.add_argument("source", nargs="+", help="sweeps of `annulus bench`, results of `annulus run`")
        kind.add_argument("picture")
        kind.add_argument("--rows", type=int, metavar="N", help="only cases with this many rows")
        kind.set_defaults(kind=name)
        _overwrite(kind)
    for name, about in (("timeline", "what each rank did, hop by hop"),
                        ("traffic", "bytes that each rank received from each other rank"),
                        ("lse", "log-sum-exp of every query row and head"),
                        ("entropy", "entropy: how widely every query row and head looks"),
                        ("received", "attention that every key row receives, for each head"),
                        ("loss", "loss over the steps of a training")):
        kind = _verb(kinds, name, plot_result, about)
        kind.add_argument("source", help="a result of `annulus run` or `annulus train`")
        kind.add_argument("picture")
        if name in ("timeline", "traffic"):
            kind.add_argument("--backward", action="store_true", help="show the backward pass")
        if name in BY_HEAD:
            _batch(kind)
        kind.set_defaults(kind=name)
        _overwrite(kind)
    _add_plot_slide(kinds)
    _add_plot_pattern(kinds)


def plot_cases(options):
    from annulus import plots
    from annulus.results.cases import cases, left_out
    table = cases(options.source)
    if more := left_out(table):
        print(f"annulus-tools: of {', '.join(options.source)} only finished cases are drawn; there are also {more}",
              file=sys.stderr)
    if options.rows is not None:
        there = sorted(set(table["sequence"].dropna().astype(int)))
        table = table[table["sequence"] == options.rows]
        if table.empty:
            raise AnnulusError(f"--rows {options.rows}: no case has this many rows; expected {', '.join(map(str, there))}")
    if options.kind in ("strong", "weak"):
        picture = plots.scaling(table, options.kind)
    else:
        picture = getattr(plots, options.kind)(table)
    plots.save(picture, options.picture, options.overwrite)


def plot_result(options):
    from annulus import plots
    from annulus.results.dataset import about, open_result
    more = ("batch",) if options.kind in BY_HEAD else ("backward",) if options.kind in ("timeline", "traffic") else ()
    with open_result(options.source) as result, about(options.source):
        picture = getattr(plots, options.kind)(result, **{name: getattr(options, name) for name in more})
    plots.save(picture, options.picture, options.overwrite)


def _batch(verb):
    verb.add_argument("--batch", type=int, default=0, metavar="N", help="batch entry (0)")


def _of_heads(verb):
    """Options that choose head and batch entry of a statistic."""
    verb.add_argument("--head", type=int, metavar="N", help="one query head; without it the mean over all heads")
    _batch(verb)


def _add_plot_slide(kinds):
    kind = _verb(kinds, "slide", plot_slide, "what the tiles of a slide receive, or what one row looks at")
    kind.add_argument("source", help="a result of `annulus run` with output.statistics")
    kind.add_argument("picture")
    kind.add_argument("--coords", required=True, metavar="FILE", help="x and y of each tile, (tiles, 2), in any kind of file")
    kind.add_argument("--coords-name", metavar="NAME", help="name of the coordinates in that file (coords)")
    kind.add_argument("--of", default="received", metavar="NAME", help="received or entropy (received)")
    kind.add_argument("--query", type=int, metavar="ROW", help="draw instead the rows at which this row looks most")
    kind.add_argument("--tile", type=float, metavar="PIXELS", help="distance of neighbouring tiles (the most common)")
    kind.add_argument("--first-row", type=int, metavar="N",
                      help="row of the first tile (0; 1 where there is one row more than tiles)")
    _of_heads(kind)
    _overwrite(kind)


def plot_slide(options):
    from annulus import grid, plots
    from annulus.results.dataset import about, open_result
    with about(options.coords):
        places = grid.of(grid.coordinates(options.coords, options.coords_name), options.tile)
    with open_result(options.source) as result, about(options.source):
        picture = plots.slide(result, places, options.of, options.batch, options.head, options.query,
                              first_row=options.first_row)
    plots.save(picture, options.picture, options.overwrite)


def _add_plot_pattern(kinds):
    kind = _verb(kinds, "pattern", plot_pattern, "which keys a query sees")
    kind.add_argument("picture")
    kind.add_argument("--result", metavar="FILE", help="take rows, heads and pattern of this result")
    kind.add_argument("--rows", type=int, metavar="N", help="rows of the sequence (1024)")
    kind.add_argument("--segments", default="all", metavar="W,...",
                      help="segment lengths, all, or window:LEFT:RIGHT[:FIRST] (all)")
    kind.add_argument("--dilations", default="1", metavar="R,...", help="one for each segment (1)")
    kind.add_argument("--heads", type=int, default=1, metavar="H", help="query heads (1)")
    kind.add_argument("--head", type=int, default=0, metavar="N", help="the head that is drawn (0)")
    kind.add_argument("--query", type=int, metavar="ROW", help="query whose keys are drawn below the map")
    kind.add_argument("--semantics", default="longnet", metavar="NAME", help="longnet, paper, grouped or torchscale")
    kind.add_argument("--not-causal", action="store_true", help="rows see later rows, too")
    _overwrite(kind)


def plot_pattern(options):
    from annulus import plots
    from annulus.pattern import Pattern
    from annulus.results.dataset import open_result, rows_of, settings
    rows, heads = 1024 if options.rows is None else options.rows, options.heads
    if options.result:
        with open_result(options.result) as result:
            run_settings = settings(result)
            chosen = Pattern.of_result(run_settings)
            rows = rows_of(result) if options.rows is None else options.rows
            heads = result.sizes.get("head") or (run_settings.get("layer") or {}).get("heads", 1)
    else:
        chosen = Pattern(tuple(_words("--segments", options.segments)), tuple(_words("--dilations", options.dilations)),
                         not options.not_causal, options.semantics)
    picture = plots.pattern(chosen, rows, options.head, heads, options.query)
    plots.save(picture, options.picture, options.overwrite)


def _words(option, text):
    """[128, "all"] for "128,all"; windows for "window:3:0" and "window:3:0:4"."""
    from annulus.options import Window
    for word in text.split(","):
        if option == "--segments" and (limits := re.fullmatch(r"window:(\d+):(\d+)(?::(\d+))?", word)):
            yield Window(*[int(rows or 0) for rows in limits.groups()])
            continue
        if word != "all" and not word.isdecimal():
            raise AnnulusError(f"{option} {text}: expected numbers of rows or all, for example 2048,all")
        yield word if word == "all" else int(word)


def _add_tokens(verbs):
    verb = _verb(verbs, "tokens", tokens, "write an HTML page of a text, tokens shaded by the attention they receive")
    verb.add_argument("source", help="a result of `annulus run` with output.statistics")
    verb.add_argument("page")
    verb.add_argument("--tokens", required=True, metavar="FILE", help="a token for each row: JSON list, or one a line")
    verb.add_argument("--query", type=int, metavar="ROW", help="also show the tokens at which this row looks most")
    verb.add_argument("--rows", metavar="A-B", help="rows to show (all; of a long text the first 20,000)")
    _of_heads(verb)
    _overwrite(verb)


def tokens(options):
    from annulus.tokens import token_page
    rows = None
    if options.rows:
        found = re.fullmatch(r"(\d+)-(\d+)", options.rows)
        if not found:
            raise AnnulusError(f"--rows {options.rows}: expected the first and the last, for example 0-999")
        rows = int(found[1]), int(found[2]) + 1
    token_page(options.source, options.tokens, options.page, query=options.query, head=options.head, batch=options.batch,
               rows=rows, overwrite=options.overwrite)
    print(options.page)


def _add_report(verbs):
    verb = _verb(verbs, "report", report, "write one HTML page about a result, pictures inside")
    verb.add_argument("result")
    verb.add_argument("page", nargs="?", help="the page (RESULT.html)")
    _overwrite(verb)


def report(options):
    from annulus.html import report as do
    page = options.page or re.sub(r"\.(h5|hdf5)$", "", options.result) + ".html"
    do(options.result, page, options.overwrite)
    print(page)
