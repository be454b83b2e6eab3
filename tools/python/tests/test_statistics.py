"""Statistics of a result: opened, averaged, and as maps whose numbers are read back from the figures."""
import h5py
import numpy as np
import pytest
import statistics_example as by_definition
import xarray as xr
from conftest import tools
from matplotlib.image import imread

import annulus
from annulus import grid, plots
from annulus.errors import AnnulusError
from annulus.plots import style
from annulus.results.statistics import listed, of_rows


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(numbers by the definition, file) of 40 rows, 4 heads, 2 batch entries."""
    return by_definition.example(tmp_path_factory.mktemp("statistics") / "result.h5")


def test_the_reference_agrees_with_the_worked_example():
    """docs/semantics.md: with equal scores a key's weight is proportional to how often the row sees the key."""
    pattern = annulus.pattern.Pattern((4, 8), (1, 2))
    q = np.zeros((10, 4, 2))
    P, lse, entropy = by_definition.probabilities(q, q, pattern)
    np.testing.assert_allclose(P[0, 6] * 7, [1, 0, 1, 0, 2, 1, 2, 0, 0, 0])
    assert lse[6, 0] == pytest.approx(np.log(7)) and entropy[6, 0] == pytest.approx(np.log(7))
    padded = annulus.pattern.Pattern((8,), (2,), False, "torchscale")
    assert by_definition.filled_in(padded, 10, 0, 2).tolist() == [0] * 8 + [3, 0]
    P, lse, entropy = by_definition.probabilities(q[:, :2], q[:, :2], padded)
    assert P[0, 8, 8] == pytest.approx(1 / 4) and P[0, 8].sum() == pytest.approx(1 / 4)
    assert entropy[8, 0] == pytest.approx(np.log(4))  # keys that torchscale fills in are counted
    assert np.all(P[0, 9] == 0) and lse[9, 0] == -np.inf and entropy[9, 0] == 0


def test_received_of_all_rows_is_what_rows_give(made):
    found, _ = made
    np.testing.assert_allclose(found["received"].sum(axis=1), 40)
    assert (found["top_rows"] >= 0).all() and found["top_weights"].sum(axis=-1).max() <= 1 + 1e-12


def test_are_opened_lazily_with_names(made, tmp_path):
    found, path = made
    result = annulus.open_result(path)
    assert result.entropy.dims == result.received.dims == ("batch", "sequence", "head")
    assert result.top_rows.dims == result.top_weights.dims == ("batch", "sequence", "head", "top")
    assert result.top_rows.dtype == np.int64 and result.received.dtype == np.float64 and result.entropy.dtype == np.float32
    assert result.entropy.attrs["units"] == "nats" and "receives" in result.received.attrs["long_name"]
    np.testing.assert_array_equal(result.top_rows[1, 5:9, ::-1, 0].values, found["top_rows"][1, 5:9, ::-1, 0])
    copy = tmp_path / "copy.h5"
    copy.write_bytes(path.read_bytes())
    result = annulus.open_result(copy)
    with h5py.File(copy, "r+") as file:  # fails if open_result keeps the file open
        file["received"][0, 3, 1] = 1234.5
    with pytest.raises(annulus.AnnulusError, match="has changed since it was opened"):  # load() reads the changed file
        result.received[0, 3, 1].load()


def test_are_opened_in_the_order_of_pytorch(made, tmp_path):
    """With input.axes: bhsd a run writes (B, H, S) and (B, H, S, k)."""
    found, path = made
    swapped = tmp_path / "bhsd.h5"
    with h5py.File(path) as source, h5py.File(swapped, "w") as target:
        for name in by_definition.TENSORS:
            target[name] = source[name][...].swapaxes(1, 2)
            words = by_definition.TENSORS[name].split()
            target[name].attrs["axes"] = " ".join([words[0], words[2], words[1], *words[3:]])
        source.copy("run", target)
    result, plain = annulus.open_result(swapped), annulus.open_result(path)
    for name in ("entropy", "received"):
        np.testing.assert_array_equal(of_rows(result, name, 1, 2), of_rows(plain, name, 1, 2))
    for head in (None, 1):
        for one, other in zip(listed(result, 17, 1, head), listed(plain, 17, 1, head)):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(plots.received(result).axes[0].images[0].get_array(),
                                  plots.received(plain).axes[0].images[0].get_array())


