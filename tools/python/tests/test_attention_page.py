"""Runs the programs that docs/attention.md quotes, and the examples in docstrings."""
import doctest
import inspect
import re
import sys

import numpy as np
import torch
from conftest import LAUNCHER, ROOT, run

import annulus
import annulus.calls
import annulus.verification
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
    for module, least in ((annulus.calls, 2), (annulus.verification, 1), (annulus.torch, 3)):
        found = doctest.testmod(module, extraglobs={"annulus": annulus, "np": np, "torch": torch})
        assert found.attempted >= least and found.failed == 0, module


def test_the_reference_is_made_of_docstrings(tmp_path):
    run(ROOT / "tools/api/build", tmp_path, PYTHON=sys.executable)
    calls = (tmp_path / "python/annulus.html").read_text(encoding="utf-8")
    for name in sorted(set(annulus.__all__) - {"grid", "plots", "torch"}):
        assert f'id="{name}"' in calls, name
    assert "natural logarithm of the sum" in calls
    assert 'id="dilated_attention"' in (tmp_path / "python/annulus/torch.html").read_text(encoding="utf-8")
    passes = (tmp_path / "cpp/namespaceannulus.html").read_text(encoding="utf-8")
    for name in ("attention", "attention_backward", "forward", "backward", "reference"):
        assert f"{name}" in passes and "whichever rank holds them" in passes, name


def test_every_argument_is_explained():
    text = annulus.attention.__doc__
    for name in inspect.signature(annulus.attention).parameters:
        assert re.search(rf"\b{name}\b", text), name
