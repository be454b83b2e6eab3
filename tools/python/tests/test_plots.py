"""Pictures show the numbers of their files: what is drawn is read back from the figures."""
import glob
import warnings

import h5py
import matplotlib.colors
import numpy as np
import pytest
from conftest import program, tools
from matplotlib.image import imread
from matplotlib.text import Text

import annulus
from annulus import plots
from annulus.errors import AnnulusError
from annulus.pattern import Pattern
from annulus.plots import ranks as rank_plots
from annulus.plots import style


def texts(figure):
    return " ".join(t.get_text() for t in figure.findobj(lambda o: hasattr(o, "get_text")))


@pytest.fixture
def sweep(tmp_path):
    """Cases as `annulus bench` writes them."""
    cases = [(strategy, ranks) for strategy in ("ring", "rotation", "ulysses") for ranks in (1, 2, 4)]
    columns = {"distribution.strategy": [c[0] for c in cases], "ranks": [c[1] for c in cases], "threads": [1] * 9,
               "input.generate.sequence": ["65536"] * 9, "status": ["ok"] * 8 + ["failed"],
               "attention_seconds_median": [8, 4.2, 2.2, 8.1, 4.1, 2.1, 8.3, 4.6, np.nan],
               "attention_seconds_min": [7.9, 4.1, 2.1, 8, 4, 2, 8.2, 4.5, np.nan],
               "attention_seconds_max": [8.5, 4.3, 2.5, 8.2, 4.4, 2.2, 8.5, 4.9, np.nan],
               "wait_seconds": [0, 0.1, 0.2] * 3, "bytes_received": [0, 1e7, 1.5e7] * 3,
               "gflop_per_cpu_second": [40.0] * 9,
               "peak_bytes": [3e8, 1.6e8, 9e7] * 3, "predicted_peak_bytes": [3.1e8, 1.7e8, 1e8] * 3,
               "predicted_seconds": [8, 4, 2] * 3}
    with h5py.File(tmp_path / "sweep.h5", "w") as file:
        for name, values in columns.items():
            file[f"cases/{name}"] = values
    return tmp_path / "sweep.h5"


def test_table_of_a_sweep_and_of_results(sweep, results):
    table = annulus.cases([sweep, results["rotation4"]])
    # The failed case of the sweep is left out.
    assert len(table) == 9 and list(table["strategy"].unique()) == ["ring", "rotation", "ulysses"]
    assert set(table["sequence"]) == {65536, 96}
    row = table.iloc[-1]
    with h5py.File(results["rotation4"]) as file:
        run = file["run"]
        assert row["ranks"] == 4 and row["threads"] == 1 and row["strategy"] == "rotation"
        passes = (run, run["backward"])  # as in a sweep, both count
        for name, column in (("attention_seconds_median", "attention_seconds"), ("wait_seconds", "wait_seconds"),
                             ("bytes_received", "bytes_received")):
            assert row[name] == pytest.approx(sum(one[column][...].max() for one in passes)), name
        for name in ("peak_bytes", "predicted_peak_bytes"):
            assert row[name] == max(one[name][...].max() for one in passes)
        flops, cpu = (sum(factor * one[name][...].sum() for factor, one in zip(factors, passes))
                      for name, factors in (("kept", (4 * 16, 10 * 16)), ("kernel_cpu_seconds", (1, 1))))
        assert row["gflop_per_cpu_second"] == pytest.approx(1e-9 * flops / cpu)
    with pytest.raises(AnnulusError, match="^paths is .., expected a path"):
        annulus.cases([])


def test_strong_scaling(sweep):
    figure = plots.scaling(annulus.cases(sweep), "strong")
    axes = figure.axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}
    drawn = {c.get_label(): c for c in axes.containers}
    assert set(drawn) == {"ring", "rotation", "ulysses"}
    np.testing.assert_allclose(drawn["ring"].lines[0].get_ydata(), [8, 4.2, 2.2])
    np.testing.assert_allclose(drawn["ulysses"].lines[0].get_xdata(), [1, 2])
    np.testing.assert_allclose(lines["half the time\non twice the ranks"].get_ydata(), [8, 2])
    assert axes.get_xlabel() == "ranks" and axes.get_ylabel() == "time of attention, s"
    assert "65,536 rows" in axes.get_title()


