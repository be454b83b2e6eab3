"""The HTML page is complete, loads nothing, and has the numbers of the result."""
import base64
import html.parser
import io

import h5py
import pytest
from conftest import tools
from matplotlib.image import imread

import annulus
from annulus.errors import AnnulusError


class Page(html.parser.HTMLParser):
    """Checks that every tag is closed; collects images, cells, and addresses that the page would load."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.images, self.cells, self.outside = [], [], [], []
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "img":
            self.images.append(given["src"])
            assert given["alt"]
        self.outside += [value for name, value in attributes if name in ("src", "href") and not value.startswith("data:")]
        if tag in ("td", "th", "pre"):
            self.cells.append("")
        if tag not in ("img", "meta", "br"):
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if self.stack and self.stack[-1] in ("td", "th", "pre"):
            self.cells[-1] += data


@pytest.mark.parametrize("name, pictures", [("float32", 6), ("bfloat16", 6), ("ring1", 6), ("layer", 5)])
def test_page(results, tmp_path, name, pictures):
    annulus.report(results[name], tmp_path / "r.html")
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert page.outside == [] and len(page.images) >= pictures - 1
    for image in page.images:
        pixels = imread(io.BytesIO(base64.b64decode(image.removeprefix("data:image/png;base64,"))))
        assert pixels.shape[1] > 400 and pixels.std() > 0.02
    with h5py.File(results[name]) as file:
        rows = file["run/rows"][...]
        assert any("segments:" in cell for cell in page.cells)
        assert file["provenance"].attrs["git_commit"] in page.cells
    at = page.cells.index("rows")
    assert page.cells[at + 2 : at + 5] == [f"{rows.min():,.0f}", f"{rows.mean():,.0f}", f"{rows.max():,.0f}"]
    assert page.cells[at + 5 : at + 5 + len(rows)] == [f"{count:,.0f}" for count in rows]


def test_command_line(results, tmp_path):
    copy = tmp_path / "mine.h5"
    copy.write_bytes(results["float32"].read_bytes())
    output, _ = tools("report", "mine.h5", folder=tmp_path)
    assert output == "mine.html\n" and (tmp_path / "mine.html").stat().st_size > 50_000
    _, message = tools("report", "mine.h5", folder=tmp_path, status=2)
    assert "mine.html: exists already" in message
    with pytest.raises(AnnulusError, match="ending in .html"):
        annulus.report(copy, tmp_path / "mine.pdf")
    output, _ = tools("show", "mine.h5", folder=tmp_path)
    assert "hop_wait_seconds" in output and "sequence: 96" in output


def test_what_stands_in_files_is_no_markup(results, tmp_path):
    copy = tmp_path / "mine.h5"
    copy.write_bytes(results["float32"].read_bytes())
    with h5py.File(copy, "r+") as file:
        file["provenance"].attrs["job_id"] = "<script>alert(1)</script>"
    annulus.report(copy, tmp_path / "mine.html")
    assert "<script>" not in (tmp_path / "mine.html").read_text(encoding="utf-8")
