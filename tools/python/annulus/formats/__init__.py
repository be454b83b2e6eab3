"""Formats of files with tensors, read and written piece by piece. A format is a module with

  reading(path)          context manager -> {name: Tensor}; raises AnnulusError for a file of another format
  writing(path, specs)   context manager -> write(name, index, piece); pieces come tensor by tensor as in `specs`,
                         in row-major order
  note(path, specs)      None, or a text on how numbers are stored if the format lacks their type (bfloat16); raises
                         AnnulusError if the format cannot store the tensors
"""
import importlib
import os
from pathlib import Path

from annulus.errors import AnnulusError

_BY_SUFFIX = {
    ".h5": "hdf5", ".hdf5": "hdf5", ".nc": "hdf5",
    ".npy": "npy",
    ".npz": "npz",
    ".safetensors": "safetensors",
    ".pt": "pytorch", ".pth": "pytorch", ".bin": "pytorch",
    ".zarr": "zarr",
}


def of(path):
    """The module for a file's name. Raises AnnulusError for an unknown suffix."""
    module = _BY_SUFFIX.get(Path(path).suffix.lower())
    if module is None:
        raise AnnulusError(f"{path}: the name ends in {Path(path).suffix or 'no suffix'}; "
                           f"expected one of {' '.join(_BY_SUFFIX)}")
    return importlib.import_module(f"annulus.formats.{module}")


def refuse_other(path, module):
    """Raises AnnulusError if the suffix of a file is that of another format. Accepts unknown suffixes."""
    if _BY_SUFFIX.get(Path(path).suffix.lower(), module) != module:
        expected = " ".join(suffix for suffix, name in _BY_SUFFIX.items() if name == module)
        raise AnnulusError(f"{path}: the name ends in {Path(path).suffix}; expected one of {expected}")


def reading(path):
    """Context manager -> {name: Tensor}, for a file of any format."""
    module = of(path)
    if not os.path.exists(path) and not module.__name__.endswith("hdf5"):  # whose message says more
        raise AnnulusError(f"{path}: there is no such file")
    return module.reading(path)