def test_weak_scaling(sweep):
    axes = plots.scaling(annulus.cases(sweep), "weak").axes[0]
    drawn = {c.get_label(): c for c in axes.containers}
    np.testing.assert_allclose(drawn["ring"].lines[0].get_ydata(), [1, 8 / 4.2, 8 / 2.2])
    with pytest.raises(AnnulusError, match="expected strong or weak"):
        plots.scaling(annulus.cases(sweep), "slow")


def test_strategies_fastest_first(sweep):
    figure = plots.strategies(annulus.cases(sweep))
    left, right = figure.axes
    names = [t.get_text() for t in left.get_yticklabels()]
    assert names[0] == "rotation, 4 ranks" and names[-1] == "ulysses, 1 rank"
    widths = [bar.get_width() for bar in left.containers[0]]
    assert widths == sorted(widths) and widths[0] == pytest.approx(2.1)
    assert right.containers[0][0].get_width() == pytest.approx(9e7 / 2**20)
    assert left.get_xlabel() == "time of attention, s" and right.get_xlabel().endswith("MiB")


@pytest.fixture
def grid(tmp_path):
    """A sweep over rows, causal masks or none, ranks and strategies: 3 x 2 x 2 x 2 cases, without those of 4,096 rows
    on 2 ranks. A case takes rows / ranks milliseconds."""
    cases = [(rows, causal, ranks, strategy) for rows in (1024, 2048, 4096) for causal in (1, 0) for ranks in (1, 2)
             for strategy in ("ring", "ulysses") if not (rows == 4096 and ranks == 2)]
    rows, causal, ranks, strategy = zip(*cases)
    with h5py.File(tmp_path / "grid.h5", "w") as file:
        for name, values in {"number": range(len(cases)), "sequence": rows, "attention.causal": np.array(causal, bool),
                             "ranks": ranks, "distribution.strategy": strategy, "strategy": strategy,
                             "status": ["ok"] * len(cases), "attention_seconds_median": [r * 1e-3 / p for r, _, p, _ in cases],
                             "peak_bytes": [r * 1e4 for r in rows]}.items():
            file[f"cases/{name}"] = list(values) if isinstance(values, (range, tuple)) else values
    return tmp_path / "grid.h5"


def test_strategies_are_compared_on_the_same_problem(grid):
    table = annulus.cases(grid)
    left = plots.strategies(table).axes[::2]
    assert [axes.get_title("left") for axes in left] == [
        "1,024 rows, causal true", "1,024 rows, causal false", "2,048 rows, causal true", "2,048 rows, causal false",
        "4,096 rows, causal true, 1 rank", "4,096 rows, causal false, 1 rank"]
    assert [t.get_text() for t in left[2].get_yticklabels()] == ["ring, 2 ranks", "ulysses, 2 ranks", "ring, 1 rank",
                                                                 "ulysses, 1 rank"]
    assert [bar.get_width() for bar in left[2].containers[0]] == pytest.approx([1.024, 1.024, 2.048, 2.048])
    one = plots.strategies(table[table["sequence"] == 1024])
    assert len(one.axes) == 4 and "not shown" not in texts(one)
    more = table.assign(**{"attention.scale": np.arange(len(table)) % 4})
    assert "14 smaller problems are not shown" in texts(plots.strategies(more))


