"""Reads the files that the fuzzer of the Python readers starts with, and the files in which it has found faults."""
import importlib.util
from pathlib import Path

import pytest

FUZZ = Path(__file__).resolve().parents[3] / "tests/fuzz"
_spec = importlib.util.spec_from_file_location("python_files", FUZZ / "python_files.py")
python_files = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(python_files)


@pytest.mark.parametrize("path", sorted((FUZZ / "corpus/python_files").iterdir()), ids=lambda path: path.name)
def test_bytes_from_somebody_else_make_nothing_but_our_error(path):
    python_files.read(path.read_bytes())
