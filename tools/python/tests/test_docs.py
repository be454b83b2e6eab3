"""Every command of docs/python.md works, one after another, in a new environment of its own."""
import os
import re
import site
import subprocess
import sys
import tomllib

import h5py
import numpy as np
import pytest
from conftest import FOR_ONE_MACHINE, PROGRAM, ROOT, run

import annulus

PAGE = (ROOT / "docs/python.md").read_text(encoding="utf-8")
PACKAGES = [path for path in site.getsitepackages() if os.path.isdir(path)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the files that the page assumes: a user's tensors, a run file, a second result, the sources."""
    folder = tmp_path_factory.mktemp("docs")
    generator = np.random.default_rng(0)
    np.savez(folder / "tokens.npz", **{name: generator.standard_normal((1, 4, 256, 16)).astype("f4") for name in "qkv"})
    (folder / "mine.yaml").write_text("input: {file: tokens.h5}\nattention: {segments: [64, all], dilations: [1, 4]}\n"
                                      "output: {file: result.h5, overwrite: true}\n")
    (folder / "ring.yaml").write_text("input: {generate: {sequence: 64, heads: 4}}\ndistribution: {strategy: ring}\n"
                                      "output: {file: ring.h5}\n")
    run(PROGRAM, "run", "ring.yaml", folder=folder)
    for name in ("tools", "src", "CMakeLists.txt", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "bin").mkdir()
    (folder / "bin/annulus").symlink_to(PROGRAM)
    return folder


def shell(commands, folder):
    """Runs commands in a new environment that shares this one's third-party packages, so that nothing is downloaded."""
    environment = os.environ | FOR_ONE_MACHINE | {
        "PYTHONPATH": os.pathsep.join(PACKAGES), "PIP_NO_BUILD_ISOLATION": "false", "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=folder, env=environment, text=True,
                          capture_output=True, timeout=900, check=False)
    assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def output(place):
    """The output of the page's commands, run one after another."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4 and "pip install" in blocks[0]
    return shell("\n".join(blocks), place)


def test_every_command_of_the_page(place, output):
    assert "hop_wait_seconds" in output and "result.html" in output
    for made in ("result.safetensors", "out.npy", "timeline.png", "lse.svg", "pattern.png", "strategies.png"):
        assert (place / made).stat().st_size > 1000, made
    # the package is installed in the new environment, in the version of this source
    version = shell("annulus-env/bin/annulus-tools --version", place).strip()
    assert version == annulus.__version__
    where = shell("annulus-env/bin/python -c 'import annulus; print(annulus.__file__)'", place)
    assert str(place / "annulus-env") in where
    engine = "import xarray; print(xarray.open_dataset('result.h5', engine='annulus').out.dims)"
    assert "('batch', 'head', 'sequence', 'dim')" in shell(f'annulus-env/bin/python -c "{engine}"', place)


def test_every_program_of_the_page(place, output):
    assert "result.html" in output  # so the commands have run, and result.h5 exists
    quoted = re.findall(r"^<!-- tools/python/tests/(\w+_example.py) -->$", PAGE, re.MULTILINE)
    assert sorted(quoted) == ["capture_example.py", "open_example.py"]
    for name in quoted:
        run(sys.executable, ROOT / "tools/python/tests" / name, folder=place)
    run(PROGRAM, "run", "model.yaml", folder=place)
    with h5py.File(place / "model.h5") as file:
        assert file["out"].shape == (1, 4, 256, 16)


def test_commands_in_tables_are_commands():
    """Every option that the page names is an option of annulus-tools."""
    from annulus.commands import parser
    helps = "".join(part.format_help() for part in parsers(parser()))
    for option in set(re.findall(r"`(--[a-z-]+)", PAGE)):
        assert option in helps, option


def parsers(one):
    yield one
    for action in one._actions:
        for other in getattr(action, "choices", None).values() if hasattr(action, "add_parser") else ():
            yield from parsers(other)


def test_versions_agree():
    """The package and its program have the same version."""
    version = re.search(r"^project\(annulus VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
    assert annulus.__version__ == version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["dynamic"] == ["version"] and project["name"] == "annulus"