def test_results_of_different_problems_have_their_own_panels(results, tmp_path):
    """Results differ in keys of their run files; a sweep beside them has a value of these keys, too."""
    (tmp_path / "run.yaml").write_text(
        "input: {generate: {sequence: 96, heads: 4, kv_heads: 2, head_dim: 16, batch: 2}}\n"
        "attention: {segments: [32, all], dilations: [1, 4]}\ncompute: {backward: true}\noutput: {file: full.h5}\n"
        "bench: {sweep: [{attention.causal: [true, false]}], repeats: 1, warmup: 0, file: both.h5}\n")
    program("run", "run.yaml", "--set", "attention.causal=false", "--set", "input.generate.heads=8", folder=tmp_path)
    program("bench", "run.yaml", folder=tmp_path)
    table = annulus.cases([results["ring1"], tmp_path / "full.h5", tmp_path / "both.h5"])
    titles = [axes.get_title("left") for axes in plots.strategies(table).axes[::2]]
    assert titles == ["96 rows, heads 4, causal true, 1 rank", "96 rows, heads 8, causal false, 1 rank",
                      "96 rows, heads 4, causal false, 1 rank"]


def test_long_names_and_titles_are_inside_the_picture(grid):
    more = {f"attention.a_key_with_a_long_name_{i}": np.arange(20) % 2 for i in range(6)}
    table = annulus.cases(grid).assign(**more)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for figure in (plots.memory(table), plots.strategies(table), plots.scaling(table)):
            figure.draw_without_rendering()
            assert figure.axes[0].get_window_extent().width > 200
            for text in figure.findobj(lambda one: isinstance(one, Text) and "long_name_5" in one.get_text()):
                drawn = text.get_window_extent()
                assert drawn.x0 >= 0 and drawn.x1 <= figure.bbox.width, text
    names = plots.memory(table).axes[0].get_yticklabels()
    assert len({text.get_text() for text in names}) == len(names) == 20


def test_scaling_is_that_of_one_problem(grid):
    axes = plots.scaling(annulus.cases(grid), "strong").axes[0]
    assert axes.get_title() == "strong scaling, 2,048 rows, causal true"  # 4096 were measured on one rank only
    np.testing.assert_allclose(axes.containers[0].lines[0].get_ydata(), [2.048, 1.024])


def test_memory_of_many_cases_shows_the_fullest(grid):
    table = annulus.cases(grid)
    axes = plots.memory(table.assign(peak_bytes=np.arange(len(table)) + 1.0)).axes[0]
    assert len(axes.get_yticklabels()) == 20 and axes.get_title("left") == ""
    twice = annulus.cases([grid, grid]).assign(peak_bytes=np.arange(40) + 1.0)
    axes = plots.memory(twice).axes[0]
    assert axes.get_title("left") == "the 24 fullest of 40 cases"
    assert min(bar.get_width() for bar in axes.containers[0]) == 17
    assert "ring, 1 rank, 4,096 rows, causal true (case 16)" in [t.get_text() for t in axes.get_yticklabels()]


def test_sweeps_are_shown_as_tables(grid, sweep, tmp_path):
    lines = tools("show", grid, folder=tmp_path)[0].splitlines()
    titles = "strategy ranks rows attention.causal min,s median,s max,s wait,s predicted,s received,MiB peak,MiB"
    assert lines[0].replace(", ", ",").split() == titles.split()
    assert lines[1].split()[:6] == ["ring", "1", "1024", "True", "nan", "1.024"] and len(lines) == 22
    assert lines[-1].startswith("columns: ") and "attention_seconds_median" in lines[-1]
    assert tools("show", sweep, folder=tmp_path)[0].splitlines()[-2] == "and 1 failed"


def test_rows_are_chosen(grid, tmp_path):
    tools("plot", "strategies", "--rows", "2048", grid, "rows.png", folder=tmp_path)
    _, message = tools("plot", "memory", "--rows", "5", grid, "no.png", folder=tmp_path, status=2)
    assert "--rows 5: no case has this many rows; expected 1024, 2048, 4096" in message


def test_memory_beside_its_prediction(sweep, results):
    axes = plots.memory(annulus.cases(sweep)).axes[0]
    measured, predicted = axes.containers
    assert measured[0].get_width() == pytest.approx(3e8 / 2**20) and predicted[0].get_width() == pytest.approx(3.1e8 / 2**20)
    axes = plots.memory(annulus.cases([results["ring1"], results["ring2"]])).axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["ring, 1 rank", "ring, 2 ranks"]


