"""Common mistakes with statistics: each gives one line that names the file, and the key that makes the statistics."""
import json

import h5py
import numpy as np
import pytest
import statistics_example as by_definition
from test_mistakes import refused

import annulus
from annulus.errors import AnnulusError

ASK = "expected that of a run with output.statistics: "


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """result.h5 with everything, none.h5 without statistics, and coordinates and tokens that fit."""
    place = tmp_path_factory.mktemp("mistakes")
    by_definition.example(place / "result.h5")
    by_definition.example(place / "none.h5", leave_out=("entropy", "received", "top_rows", "top_weights"))
    np.save(place / "coords.npy", [(256 * (i % 8), 256 * (i // 8)) for i in range(40)])
    (place / "tokens.json").write_text(json.dumps(["a"] * 40))
    return place


def test_statistics_that_were_not_asked_for(folder):
    slide, tokens = ("--coords", "coords.npy"), ("--tokens", "tokens.json")
    for words, name, key in ((("plot", "entropy", "none.h5", "o.png"), "entropy", "entropy"),
                             (("plot", "received", "none.h5", "o.png"), "received", "received"),
                             (("plot", "slide", "none.h5", "o.png", *slide), "received", "received"),
                             (("plot", "slide", "none.h5", "o.png", *slide, "--of", "entropy"), "entropy", "entropy"),
                             (("plot", "slide", "none.h5", "o.png", *slide, "--query", "3"), "top_rows", "top"),
                             (("tokens", "none.h5", "o.html", *tokens), "received", "received"),
                             (("tokens", "none.h5", "o.html", *tokens, "--query", "3"), "top_rows", "top")):
        assert refused(folder, *words) == f"none.h5: result has no {name}; {ASK}[{key}]"
    assert not list(folder.glob("o.*"))


def test_numbers_that_are_none_of_the_result(folder):
    slide = ("plot", "slide", "result.h5", "o.png", "--coords", "coords.npy")
    tokens = ("tokens", "result.h5", "o.html", "--tokens", "tokens.json")
    for words in (slide, tokens):
        assert refused(folder, *words, "--head", "4") == "result.h5: head 4: expected 0 to 3"
        assert refused(folder, *words, "--batch", "2") == "result.h5: batch entry 2: expected 0 to 1"
        assert refused(folder, *words, "--query", "40") == "result.h5: query 40: expected 0 to 39"
        assert refused(folder, *words, "--query", "-1") == "result.h5: query -1: expected 0 to 39"
    assert refused(folder, *slide, "--of", "lse") == "result.h5: 'lse' of a slide: expected received or entropy"
    assert refused(folder, *slide, "--tile", "0").startswith("coords.npy: tile size 0: expected a number above 0")
    assert "40 tiles from row 1 on, 40 rows in the result; expected a row for each tile" in refused(
        folder, *slide, "--first-row", "1")
    assert refused(folder, *tokens, "--rows", "a") == "--rows a: expected the first and the last, for example 0-999"
    assert refused(folder, *tokens, "--rows", "30-40") == "result.h5: rows 30 to 40: expected up to 20,000 of 0 to 39"


def test_coordinates_and_tokens_that_do_not_fit(folder, tmp_path):
    np.save(folder / "few.npy", np.load(folder / "coords.npy")[:20])
    np.savez(folder / "features.npz", features=np.zeros((40, 16), "f4"))
    assert refused(folder, "plot", "slide", "result.h5", "o.png", "--coords", "few.npy").startswith(
        "result.h5: 20 tiles, 40 rows in the result; expected a row for each tile, and --first-row")
    assert refused(folder, "plot", "slide", "result.h5", "o.png", "--coords", "features.npz") == (
        "features.npz: has no coords, nor one tensor of two columns alone; it has features; expected x and y of each tile")
    assert refused(folder, "plot", "slide", "result.h5", "o.png", "--coords", "no.h5") == "no.h5: there is no such file"
    for name, content, expected in (("few.json", '["a"]', "result.h5: 1 tokens for 40 rows; expected a token for each"),
                                    ("bad.json", "[", "bad.json: is no list of tokens (Expecting value"),
                                    ("map.json", '{"a": 1}', "map.json: is no list of tokens; expected a JSON list of strings"),
                                    ("numbers.json", "[1]", "numbers.json: is no list of tokens; expected a JSON list"),
                                    ("bytes.txt", b"\xff\xfe", "bytes.txt: is no list of tokens ("),
                                    ("no.txt", None, "no.txt: No such file or directory; expected a file of tokens")):
        if content is not None:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        message = refused(folder, "tokens", "result.h5", "o.html", "--tokens", name)
        assert message.startswith(expected), message
    assert "ending in .html" in refused(folder, "tokens", "result.h5", "o.pdf", "--tokens", "tokens.json")
    (folder / "there.html").touch()
    assert "exists already" in refused(folder, "tokens", "result.h5", "there.html", "--tokens", "tokens.json")
    assert not list(folder.glob("o.*"))


def test_statistics_of_another_shape(folder, tmp_path):
    def changed(name, dataset, numbers, axes=None):
        copy = tmp_path / name
        copy.write_bytes((folder / "result.h5").read_bytes())
        with h5py.File(copy, "r+") as file:
            axes = axes or file[dataset].attrs["axes"]
            del file[dataset]
            file[dataset] = numbers
            file[dataset].attrs["axes"] = axes
        return copy

    flat = changed("flat.h5", "received", np.zeros(9), "batch sequence head")
    with pytest.raises(AnnulusError, match=r"flat.h5: received has shape \(9,\) and axes .*; expected batch, sequence, head"):
        annulus.open_result(flat)
    with pytest.raises(AnnulusError, match="top_rows has shape .*; expected batch, sequence, head and one for the list"):
        annulus.open_result(changed("lists.h5", "top_rows", np.zeros((2, 40, 4), "i8"), "batch sequence head"))
    other = annulus.open_result(changed("other.h5", "top_weights", np.zeros((2, 40, 4, 5), "f4"), "batch sequence head most"))
    with pytest.raises(AnnulusError, match=r"top_rows has shape \(2, 40, 4, 3\) and top_weights \(2, 40, 4, 5\)"):
        annulus.results.statistics.listed(other, 0)
    beyond = annulus.open_result(changed("beyond.h5", "top_rows", np.full((2, 40, 4, 3), 40)))
    with pytest.raises(AnnulusError, match="top_rows of query 3 has row 40; expected 0 to 39"):
        annulus.results.statistics.listed(beyond, 3)