def test_of_rows_and_of_heads(made):
    found, path = made
    result = annulus.open_result(path)
    np.testing.assert_allclose(of_rows(result, "received", 1, 3), found["received"][1, :, 3])
    np.testing.assert_allclose(of_rows(result, "entropy"), found["entropy"][0].mean(axis=1), rtol=1e-6)
    one = listed(result, 17, 1, 3)
    assert one.rows.tolist() == found["top_rows"][1, 17, 3].tolist()
    np.testing.assert_allclose(one.weights, found["top_weights"][1, 17, 3], rtol=1e-6)
    weights = np.zeros(40)
    for head in range(4):
        np.add.at(weights, found["top_rows"][1, 17, head], found["top_weights"][1, 17, head] / 4)
    mean = listed(result, 17, 1)
    assert mean.rows.tolist() == np.lexsort((np.arange(40), -weights))[:len(mean.rows)].tolist()
    np.testing.assert_allclose(mean.weights, weights[mean.rows], rtol=1e-6)
    assert (weights > 0).sum() == len(mean.rows)


def test_lists_of_two_heads_are_added():
    """The example in the docstring of listed(). Of rows with equal sums the smaller comes first."""
    rows, weights = np.array([[[[3, 5], [7, 5]]]]), np.array([[[[0.6, 0.2], [0.4, 0.4]]]], "f4")
    result = xr.Dataset({name: (("batch", "sequence", "head", "top"), np.repeat(numbers, 8, axis=1))
                         for name, numbers in (("top_rows", rows), ("top_weights", weights))})
    found = listed(result, 2)
    assert found.rows.tolist() == [3, 5, 7] and found.weights.tolist() == pytest.approx([0.3, 0.3, 0.2])


def test_lists_that_are_not_full(tmp_path):
    """The first rows of a causal text see fewer keys than are listed."""
    found, path = by_definition.example(tmp_path / "r.h5", causal=True, segments=("all",), dilations=(1,))
    assert found["top_rows"][0, 1, 0].tolist()[-1] == -1 and found["top_weights"][0, 1, 0, -1] == 0
    result = annulus.open_result(path)
    assert sorted(listed(result, 1, 0, 0).rows) == [0, 1] and listed(result, 0).rows.tolist() == [0]
    assert listed(result, 0).weights.tolist() == [1]


def test_heat_maps_of_heads_and_rows(made, tmp_path):
    found, path = made
    result = annulus.open_result(path).load()
    axes = plots.entropy(result, batch=1).axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), found["entropy"][1].T, rtol=1e-6)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("query row", "head") and axes.images[0].get_clim()[0] == 0
    result.lse[1, 10, 2] = -np.inf
    axes = plots.entropy(result, batch=1).axes[0]
    assert axes.images[0].get_array().mask[2, 10] and "grey: sees no key" in axes.get_title()
    axes = plots.received(result, batch=1).axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), found["received"][1].T)
    most = axes.images[0].get_clim()[1]
    # The scale ends where 1 % of the 160 numbers are larger: here two.
    assert (found["received"][1] > most).sum() == 2 and axes.get_xlabel() == "key row"
    with pytest.raises(AnnulusError, match="batch entry 2: expected 0 to 1"):
        plots.entropy(result, batch=2)
    for kind in ("entropy", "received"):
        tools("plot", kind, "--batch", "1", path, f"{kind}.png", folder=tmp_path)
        assert imread(tmp_path / f"{kind}.png")[..., :3].std() > 0.02


def test_ends_of_scales():
    assert style.most_of(np.arange(1000.0)) == 989 and style.most_of(np.array([1.0, 9.0, 2.0])) == 2
    assert style.most_of(np.array([np.nan, 0.0, 5.0])) == 5 and style.most_of(np.zeros(3)) == 1
    assert style.extend(np.array([1.0, 2.0]), 1.5) == "max" and style.extend(np.array([1.0]), 1) == "neither"


# Coordinates of 39 tiles, rows 1 to 39: 36 tiles 256 pixels apart around a hole, and 3 that are not on their grid.
def ring_of_tiles():
    places = [(x, y) for y in range(7) for x in range(7) if (x, y) != (3, 3)][:36]
    return np.array([(1024 + 256 * x, 2048 + 256 * y) for x, y in places] + [(5000, 5000), (5256, 5000), (5000, 5256)])


