"""The page of a text has every token, shaded by the numbers of the result. No token becomes markup."""
import json
import re

import numpy as np
import pytest
import statistics_example as by_definition
from conftest import tools
from test_report import Page

import annulus
from annulus.plots import style

WORDS = ["<b>", "&", "", "line\n", "\ud800", "\x1b"] + [f" word{i}" for i in range(34)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(numbers by the definition, file) of 40 rows: a causal text."""
    return by_definition.example(tmp_path_factory.mktemp("tokens") / "text.h5", causal=True)


def spans(page):
    """[(whether framed, colour as three numbers, text under the mouse pointer, token)] for each strip of tokens."""
    strips = re.findall(r'<p class="tokens">(.*?)</p>', page, re.DOTALL)
    found = r'<span( class=query)? style="background:#(\w{6})" title="([^"]*)">(.*?)</span>'
    return [[(bool(framed), [int(colour[i:i + 2], 16) for i in (0, 2, 4)], hint, text)
             for framed, colour, hint, text in re.findall(found, strip, re.DOTALL)] for strip in strips]


def shares(strip, colour):
    """The shade of each token: 0 is white, 1 the colour."""
    parts = np.array([int(colour[i:i + 2], 16) for i in (1, 3, 5)])
    shades = np.array([shade for _, shade, _, _ in strip])
    return (255 - shades[:, 0]) / (255 - parts[0]) if parts[0] < 200 else (255 - shades[:, 2]) / (255 - parts[2])


def test_tokens_are_shaded_by_what_they_receive(made, tmp_path):
    found, path = made
    annulus.token_page(path, WORDS, tmp_path / "t.html", head=1, batch=1)
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    Page(page)  # checks that every tag is closed
    strip, = spans(page)
    received = found["received"][1, :, 1]
    expected = np.clip(received / np.sort(received)[-2], 0, 1)
    np.testing.assert_allclose(shares(strip, style.COLOURS["sky"]), expected, atol=0.004)
    assert [text for *_, text in strip][:7] == ["&lt;b&gt;", "&amp;", "∅", "line↵\n", "\ufffd", "\ufffd", " word0"]
    assert strip[7][2] == f"row 7: received {received[7]:.4g}, entropy {np.float32(found['entropy'][1, 7, 1]):.4g} nats"
    assert "head 1 · batch entry 1" in page and not any(framed for framed, *_ in strip)


def test_what_one_token_looks_at(made, tmp_path):
    found, path = made
    annulus.token_page(path, WORDS, tmp_path / "t.html", query=30, head=2)
    received, looked_at = spans((tmp_path / "t.html").read_text(encoding="utf-8"))
    rows, weights = found["top_rows"][0, 30, 2], found["top_weights"][0, 30, 2]
    expected = np.zeros(40)
    expected[rows] = np.clip(weights / np.sort(weights)[-2], 0, 1)
    np.testing.assert_allclose(shares(looked_at, style.COLOURS["orange"]), expected, atol=0.004)
    assert [row for row, (framed, *_) in enumerate(looked_at) if framed] == [30]
    cells = Page((tmp_path / "t.html").read_text(encoding="utf-8")).cells
    listed = [(str(row), repr(WORDS[row])[1:-1], f"{np.float32(weight):.4g}") for row, weight in zip(rows, weights)]
    assert cells == ["row", "token", "weight", *(cell for line in listed for cell in line)]


def test_mean_over_heads_and_parts_of_a_text(made, tmp_path):
    found, path = made
    (tmp_path / "tokens.json").write_text(json.dumps(WORDS))
    output, _ = tools("tokens", path, "t.html", "--tokens", "tokens.json", "--query", "9", "--rows", "5-14", folder=tmp_path)
    assert output == "t.html\n"
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    strip, looked_at = spans(page)
    received = found["received"][0].mean(axis=1)
    np.testing.assert_allclose(shares(strip, style.COLOURS["sky"]), np.clip(received / np.sort(received)[-2], 0, 1)[5:15],
                               atol=0.004)
    assert len(looked_at) == 10 and "rows 5 to 14 of 40" in page and "mean over 4 heads" in page and "at least" in page
    (tmp_path / "tokens.txt").write_text("".join(f"{i}\n" for i in range(40)))
    tools("tokens", path, "u.html", "--tokens", "tokens.txt", folder=tmp_path)
    assert [text for *_, text in spans((tmp_path / "u.html").read_text())[0]] == [str(i) for i in range(40)]


def test_what_the_result_has_is_shown(tmp_path):
    """If the result lacks `received`, the page shows only the keys of the query; if it lacks `entropy`, hints do not
    mention entropy."""
    _, path = by_definition.example(tmp_path / "r.h5", leave_out=("received", "entropy"))
    annulus.token_page(path, WORDS, tmp_path / "t.html", query=3)
    strip, = spans((tmp_path / "t.html").read_text(encoding="utf-8"))
    assert strip[3][2] == "row 3" and strip[3][0]
