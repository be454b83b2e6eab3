"""The ReFrame file runs its jobs on this machine, and notices a wrong result and too many bytes."""
import json
import os
import re
import stat
import sys
from pathlib import Path

import pytest
from conftest import LAUNCHER, PROGRAM, ROOT, run

HERE = ROOT / "tools/reframe"
REFRAME = Path(sys.executable).parent / "reframe"


def reframe(folder, program, *options, status=0):
    """Runs ReFrame and returns its output. It takes the first launcher on PATH: here that of the linked MPI."""
    launcher = folder / "bin/mpirun"
    launcher.parent.mkdir(exist_ok=True)
    if not launcher.exists():
        launcher.symlink_to(Path(LAUNCHER[0]) if "/" in LAUNCHER[0] else run("which", LAUNCHER[0])[0].strip())
    return run(REFRAME, "-C", HERE / "settings.py", "-c", HERE / "checks.py", "--prefix", folder, "-r",
               "--performance-report", "--report-file", folder / "report.json", "--nocolor", *options, folder=folder, status=status,
               TMPDIR=str(folder), ANNULUS_PROGRAM=str(program), PATH=f"{launcher.parent}:{os.environ['PATH']}")[0]


def test_jobs_run_with_figures_of_merit(tmp_path):
    output = reframe(tmp_path, PROGRAM)
    assert re.search(r"Ran 3/3 test case\(s\) from 3 check\(s\) \(0 failure\(s\)", output), output
    found = json.loads((tmp_path / "report.json").read_text())
    cases = [case for session in found["runs"] for case in session["testcases"]]
    assert sorted(case["check_params"]["deck"] if "check_params" in case else case["deck"] for case in cases) == \
        ["dense", "dilated_backward", "quickstart"]
    for figure in ("attention", "kernel_rate", "longest_wait", "received", "peak"):
        assert output.count(f"{figure}") >= 3, output


@pytest.mark.parametrize("change, stage", [
    ('[ "$1" = verify ] && set -- "$@" --set attention.causal=false', "sanity"),   # verify gets another mask
    ('set -- "$@" --set distribution.strategy=allgather', "performance"),          # twice the bytes
])
def test_what_is_wrong_fails(tmp_path, change, stage):
    wrong = tmp_path / "annulus"
    wrong.write_text(f'#!/bin/sh\n{change}\nexec {PROGRAM} "$@"\n')
    wrong.chmod(wrong.stat().st_mode | stat.S_IXUSR)
    output = reframe(tmp_path, wrong, "-n", "deck=quickstart", status=1)
    assert "(1 failure(s)" in output and f"Failing phase: {stage}" in output, output