def test_grid_of_tiles():
    coords = ring_of_tiles()
    places = grid.of(coords)
    assert places.tile == 256 and places.origin == (1024, 2048) and places.shape == (13, 17)
    values = np.arange(39.0)
    image = places.image(values)
    assert np.isnan(image[3, 3]) and np.isfinite(image).sum() == 39
    for (x, y), value in zip(coords, values):
        assert image[(y - 2048) // 256, (x - 1024) // 256] == value
    np.testing.assert_array_equal(grid.of(coords[None]).image(values), image)  # coordinates with a batch axis of 1
    coarse = grid.of(coords, 512)
    assert coarse.shape == (7, 9) and coarse.image(values)[0, 0] == np.mean([0, 1, 7, 8])  # the mean of four tiles
    assert coarse.image(np.where(values == 7, np.nan, values))[0, 0] == 3
    assert grid.of([[5.0, 7.0]]).shape == (1, 1)
    assert grid.distance(np.array([[0, 0], [0, 300.0], [900, 0]])) == 300


@pytest.mark.parametrize("begin, step, kind", [(1000 / 224, 1, float), (1.1, 0.256, float), (3.3, 115.2, np.float32)])
def test_tiles_whose_coordinates_are_rounded_have_dots_of_their_own(begin, step, kind):
    coords = np.array([(begin + step * x, begin + step * y) for y in range(6) for x in range(8)]).astype(kind)
    places = grid.of(coords)
    assert places.shape == (6, 8) and np.isfinite(places.image(np.ones(48))).all()


@pytest.mark.parametrize("coords, tile, expected", [
    (np.zeros((4, 3)), None, r"have shape \(4, 3\); expected \(tiles, 2\)"),
    (np.zeros((0, 2)), None, r"have shape \(0, 2\)"),
    ([[0, np.nan]], None, "not all finite"),
    ([[0, 0], [5, 7]], None, "no two tiles stand in a line"),
    ([[0, 0], [5, 0]], 0, "tile size 0: expected a number above 0"),
    ([[0, 0], [1e6, 1e6]], 1, "tile size 1 makes 1000001 x 1000001 dots of 2 tiles; expected at most"),
])
def test_coordinates_of_no_use(coords, tile, expected):
    with pytest.raises(AnnulusError, match=expected):
        grid.of(coords, tile)


def test_slide_shows_what_tiles_receive(made):
    found, path = made
    result, coords = annulus.open_result(path), ring_of_tiles()
    for head, expected in ((2, found["received"][1, 1:, 2]), (None, found["received"][1, 1:].mean(axis=1))):
        axes = plots.slide(result, coords, batch=1, head=head).axes[0]  # 40 rows, 39 tiles: row 0 is no tile
        image = axes.images[0]
        np.testing.assert_allclose(image.get_array().filled(np.nan), grid.of(coords).image(expected))
        assert image.get_array().mask[3, 3] and image.get_extent() == [1024, 1024 + 17 * 256, 2048 + 13 * 256, 2048]
        assert image.get_clim() == (0, np.sort(expected)[-2])
        assert ("head 2" if head else "mean over 4 heads") in axes.get_title()
    entropy = plots.slide(result, coords, "entropy").axes[0].images[0].get_array()
    np.testing.assert_allclose(entropy.filled(np.nan), grid.of(coords).image(found["entropy"][0, 1:].mean(axis=1)), rtol=1e-6)
    shifted = plots.slide(result, coords[:30], head=0, first_row=5).axes[0].images[0].get_array()
    np.testing.assert_allclose(shifted.filled(np.nan), grid.of(coords[:30]).image(found["received"][0, 5:35, 0]))


def test_slide_shows_what_a_row_looks_at(made):
    found, path = made
    coords = ring_of_tiles()
    figure = plots.slide(annulus.open_result(path), coords, head=1, query=12)
    tissue, weights = (image.get_array() for image in figure.axes[0].images)
    expected = np.full(40, np.nan)
    expected[found["top_rows"][0, 12, 1]] = found["top_weights"][0, 12, 1]
    np.testing.assert_allclose(weights.filled(np.nan), grid.of(coords).image(expected[1:]), rtol=1e-6)
    assert 0 < weights.count() <= 3
    np.testing.assert_array_equal(tissue[..., 3] == 1, np.isfinite(grid.of(coords).image(np.ones(39))))
    frame, = figure.axes[0].patches
    assert frame.get_xy() == tuple(coords[11])
    assert f"{found['top_weights'][0, 12, 1].sum():.3g} of its attention is shown" in figure.axes[0].get_title()
    # Row 0, the class token, is no tile, so nothing is framed. Over all heads the title says "at least".
    figure = plots.slide(annulus.open_result(path), coords, query=0)
    assert not figure.axes[0].patches and "at least" in figure.axes[0].get_title()


def test_few_tiles_of_many_are_marked(made):
    """If a tile is one small dot of a large picture, a larger mark with the shade of its weight is drawn over it."""
    found, path = made
    coords = ring_of_tiles() * 10
    figure = plots.slide(annulus.open_result(path), coords, head=1, query=12, tile=256)
    marks, = figure.axes[0].collections
    rows, weights = found["top_rows"][0, 12, 1], found["top_weights"][0, 12, 1]
    order = np.argsort(rows)
    np.testing.assert_allclose(marks.get_array(), weights[order], rtol=1e-6)
    corners = coords[0] + (coords[rows[order] - 1] - coords[0]) // 256 * 256  # upper left corners of the dots
    np.testing.assert_array_equal(marks.get_offsets(), corners + 128)
    x, y = figure.axes[0].patches[0].get_center()
    assert abs(np.array([x, y]) - coords[11] - 128).max() <= 256
    assert not plots.slide(annulus.open_result(path), ring_of_tiles(), head=1, query=12).axes[0].collections


def test_weight_on_rows_that_are_no_tiles_is_said(made):
    found, path = made
    result = annulus.open_result(path)
    query = next(row for row in range(40) if 0 in found["top_rows"][0, row, 0])
    share = found["top_weights"][0, query, 0][found["top_rows"][0, query, 0] == 0].sum()
    title = plots.slide(result, ring_of_tiles(), head=0, query=query).axes[0].get_title()
    assert f"{share:.3g} of it on rows that are no tiles" in title
    other = next(row for row in range(40) if 0 not in found["top_rows"][0, row, 0])
    assert "no tiles" not in plots.slide(result, ring_of_tiles(), head=0, query=other).axes[0].get_title()


def test_coordinates_from_files(tmp_path):
    coords = ring_of_tiles()
    with h5py.File(tmp_path / "slide.h5", "w") as file:  # as GigaPath's and CLAM's tools write them
        file["coords"], file["features"] = coords, np.zeros((39, 16), "f4")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["places"], file["features"] = coords.astype("f4"), np.zeros((39, 16), "f4")
    with h5py.File(tmp_path / "two.h5", "w") as file:
        file["a"], file["b"] = coords, coords
    np.save(tmp_path / "coords.npy", coords)
    for name, called in (("slide.h5", None), ("other.h5", None), ("other.h5", "places"), ("coords.npy", None)):
        np.testing.assert_array_equal(annulus.coordinates(tmp_path / name, called), coords)
    with pytest.raises(AnnulusError, match="has no coords, nor one tensor of two columns alone; it has a, b; expected x"):
        annulus.coordinates(tmp_path / "two.h5")
    with pytest.raises(AnnulusError, match="has no x; it has"):
        annulus.coordinates(tmp_path / "slide.h5", "x")


def test_slides_on_the_command_line(made, tmp_path):
    _, path = made
    np.save(tmp_path / "coords.npy", ring_of_tiles())
    for name, more in (("received", ()), ("entropy", ("--of", "entropy", "--head", "1", "--batch", "1")),
                       ("query", ("--query", "0")), ("tile", ("--tile", "128", "--first-row", "1", "--query", "5"))):
        tools("plot", "slide", path, f"{name}.png", "--coords", "coords.npy", *more, folder=tmp_path)
        picture = imread(tmp_path / f"{name}.png")
        assert picture.shape[0] > 500 and picture[..., :3].std() > 0.02 and picture[..., :3].min() < 0.3, name


def test_statistics_in_the_report(made, tmp_path):
    _, path = made
    tools("report", path, tmp_path / "with.html", folder=tmp_path)
    page = (tmp_path / "with.html").read_text()
    assert "Entropy of every query row" in page and "What every row receives" in page and "top_weights" in page
    _, without = by_definition.example(tmp_path / "r.h5", leave_out=("entropy", "received"))
    tools("report", without, tmp_path / "without.html", folder=tmp_path)
    assert "Entropy of every query row" not in (tmp_path / "without.html").read_text()


def test_statistics_elsewhere(made, tmp_path):
    """convert copies statistics, with their types."""
    found, path = made
    tools("convert", path, "r.npz", folder=tmp_path)
    tools("convert", path, "only.h5", "--only", "received,top_rows", folder=tmp_path)
    with np.load(tmp_path / "r.npz") as arrays, h5py.File(tmp_path / "only.h5") as file:
        np.testing.assert_array_equal(arrays["top_rows"], found["top_rows"])
        np.testing.assert_array_equal(arrays["received"], found["received"])
        assert arrays["top_rows"].dtype == np.int64 and arrays["entropy"].dtype == np.float32
        np.testing.assert_array_equal(file["top_rows"], found["top_rows"])
