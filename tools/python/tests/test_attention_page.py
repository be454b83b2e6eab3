"""docs/attention.md: its programs run and are those of the files that it names; docstrings' examples are true."""
import doctest
import re
import sys

import numpy as np
import torch
from conftest import LAUNCHER, ROOT, run

import annulus.calls
import annulus.torch

PAGE = (ROOT / "docs/attention.md").read_text(encoding="utf-8")


def test_every_program_of_the_page():
    quoted = re.findall(r"^<!-- tools/python/tests/(\w+_example.py) -->$", PAGE, re.MULTILINE)
    assert quoted == ["numpy_example.py", "model_example.py", "ranks_example.py"]
    folder = ROOT / "tools/python/tests"
    told, _ = run(sys.executable, "-P", folder / quoted[0])
    assert told.startswith("Verified(error_out=") and "tolerance=1e-05" in told
    told, _ = run(sys.executable, "-P", folder / quoted[1])
    assert told.startswith("torch.Size([2, 4096, 64]) tensor(")
    run(*LAUNCHER, "-n", 2, sys.executable, "-P", folder / quoted[2])


def test_examples_of_docstrings():
    for module, words in ((annulus.calls, {"np": np}), (annulus.torch, {"torch": torch})):
        found = doctest.testmod(module, extraglobs=words)
        assert found.attempted >= 3 and found.failed == 0, module


def test_every_argument_is_explained():
    text = annulus.attention.__doc__
    for name in annulus.attention.__kwdefaults__:
        assert re.search(rf"\b{name}\b", text), name
