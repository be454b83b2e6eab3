"""Damaged or malicious files of tensors, read by the Python package: it may raise AnnulusError only.

    python_files.py [OPTIONS OF LIBFUZZER] CORPUS...     the fuzzer (needs the package `atheris`; tools/fuzz starts it)

The first byte of an input says what kind of file the others are. The fuzzer leaves HDF5 out, because
random bytes crash HDF5's library, not the package; the corpus has HDF5 files. tools/python/tests/test_corpus.py reads
the corpus.
"""
import contextlib
import math
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

READ_AT_MOST = 1 << 16  # numbers of a tensor
FOLDER = tempfile.TemporaryDirectory(prefix="annulus-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)


def _tensors(path):
    from annulus import formats
    with formats.reading(path) as found:
        for tensor in found.values():
            some = tuple(slice(0, min(extent, 4)) for extent in tensor.shape)
            numbers = tensor.read(some)
            assert numbers.shape == tuple(part.stop for part in some), f"{tensor.where}: {numbers.shape} for {some}"
            assert numbers.dtype == tensor.element.storage, f"{tensor.where}: {numbers.dtype}"


def _opened(kind):
    def read(path):
        import annulus
        with getattr(annulus, kind)(path) as found:
            for variable in found.values():
                if math.prod(variable.shape) <= READ_AT_MOST:
                    np.asarray(variable)
    return read


def _converted(path):
    import annulus
    annulus.convert(path, Path(FOLDER.name) / "converted.h5", overwrite=True)


KINDS = [("a.npy", _tensors), ("a.npz", _tensors), ("a.safetensors", _tensors), ("a.zarr/zarr.json", _tensors),
         ("a.npz", _converted), ("a.safetensors", _converted), ("a.h5", _tensors), ("a.h5", _opened("open_result")),
         ("a.h5", _opened("open_input")), ("a.h5", _opened("open_sweep")), ("a.h5", _converted)]
WITHOUT_HDF5 = 6


def read(data, kinds=len(KINDS)):
    """Reads the bytes as the package would; any other exception than AnnulusError is a fault."""
    from annulus.errors import AnnulusError
    if not data:
        return
    name, look = KINDS[data[0] % kinds]
    path = Path(FOLDER.name) / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data[1:])
    with warnings.catch_warnings(), contextlib.suppress(AnnulusError):
        warnings.simplefilter("ignore")
        look(path.parent if name.endswith("zarr.json") else path)


def main():
    import atheris
    with atheris.instrument_imports(include=["annulus"]):
        import annulus  # noqa: F401
        from annulus import conversion, formats  # noqa: F401
        from annulus.formats import hdf5, npy, npz, safetensors, zarr  # noqa: F401
    atheris.Setup(sys.argv, lambda data: read(data, WITHOUT_HDF5))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
