"""A source distribution, which lacks the library's sources: what pip says of it where there is no repository around."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1]
MISSING = ("annulus: neither an installed library (set annulus_ROOT) nor the repository around this package was found; "
           "for the tools without the compiled part: pip install -C wheel.cmake=false ...")
NO_LIBRARY = "-DCMAKE_DISABLE_FIND_PACKAGE_annulus=ON"  # this machine may have one


def run(*command, directory, **variables):
    environment = {name: value for name, value in os.environ.items() if name != "annulus_ROOT"}
    return subprocess.run(command, cwd=directory, env={**environment, **variables}, capture_output=True, text=True,
                          timeout=200, check=False)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdist")
    done = run(sys.executable, "-c", f"import backend; backend.build_sdist({str(folder)!r})", directory=PACKAGE)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("annulus-*.tar.gz"))


def install(sdist, to, *options, **variables):
    return run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--target", to, *options,
               sdist, directory=sdist.parent, **variables)


def test_what_is_missing_is_one_line(sdist, tmp_path):
    done = install(sdist, tmp_path / "site", CMAKE_ARGS=NO_LIBRARY)
    assert done.returncode != 0
    told = done.stdout + done.stderr
    assert [line.strip() for line in told.splitlines()].count(MISSING) == 1, told
    assert "CMake Error" not in told and "Traceback" not in told, told


def test_other_failures_are_told_in_full(sdist, tmp_path):
    done = install(sdist, tmp_path / "site", CMAKE_ARGS=f"{NO_LIBRARY} -DCMAKE_DISABLE_FIND_PACKAGE_Python=ON")
    assert done.returncode != 0
    assert "CMake Error" in done.stdout + done.stderr and MISSING not in done.stdout + done.stderr


def test_the_tools_alone_can_be_installed(sdist, tmp_path):
    done = install(sdist, tmp_path / "site", "-C", "wheel.cmake=false")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site/annulus/files.py").is_file()
    assert not (tmp_path / "site/backend.py").exists()
