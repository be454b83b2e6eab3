"""docs/slides.md: its commands, its run file and its program work, and what it says of the padding is so."""
import os
import re
import shutil
import sys

import h5py
import numpy as np
import pytest
from conftest import PROGRAM, ROOT, program, run

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
    quoted = re.search(r"`(input: \{file: slide.h5.*?\})` and `(output:.*?\})`", PAGE, re.DOTALL)
    (folder / "slide.yaml").write_text("\n".join([quoted[1], attention, quoted[2].replace("\n", " ")]) + "\n")
    return folder


def on_path(folder, *command):
    """Runs a command that finds `annulus` on its path."""
    return run(*command, folder=folder, PATH=f"{folder}/bin:{os.environ['PATH']}", PYTHONPATH=str(ROOT / "tools/python"))


def test_every_command_of_the_page(place):
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    printed, _ = on_path(place, "bash", "-euo", "pipefail", "-c", blocks[0])
    assert "torchscale, 5 pairs" in printed and "WRONG" not in printed
    # What head 0, at offset 0, sees beside rows: from row 9216 on 239 zeros of pair 1, and where pair 2 picks the row the
    # 2,896 - 2,105 of its last segment.
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
