"""annulus.attention(..., comm=) on several ranks of mpi4py, each of which passes its own rows."""
import sys
from pathlib import Path

import pytest
from conftest import LAUNCHER, run


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_ranks_compute_together(ranks):
    told, _ = run(*LAUNCHER, "-n", ranks, sys.executable, Path(__file__).with_name("on_ranks.py"))
    assert told == f"all well on {ranks} ranks\n"
