#!/usr/bin/env python3
"""Provides the environment in which the Python package is tested; prints its Python. Quick when it is there.

What the package needs stands in pyproject.toml; here is what its tests need beside that.
"""
import sys
import tomllib
from pathlib import Path

from environment import Environment, Failed

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
FOR_TESTS = ["pytest>=7.4", "pytest-xdist>=3.3", "safetensors>=0.4", "scikit-build-core>=0.10", "nbclient>=0.9",
             "ipykernel>=6.25", "reframe-hpc>=4.6", "netCDF4>=1.6", "hdf5plugin>=4.1", "pandas>=2",
             "nanobind>=2.4", "mpi4py>=4", "jax>=0.4.30", "pdoc>=14", "transformers>=5.24"]


def requirements():
    """Those of the package and of its extras but PyTorch, whose wheel is installed in a way of its own."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    return project["dependencies"] + project["optional-dependencies"]["zarr"]


def say(line):
    print(f"python: {line}", file=sys.stderr, flush=True)


def main():
    environment = Environment(say)
    try:
        with environment.locked():
            environment.install([*requirements(), *FOR_TESTS])
            environment.install_torch()
    except Failed as failure:
        say(f"error: {failure}")
        return 1
    print(environment.python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
