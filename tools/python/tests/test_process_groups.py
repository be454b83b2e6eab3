"""comm= of torch.distributed's process groups, annulus.redistribute, docs/process-groups.md."""
import ctypes
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
from conftest import LAUNCHER, ROOT, run

import annulus
from annulus.calls import _core
from annulus.communicators import check_library

HERE = Path(__file__).parent
PAGE = (ROOT / "docs/process-groups.md").read_text(encoding="utf-8")


def own(told):
    """The printed text without the lines that gloo of PyTorch 2.8 prints."""
    gloo = r"\[Gloo\] Rank \d+ is connected to \d+ peer ranks\. Expected number of connected peer ranks is : \d"
    return "".join(line for line in re.sub(gloo, "", told).splitlines(keepends=True) if line.strip())


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_compute_together(ranks, tmp_path):
    told, _ = run(*LAUNCHER, "-n", ranks, sys.executable, "-P", HERE / "on_groups.py", tmp_path, PYTHONPATH=path())
    assert own(told) == f"all well on {ranks} ranks\n"


def path():
    import os
    return os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(HERE)])


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_the_script_of_the_page(ranks, tmp_path):
    assert re.findall(r"^<!-- tools/python/tests/(\w+_example.py) -->$", PAGE, re.MULTILINE) == ["group_example.py"]
    told, _ = run(*LAUNCHER, "-n", ranks, sys.executable, "-P", HERE / "group_example.py", folder=tmp_path)
    assert own(told) == "DTensor (1, 8, 3072, 64) True\n"


def test_torchrun_alone():
    """torchrun starts ranks that MPI does not join. Both ranks write to one pipe, so their lines may be mixed."""
    script = ("import torch.distributed as dist, torch, annulus\n"
              "dist.init_process_group('gloo')\n"
              "x = torch.ones(1, 4, 2, 8)\n"
              "try: annulus.attention(x, x, x, comm=dist.group.WORLD)\n"
              "except annulus.AnnulusError as error: print(error, flush=True)\n"
              "dist.destroy_process_group()\n")
    told, _ = run(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python",
                  sys.executable, "-P", "-c", script)
    line = ("comm: no MPI joins the 2 ranks of the process group (torchrun starts ranks without one); expected ranks that "
            "mpirun or srun has started: mpirun -n 2 python ...")
    assert own(told).replace("\n", "") == line * 2


def test_two_mpi_libraries_in_one_process(tmp_path):
    """check_library() distinguishes libraries by the address of MPI_Send."""
    other = tmp_path / "libmpi.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", other], input="int MPI_Send(void) { return 0; }", text=True,
                   check=True)
    kept = ctypes.CDLL(str(other))
    with pytest.raises(annulus.AnnulusError, match=f"^comm: mpi4py uses the MPI library {other}, this annulus /.*libmpi.*; "
                                                   "expected one library"):
        check_library(_core, types.SimpleNamespace(__file__=str(other)))
    assert kept.MPI_Send() == 0
    from mpi4py import MPI
    check_library(_core, MPI)


def test_one_process_needs_no_mpi():
    import numpy as np
    plan = annulus.plan(5, 1, 1, ranks=1)
    assert (annulus.redistribute(np.arange(5), plan, plan, None, axis=0) == np.arange(5)).all()
    for words, message in (({"x": [1]}, "x is [1], expected an array of NumPy or a tensor of PyTorch"),
                           ({"axis": 1}, "x has 1 axes, expected more than axis=1, along which its rows lie"),
                           ({"to_plan": 3}, "to_plan is 3, expected a plan, which annulus.plan() makes")):
        with pytest.raises(annulus.AnnulusError) as raised:
            annulus.redistribute(**{"x": np.arange(5), "from_plan": plan, "to_plan": plan, "comm": None, "axis": 0} | words)
        assert str(raised.value) == message
