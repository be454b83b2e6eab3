"""Builds the package for pip: scikit-build-core, but for one line where it builds a package without its repository.

The compiled part needs sources that lie outside this folder, or an installed library. Only CMake knows whether there is
one; where it finds neither, its log would hide the line that says what to do.
"""
import contextlib
import os
import re
import sys
import tempfile
from pathlib import Path

from scikit_build_core import build
from scikit_build_core.build import *  # noqa: F403  # pip calls them by name

REPOSITORY = Path(__file__).resolve().parents[2] / "src/annulus/annulus.hpp"


@contextlib.contextmanager
def output_to(file):
    """Of this process and of those that it starts."""
    kept = [os.dup(number) for number in (1, 2)]
    try:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in zip((1, 2), kept):
            os.dup2(copy, number)
            os.close(copy)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    if REPOSITORY.is_file():
        return build.build_wheel(wheel_directory, config_settings, metadata_directory)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        try:
            with output_to(log):
                return build.build_wheel(wheel_directory, config_settings, metadata_directory)
        except (Exception, SystemExit):
            log.seek(0)
            text = log.read()
            reason = re.search(r"^annulus: neither .*$", text, re.MULTILINE)
            print(reason[0] if reason else text)
            raise
