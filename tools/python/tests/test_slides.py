"""docs/slides.md: its commands, its run file and its program work, and what it says about padding is true."""
import contextlib
import os
import re
import runpy
import shlex
import shutil
import sys

import h5py
import numpy as np
import pytest
import statistics_example as by_definition
from conftest import PROGRAM, ROOT, program, run, tools
from matplotlib.image import imread

PAGE = (ROOT / "docs/slides.md").read_text(encoding="utf-8")
DECK = (ROOT / "input/gigapath.yaml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder like a checkout with a built program, and the page's slide.yaml in it."""
    folder = tmp_path_factory.mktemp("slides")
    for name in ("input", "build", "bin"):
        (folder / name).mkdir()
    shutil.copy(ROOT / "input/gigapath.yaml", folder / "input")
    (folder / "bin/annulus").symlink_to(PROGRAM)
    attention = re.search(r"^attention:\n(?:  .*\n)+", DECK, re.MULTILINE)[0]
    quoted = re.search(r"`(input: \{file: slide.h5.*?\})`\s+and\s+`(output:.*?\})`", PAGE, re.DOTALL)
    (folder / "slide.yaml").write_text("\n".join([quoted[1], attention, quoted[2].replace("\n", " ")]) + "\n")
    return folder


def on_path(folder, *command):
    """Runs a command that finds `annulus` on its path."""
    return run(*command, folder=folder, PATH=f"{folder}/bin:{os.environ['PATH']}", PYTHONPATH=str(ROOT / "tools/python"))


def test_every_command_of_the_page(place):
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2  # the second block makes maps: test_the_maps_of_the_page()
    printed, _ = on_path(place, "bash", "-euo", "pipefail", "-c", blocks[0])
    assert "torchscale, 5 pairs" in printed and "WRONG" not in printed
    # Padding that head 0 (offset 0) sees from row 9216 on: 239 keys of score 0 of the pair (1024, 1). Rows that the
    # pair (5792, 2) picks also see 2,896 - 2,105 = 791 such keys in its last segment.
    program("run", "input/gigapath.yaml", "--set", "attention.semantics=longnet", "--set", "output.file=longnet.h5",
            ranks=2, folder=place)
    with h5py.File(place / "build/gigapath.h5") as padded, h5py.File(place / "input/longnet.h5") as plain:
        added = np.exp(padded["lse"][0].astype("f8")) - np.exp(plain["lse"][0].astype("f8"))
    last = added[9216:, 0]
    np.testing.assert_allclose(last[1::2], 239, rtol=2e-3)
    np.testing.assert_allclose(last[0::2], 239 + 791, rtol=2e-3)


def test_the_program_of_the_page(place):
    printed, _ = on_path(place, sys.executable, ROOT / "tools/python/tests/slide_example.py")
    found = [float(number) for number in re.findall(r"difference.*: (\S+)$", printed, re.MULTILINE)]
    assert len(found) == 2 and 0 < found[0] < 1e-5 and 0 < found[1] < 1e-4, printed
    verified, _ = program("verify", "slide.yaml", folder=place)
    assert "WRONG" not in verified


def test_the_maps_of_the_page(tmp_path):
    """The slide is small, with a class token in front; its statistics are computed by the definition."""
    found, _ = by_definition.example(tmp_path / "slide_out.h5", rows=61, batch=1, semantics="torchscale", segments=(16, 64),
                                     dilations=(1, 4))
    assert found["received"].sum() < 4 * 61 - 1  # the padding receives the rest
    coords = np.array([(256.0 * (i % 9), 256.0 * (i // 9)) for i in range(63) if i not in (0, 8, 9)])
    with h5py.File(tmp_path / "coords.h5", "w") as file:
        file["coords"], file["features"] = coords, np.zeros((60, 16), "f4")
    _, maps = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    pictures = []
    for command in maps.splitlines():
        tools(*shlex.split(command)[1:], folder=tmp_path)
        pictures.append(imread(tmp_path / command.split()[4])[..., :3])
        assert pictures[-1].std() > 0.05, command
    assert len(pictures) == 3 and (pictures[0].shape != pictures[1].shape or np.abs(pictures[0] - pictures[1]).max() > 0.5)
    with contextlib.chdir(tmp_path):
        image = runpy.run_path(str(ROOT / "tools/python/tests/slide_map_example.py"))["image"]
    assert image.shape == (7, 9) and np.isnan(image[0, [0, 8]]).all() and np.isnan(image[1, 0])
    np.testing.assert_allclose(image[6], found["received"][0, -9:].mean(axis=1))
