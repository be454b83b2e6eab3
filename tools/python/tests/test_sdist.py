"""A source distribution: it has all that the package and its library are built from, and pip installs it."""
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def run(*command, directory, **variables):
    return subprocess.run(command, cwd=directory, env={**os.environ, **variables}, capture_output=True, text=True,
                          timeout=1500, check=False)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdist")
    done = run(sys.executable, "-c",
               f"from scikit_build_core import build; build.build_sdist({str(folder)!r})", directory=ROOT)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("annulus-*.tar.gz"))


def install(sdist, to, *options, **variables):
    return run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--target", to, *options,
               sdist, directory=sdist.parent, **variables)


def test_it_has_what_is_compiled_and_nothing_of_the_tests(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    compiled = {str(path.relative_to(ROOT)) for folder in ("src", "tools/cmake", "tools/python/annulus",
                                                           "tools/python/src")
                for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert compiled <= names, sorted(compiled - names)
    assert {"CMakeLists.txt", "tools/setup", "tools/lib.sh", "tools/sources.sh", "pyproject.toml"} <= names
    assert not [name for name in names if name.startswith(("tests/", "docs/", "input/", ".", "tools/python/tests/"))]


def test_it_is_compiled_with_an_installed_library(sdist, tmp_path):
    done = install(sdist, tmp_path / "site")  # annulus_ROOT is set by tools/python/test
    assert done.returncode == 0, done.stdout + done.stderr
    used = run(sys.executable, "-c", "import annulus; print(annulus.__file__); annulus.threads()", directory=tmp_path,
               PYTHONPATH=str(tmp_path / "site"))
    assert used.returncode == 0 and used.stdout.startswith(str(tmp_path)), used.stdout + used.stderr


def test_alone_it_finds_all_that_it_names(sdist, tmp_path):
    """The library's sources inside it are configured as `pip install` does on a machine with Kokkos."""
    assert run("tar", "-xf", sdist, directory=tmp_path).returncode == 0
    done = run("cmake", "-S", next(tmp_path.glob("annulus-*")) / "tools/python", "-B", tmp_path / "build",
               f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_DISABLE_FIND_PACKAGE_annulus=ON", "-DANNULUS_MPI=OFF",
               directory=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "annulus 0.1.0 uses:" in done.stdout and "MPI  " not in done.stdout


def test_the_tools_alone_can_be_installed(sdist, tmp_path):
    done = install(sdist, tmp_path / "site", "--config-settings=wheel.cmake=false")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site/annulus/files.py").is_file()
    assert not list((tmp_path / "site/annulus").glob("_core*"))
