"""tools/sbom: the list of what a program and a wheel are made of."""
import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ["ANNULUS_PROGRAM"])
METADATA = """Metadata-Version: 2.1
Name: annulus
Version: 0.1.0
Requires-Dist: numpy>=1.24
Requires-Dist: tomli>=2; python_version < "3.11"
Provides-Extra: torch
Requires-Dist: torch>=2.8; extra == "torch"
"""


def sbom(*words):
    return subprocess.run([sys.executable, "-B", ROOT / "tools/sbom", *words], capture_output=True, text=True,
                          check=False, timeout=900, env={**os.environ, "SOURCE_DATE_EPOCH": "1800000000"})


def parts(done):
    """Checks that the list is valid; returns the list, {name: component}, and {how a component is used: its name}."""
    assert done.returncode == 0, done.stderr
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(done.stdout) is None
    made = json.loads(done.stdout)
    components = {part["name"]: part for part in made["components"]}
    hows = {value["value"]: name for name, part in components.items() for value in part["properties"]}
    needs = {entry["ref"]: entry.get("dependsOn", []) for entry in made["dependencies"]}
    assert set(needs[made["metadata"]["component"]["bom-ref"]]) == {part["bom-ref"] for part in made["components"]}
    return made, components, hows


@pytest.fixture(scope="module")
def of_program():
    return sbom(PROGRAM)


def test_a_program_lists_every_library_that_it_links(of_program):
    made, components, hows = parts(of_program)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", subprocess.run(["readelf", "-dW", PROGRAM], capture_output=True,
                                                                text=True, check=True).stdout)
    assert len(needed) > 5
    for soname in needed:
        assert soname.startswith("ld-linux") or f"links {soname}" in hows, soname
    root = made["metadata"]["component"]
    assert root["hashes"][0]["content"] == hashlib.sha256(PROGRAM.read_bytes()).hexdigest()
    assert made["metadata"]["timestamp"].startswith("2027-01-15")
    if Path("/etc/debian_version").is_file():
        package = components[hows["links libc.so.6"]]
        assert package["purl"].startswith("pkg:deb/") and "LGPL-2.1" in str(package["licenses"])


def test_a_program_lists_what_is_compiled_in(of_program):
    _, components, _ = parts(of_program)
    cache = (PROGRAM.parent / "CMakeCache.txt").read_text(encoding="utf-8")
    named = {part["name"].lower() for part in components.values()
             if {"name": "annulus:how", "value": "compiles in"} in part["properties"]}
    for name in ("kokkos", "cli11", "fmt", "nlohmann", "yaml-cpp"):
        assert [part for part in named if name in part], (name, named)
    kokkos = components.get("Kokkos") or next(part for name, part in components.items() if "kokkos" in name)
    folder = Path(re.search(r"^Kokkos_DIR:\w+=(.*)$", cache, re.MULTILINE)[1])
    assert kokkos["version"] in (folder / "KokkosConfigVersion.cmake").read_text(encoding="utf-8")
    assert "BSD-3" in str(kokkos["licenses"])


def test_the_same_program_has_the_same_list(of_program):
    assert sbom(PROGRAM).stdout == of_program.stdout


def test_a_wheel_lists_its_libraries_and_what_it_requires(tmp_path):
    wheel = tmp_path / "annulus-0.1.0-cp312-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("annulus-0.1.0.dist-info/METADATA", METADATA)
        archive.writestr("annulus.libs/", b"")  # auditwheel writes folders, too
        archive.writestr("annulus.libs/libgomp-e985bcbb.so.1.0.0", b"bytes")
        archive.writestr("annulus.libs/libnowhere-00000000.so.3", b"more")
    made, components, hows = parts(sbom(wheel))
    assert made["metadata"]["component"]["version"] == "0.1.0"
    inside = components[hows["contains annulus.libs/libgomp-e985bcbb.so.1.0.0"]]
    assert inside["hashes"][0]["content"] == hashlib.sha256(b"bytes").hexdigest()
    assert components["libnowhere.so.3"]["purl"] == "pkg:generic/libnowhere.so.3"
    assert hows["requires numpy>=1.24"] == "numpy" and "tomli" in components and "torch" not in components


def test_the_list_of_a_wheel_is_put_into_it(tmp_path):
    wheel, name = tmp_path / "annulus-0.1.0-cp312-abi3-linux_x86_64.whl", "annulus-0.1.0.dist-info/sboms/annulus.cdx.json"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("annulus/__init__.py", b"bytes")
        archive.writestr("annulus-0.1.0.dist-info/METADATA", METADATA)
        archive.writestr("annulus-0.1.0.dist-info/RECORD", "annulus/__init__.py,,\nannulus-0.1.0.dist-info/RECORD,,\n")
    for _ in range(2):  # the second list takes the place of the first
        done = sbom(wheel, "--add")
        assert done.returncode == 0 and not done.stdout, done.stderr
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None and archive.namelist().count(name) == 1
        text, record = archive.read(name), archive.read("annulus-0.1.0.dist-info/RECORD").decode()
        assert archive.read("annulus/__init__.py") == b"bytes"
    made, components, _ = parts(subprocess.CompletedProcess([], 0, text.decode(), ""))
    assert "numpy" in components and "hashes" not in made["metadata"]["component"], "a wheel cannot hold its own hash"
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=")
    assert f"{name},sha256={digest},{len(text)}\n" in record and record.count("sboms") == 1
    assert "annulus-0.1.0.dist-info/RECORD,,\n" in record


def test_what_is_wrong_is_named(tmp_path):
    done = sbom(tmp_path / "absent")
    assert done.returncode == 1 and "absent: no such file" in done.stderr
    done = sbom(PROGRAM, "--add")
    assert done.returncode == 1 and "expected a wheel" in done.stderr
    alone = tmp_path / "annulus"
    alone.write_bytes(PROGRAM.read_bytes())
    done = sbom(alone)
    assert done.returncode == 1 and "CMakeCache.txt: no such file" in done.stderr and not done.stdout
