"""The table of docs/what-would-it-take.md is what its script prints."""
import re
import sys

import pytest
from conftest import PROGRAM, ROOT, run

PAGE = (ROOT / "docs/what-would-it-take.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("rows, ranks", [("1000000", "8,4096"), ("100000000", "8")])
def test_some_lines(rows, ranks):
    told, _ = run(sys.executable, ROOT / "tools/what_would_it_take.py", "--program", PROGRAM, "--rows", rows, "--ranks", ranks)
    assert len(told.splitlines()) == 3  # 1,000,000 rows on 4096 ranks have no line
    assert told.splitlines()[:2] == re.search(r"^\| rows .*\n.*$", PAGE, re.MULTILINE)[0].splitlines()
    assert told.splitlines()[2] in PAGE.splitlines()


def test_rates_of_the_page():
    for machine in ("cpu_cluster", "a100_cluster", "h100_cluster"):
        file = (ROOT / f"input/machines/{machine}.yaml").read_text(encoding="utf-8")
        seconds = float(re.search(r"seconds_per_gflop: \[(\S+)\]", file)[1]) * float(re.search(r"half_factor: (\S+)", file)[1])
        told = re.search(rf"^\| `{machine}` \| .* \| (\S+) TFLOP/s \|", PAGE, re.MULTILINE)[1]
        assert float(told) == pytest.approx(1e-3 / seconds, rel=0.02)
