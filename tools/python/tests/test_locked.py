"""packages.lock has one version and hashes of each package for tests, peers and wheels, and of all that these need."""
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

VENV = Path(__file__).resolve().parents[2] / "venv"
sys.path.insert(0, str(VENV))
import locked  # noqa: E402

NEEDS = sorted((VENV / "needs").glob("*.in"))


def named_packages(file):
    lines = [line.split("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines()]
    return [Requirement(line) for line in lines if line]


def project():
    table = tomllib.loads((VENV.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(text) for text in table["dependencies"] + table["optional-dependencies"]["zarr"]]


def versions(entries):
    return {canonicalize_name(entry.name): entry.version for entry in entries}


def test_every_entry_has_a_version_and_hashes():
    entries = locked.entries()
    assert len(entries) > 100
    for entry in entries:
        assert re.search(r"\\\n    --hash=sha256:[0-9a-f]{64}\b", entry.text), entry.text
        assert entry.needed_by, entry.text
    assert not re.search(r"https?:|--index|--find", locked.LOCK.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["annulus", *(file.stem for file in NEEDS)])
def test_what_is_named_is_locked_within_its_range(name):
    named = project() if name == "annulus" else named_packages(VENV / "needs" / f"{name}.in")
    found = versions(locked.needed(name))
    assert named
    for requirement in named:
        version = found[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement}: {version} is locked; run tools/venv/lock"


def test_needs_of_needs_are_locked():
    """The lock has every package that an installed package requires, except packages for GPUs."""
    found = versions(locked.needed("annulus", "tests"))
    for name in found:
        try:
            requirements = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # the package is for another system
        for need in map(Requirement, requirements):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                needed = canonicalize_name(need.name)
                assert needed in found or needed.startswith(locked.NOT_NEEDED), f"{name} needs {need}"


def test_this_environment_has_what_is_locked():
    found = versions(locked.needed("annulus", "tests"))
    for name in ("numpy", "h5py", "torch", "pytest", "scikit-build-core"):
        assert metadata.version(name) == found[name], name


def test_a_name_without_entry_is_an_error():
    with pytest.raises(KeyError, match="has no nothing"):
        locked.needed("tests", "nothing")
    assert [entry.name for entry in locked.needed("sortedcontainers")] == ["sortedcontainers"]