def test_timeline(results):
    result = annulus.open_result(results["rotation4"])
    axes = plots.timeline(result).axes[0]
    ends = np.zeros(4)
    for container in axes.containers:
        for rank, bar in enumerate(container):
            assert bar.get_x() == pytest.approx(ends[rank])  # each bar begins where the last one ends
            ends[rank] = bar.get_x() + bar.get_width()
    total = result.hop_compute_seconds.sum("hop") + result.hop_wait_seconds.sum("hop")
    unit, _ = style.seconds_unit(float(total.max()))
    np.testing.assert_allclose(ends, total / unit)
    assert len(plots.timeline(result, backward=True).axes[0].containers) == 2 * result.sizes["backward_hop"]
    with pytest.raises(AnnulusError, match="no hop_compute_seconds"):
        plots.timeline(result.drop_vars("hop_compute_seconds"))


def test_traffic(results):
    """The sums of rows and columns are the bytes received and sent. Ring and rotation have different senders."""
    for name in ("float32", "rotation4", "ring2"):
        result = annulus.open_result(results[name])
        matrix, _ = rank_plots.traffic_of(result)
        np.testing.assert_array_equal(matrix.sum(axis=1), result.bytes_received)
        np.testing.assert_array_equal(matrix.sum(axis=0), result.bytes_sent)
        assert (np.diag(matrix) == 0).all()
    ring, _ = rank_plots.traffic_of(annulus.open_result(results["float32"]))
    assert np.argwhere(ring).tolist() == [[1, 0], [2, 1]]  # rank 0 has the first rows, and needs none of other ranks
    rotation, _ = rank_plots.traffic_of(annulus.open_result(results["rotation4"]))
    assert (rotation > 0).tolist() == np.tri(4, k=-1, dtype=bool).tolist()  # from all ranks with earlier rows
    assert not rank_plots.traffic_of(annulus.open_result(results["ring1"]))[0].any()
    axes = plots.traffic(annulus.open_result(results["rotation4"])).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("sending rank", "receiving rank")


@pytest.fixture
def written_down(results, tmp_path):
    """A function that makes a result with this strategy and this /run/bytes_from, as the program writes them."""
    def make(name, strategy, matrix, backward=None):
        copy = tmp_path / f"{strategy}.h5"
        copy.write_bytes(results[name].read_bytes())
        with h5py.File(copy, "r+") as file:
            file["run"].attrs["strategy"] = strategy
            for place, numbers in (("run", matrix), ("run/backward", backward)):
                if numbers is not None:
                    file[place].pop("bytes_from", None)
                    column = file[place].create_dataset("bytes_from", data=np.array(numbers, "i8"))
                    column.attrs["units"] = "bytes"
        return copy
    return make


@pytest.mark.parametrize("strategy", ["single", "allgather", "ring_bidirectional", "onesided", "ulysses", "hybrid"])
def test_traffic_of_every_strategy_is_what_is_written_down(written_down, strategy):
    matrix = [[0, 5 << 20], [7 << 20, 0]]
    result = annulus.open_result(written_down("ulysses2", strategy, matrix))
    assert result.bytes_from.dims == ("rank", "sender") and list(result.sender) == [0, 1]
    assert result.hop_kept.dims == ("rank", "hop")  # there are as many hops as senders, but the axis is another
    assert rank_plots.traffic_of(result)[0].tolist() == matrix
    axes = plots.traffic(result).axes[0]
    assert axes.get_title() == f"keys and values moved, {strategy}"
    np.testing.assert_array_equal(axes.images[0].get_array().filled(0), [[0, 5], [7, 0]])  # MiB
    assert [text.get_text() for text in axes.texts] == ["5", "7"]


