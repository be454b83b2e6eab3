"""Every notebook of tools/notebooks runs from top to bottom, and is kept without outputs."""
import json
import os
import shutil

import nbformat
import pytest
from conftest import FOR_ONE_MACHINE, PROGRAM, ROOT
from nbclient import NotebookClient

NOTEBOOKS = sorted((ROOT / "tools/notebooks").glob("*.ipynb"))


def test_there_are_notebooks_and_all_are_kept_without_outputs():
    assert len(NOTEBOOKS) >= 4
    for path in NOTEBOOKS:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
        nbformat.validate(nbformat.reads(text, as_version=4))
        for cell in content["cells"]:
            assert cell.get("outputs", []) == [] and cell.get("execution_count") is None, path.name
            assert max(map(len, "".join(cell["source"]).split("\n"))) <= 125, path.name
        assert content["metadata"].keys() == {"kernelspec", "language_info"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_notebook(path, tmp_path, monkeypatch):
    """Runs in a copy of the folders that notebooks use, so that nothing is left in the repository."""
    shutil.copytree(ROOT / "input", tmp_path / "input")
    (tmp_path / "build").mkdir()
    (tmp_path / "tools/notebooks").mkdir(parents=True)
    for name, value in (FOR_ONE_MACHINE | {"ANNULUS_PROGRAM": str(PROGRAM)}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "tools/python"), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3",
                   resources={"metadata": {"path": str(tmp_path / "tools/notebooks")}}).execute()
    pictures = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
                if "image/png" in output.get("data", {})]
    assert len(pictures) >= 1
    if wanted := os.environ.get("ANNULUS_KEEP_NOTEBOOKS"):  # to look at them
        nbformat.write(notebook, f"{wanted}/{path.name}")
