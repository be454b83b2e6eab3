"""Runs pages of docs/ as programs: their fenced blocks, in a folder like a clone of the repository."""
import os
import re
import shutil
import subprocess
import sys

from conftest import FOR_ONE_MACHINE, PROGRAM, ROOT


def blocks(name):
    """(language, text) of the fenced blocks of docs/`name`, in order."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def clone(folder):
    """Makes what a page assumes: run files in input/, an empty build/, and the commands on PATH."""
    shutil.copytree(ROOT / "input", folder / "input")
    (folder / "build").mkdir()
    (folder / "bin").mkdir()
    (folder / "bin/annulus").symlink_to(PROGRAM)
    (folder / "bin/python3").symlink_to(sys.executable)
    tools = folder / "bin/annulus-tools"
    tools.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT}/tools/python exec {sys.executable} -m annulus "$@"\n')
    tools.chmod(0o755)
    return folder


def shell(command, folder):
    """Runs a command, which must succeed; returns what it prints to stdout and stderr."""
    environment = os.environ | FOR_ONE_MACHINE | {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=folder, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


def play(name, folder):
    """Runs a page from top to bottom; returns [(language, text of the block, what it printed)].

    A YAML block whose first line is a comment with a name is written to that file. Output that the page quotes (a block
    without a language) and commands of Slurm, which tests/slurm runs, are left out.
    """
    played = []
    for language, text in blocks(name):
        printed = ""
        if language == "yaml" and (file := re.match(r"# (\S+\.yaml)\n", text)):
            (folder / file[1]).write_text(text)
        elif language == "python":
            (folder / "block.py").write_text(text)
            printed = shell(f"{sys.executable} -W error block.py", folder)
        elif language == "sh" and not text.startswith("sbatch "):
            printed = shell(text, folder)
        played.append((language, text, printed))
    return played