def test_traffic_of_more_ranks_than_hops_and_of_the_backward_pass(written_down, results, tmp_path):
    matrix, backward = np.arange(16).reshape(4, 4) * (1 - np.eye(4)), 2 * np.ones((4, 4))
    copy = written_down("rotation4", "onesided", matrix, backward)
    result = annulus.open_result(copy)
    np.testing.assert_array_equal(rank_plots.traffic_of(result)[0], matrix)  # of the file, not computed from hops
    np.testing.assert_array_equal(rank_plots.traffic_of(result, backward=True)[0], backward)
    tools("plot", "traffic", "--backward", copy, "traffic.png", folder=tmp_path)
    assert (tmp_path / "traffic.png").stat().st_size > 10_000
    # This is the strategy that ran; the settings in the file name another one.
    assert annulus.cases(copy)["strategy"].tolist() == ["onesided"]
    row = annulus.open_result(copy).drop_vars(["bytes_from", "backward_bytes_from"])
    with pytest.raises(AnnulusError, match="does not follow from onesided strategy; expected /run/bytes_from"):
        plots.traffic(row)


def test_lse_map(results):
    result = annulus.open_result(results["float32"]).load()
    result.lse[1, 10, 2] = -np.inf
    image = plots.lse(result, batch=1).axes[0].images[0].get_array()
    np.testing.assert_array_equal(image.filled(np.nan).T, np.where(np.isfinite(result.lse[1]), result.lse[1], np.nan))
    assert "grey: sees no key" in plots.lse(result, batch=1).axes[0].get_title()
    assert "grey" not in plots.lse(result, batch=0).axes[0].get_title()
    with pytest.raises(AnnulusError, match="batch entry 2: expected 0 to 1"):
        plots.lse(result, batch=2)


def definition(pattern, rows, head, heads):
    """mult(x, p), row by row and key by key, as docs/semantics.md defines it."""
    seen = np.zeros((rows, rows), int)
    for i, (w, r) in enumerate(zip(pattern.segments, pattern.dilations)):
        w = rows if w == "all" else w
        groups = np.array_split(range(heads), len(pattern.segments))  # the first groups have one head more
        if pattern.semantics == "grouped" and head not in groups[i]:
            continue
        o = {"longnet": head // -(-heads // r), "torchscale": head // -(-heads // r), "paper": head % r, "grouped": i % r}
        picked = [x for x in range(rows) if x % w % r == o[pattern.semantics]]
        for x in picked:
            for p in picked:
                seen[x, p] += x // w == p // w and (p <= x or not pattern.causal)
    return seen


def test_pattern_is_the_definition():
    worked = Pattern((4, 8), (1, 2))
    assert worked.multiplicity([6], 10, 0, 4)[0].tolist() == [1, 0, 1, 0, 2, 1, 2, 0, 0, 0]
    assert np.nonzero(worked.multiplicity([6], 10, 2, 4)[0])[0].tolist() == [4, 5, 6]
    assert np.nonzero(worked.multiplicity([9], 10, 0, 4)[0])[0].tolist() == [8, 9]
    generator = np.random.default_rng(5)
    for _ in range(60):
        pairs = int(generator.integers(1, 4))
        rows, heads = int(generator.integers(1, 30)), int(generator.integers(1, 7))
        segments = tuple("all" if generator.integers(3) == 0 else int(w) for w in generator.integers(1, 20, pairs))
        pattern = Pattern(segments, tuple(int(r) for r in generator.integers(1, 6, pairs)), bool(generator.integers(2)),
                          str(generator.choice(["longnet", "paper", "grouped", "torchscale"])))
        for head in range(heads):
            np.testing.assert_array_equal(pattern.multiplicity(range(rows), rows, head, heads),
                                          definition(pattern, rows, head, heads), err_msg=f"{pattern} {rows} {heads}")


def test_pattern_map():
    figure = plots.pattern(Pattern((16, "all"), (1, 4)), 64, head=1, heads=4, query=40)
    image = figure.axes[0].images[0].get_array()
    np.testing.assert_array_equal(image, definition(Pattern((16, "all"), (1, 4)), 64, 1, 4))
    strip, = figure.axes[1].patches
    np.testing.assert_array_equal(strip.get_data().values, image[40])
    big = plots.pattern(Pattern((16, "all"), (1, 4)), 5000).axes[0].images[0].get_array()
    assert big.shape[0] <= 600 and big.max() == 2
    for wrong, expected in ((dict(rows=0), "expected 1 to"), (dict(head=4), "head 4: expected 0 to 0"),
                            (dict(query=64), "query 64: expected 0 to 63")):
        with pytest.raises(AnnulusError, match=expected):
            plots.pattern(Pattern(), **({"rows": 64} | wrong))
    for pattern, expected in ((Pattern((1, 2), (1,)), "2 segments, 1 dilations"),
                              (Pattern((0,)), r"segments\[0\] is 0"), (Pattern(semantics="x"), "semantics is 'x'"),
                              (Pattern(dilations=(0,)), r"dilations\[0\] is 0")):
        with pytest.raises(AnnulusError, match=expected):
            pattern.checked()


def contrast(colour):
    """The contrast with white, by the formula of the Web Content Accessibility Guidelines."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in matplotlib.colors.to_rgb(colour)]
    return 1.05 / (np.dot([0.2126, 0.7152, 0.0722], linear) + 0.05)


def test_colours_are_told_apart():
    """Colours differ for normal and red- or green-blind eyes (Viénot, Brettel, Mollon 1999), and against white."""
    to_lms = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
    protan = np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]])
    deutan = np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]])
    colours = np.array([matplotlib.colors.to_rgb(c) for c in style.CYCLE])
    for sight in (np.eye(3), protan, deutan):
        seen = (np.linalg.inv(to_lms) @ sight @ to_lms @ colours.T ** 2.2).T.clip(0, 1) ** (1 / 2.2)
        for i in range(4):  # only the first four: further lines also have different markers
            for j in range(i):
                assert np.abs(seen[i] - seen[j]).max() > 0.12, (style.CYCLE[i], style.CYCLE[j])
    assert all(contrast(colour) > 2 for colour in style.CYCLE)


def test_command_line_draws_every_kind(results, sweep, tmp_path):
    of_results = [str(results["ring1"]), str(results["ring2"]), str(results["rotation4"])]
    for kind in ("strategies", "memory", "strong", "weak"):
        tools("plot", kind, sweep, f"{kind}.png", folder=tmp_path)
        tools("plot", kind, *of_results, f"{kind}2.svg", folder=tmp_path)
    for kind in ("timeline", "traffic", "lse"):
        tools("plot", kind, results["rotation4"], f"{kind}.png", folder=tmp_path)
    tools("plot", "timeline", "--backward", results["rotation4"], "backward.pdf", folder=tmp_path)
    tools("plot", "pattern", "--result", results["rotation4"], "pattern.png", folder=tmp_path)
    tools("plot", "pattern", "--segments", "32,all", "--dilations", "1,8", "--heads", "8", "p.png", folder=tmp_path)
    for path in glob.glob(f"{tmp_path}/*.png"):
        image = imread(path)
        assert image.shape[0] > 300 and image.std() > 0.02 and image[:, :, :3].min() < 0.3, path
    _, message = tools("plot", "lse", results["float32"], "lse.png", folder=tmp_path, status=2)
    assert "exists already" in message
    _, message = tools("plot", "lse", results["float32"], "lse.gif", folder=tmp_path, status=2)
    assert "ending in .png, .svg, .pdf" in message
    for key in ("documents", "lengths"):
        with pytest.raises(AnnulusError, match=f"input.{key} is part of the run's pattern, and the result does not"):
            annulus.Pattern.of_result({"input": {key: f"/{key}"}, "attention": {"segments": [8], "dilations": [1]}})
    _, message = tools("plot", "pattern", "--segments", "x", "p2.png", folder=tmp_path, status=2)
    assert "--segments x: expected numbers of rows or all" in message
    _, message = tools("plot", "pattern", "--segments", "²", "p2.png", folder=tmp_path, status=2)
    assert "--segments ²: expected numbers of rows or all" in message
