"""Functions that run the program and the command line, and files that the program makes once for all tests."""
import contextlib
import io
import os
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from annulus.__main__ import main

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ.get("ANNULUS_PROGRAM", ROOT / "build/test/annulus")).resolve()
LAUNCHER = os.environ.get("ANNULUS_LAUNCHER", "mpirun").split()
LAUNCHES = tempfile.TemporaryDirectory(prefix="annulus-launches-")
FOR_ONE_MACHINE = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_pml": "ob1", "OMP_NUM_THREADS": "1",
    "OMPI_MCA_btl": "self,vader",  # Open MPI 4.1: ranks may die of tcp in MPI_Init on a busy machine
    "OMPI_MCA_orte_allowed_exit_without_sync": "1",  # 4.1: mpirun may miss there that a rank finalized MPI
    "OMPI_MCA_orte_tmpdir_base": LAUNCHES.name,  # Open MPI 4.1: launches that share it may fail where another one ends
}


def run(*command, folder=None, status=0, **more):
    """Runs a command, for 900 s at most, and checks its exit status; returns what it printed (stdout, stderr)."""
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True, timeout=900,
                          env=os.environ | FOR_ONE_MACHINE | more)
    assert done.returncode == status, f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def program(*words, ranks=1, folder=None, status=0):
    """Runs the program annulus on this many ranks."""
    launch = [] if ranks == 1 else [*LAUNCHER, "-n", ranks]
    return run(*launch, PROGRAM, *words, folder=folder, status=status)


def tools(*words, folder=None, status=0):
    """Runs this package's command line in this process, because a new process needs seconds to load its libraries."""
    stdout, stderr = io.StringIO(), io.StringIO()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with contextlib.chdir(folder or "."), contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            found = main([str(word) for word in words])
    except SystemExit as end:  # raised by argparse
        found = end.code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert found == status, f"{words}: status {found}\n{stdout.getvalue()}{stderr.getvalue()}"
    return stdout.getvalue(), stderr.getvalue()


SETTINGS = """
input: {{generate: {{sequence: {rows}, heads: 4, kv_heads: 2, head_dim: 16, batch: 2, dtype: {dtype}}}}}
attention: {{segments: [32, all], dilations: [1, 4]}}
compute: {{backward: true}}
distribution: {{strategy: {strategy}}}
output: {{file: {name}.h5, overwrite: true}}
"""


def make_result(folder, name, dtype="float32", strategy="ring", ranks=3, rows=96):
    (folder / f"{name}.yaml").write_text(SETTINGS.format(name=name, dtype=dtype, strategy=strategy, rows=rows))
    program("run", f"{name}.yaml", ranks=ranks, folder=folder)
    return folder / f"{name}.h5"


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """{name: path} of results: of every type on three ranks, of several strategies, and of a layer."""
    folder = tmp_path_factory.mktemp("results")
    made = {dtype: make_result(folder, dtype, dtype) for dtype in ("float64", "float32", "float16", "bfloat16")}
    for strategy, ranks in (("ring", 1), ("ring", 2), ("rotation", 4), ("ulysses", 2), ("allgather", 2)):
        made[f"{strategy}{ranks}"] = make_result(folder, f"{strategy}{ranks}", strategy=strategy, ranks=ranks)
    program("generate", "--output", "x.h5", "--sequence", "64", "--heads", "4", "--kv-heads", "2", "--head-dim", "8",
            "--layer", "32", folder=folder)
    (folder / "layer.yaml").write_text(
        "input: {file: x.h5}\nlayer: {heads: 4, kv_heads: 2}\ncompute: {backward: true}\noutput: {file: layer.h5}\n")
    program("run", "layer.yaml", folder=folder, ranks=2)
    return made | {"layer": folder / "layer.h5"}


@pytest.fixture
def inputs(tmp_path):
    """A function that makes an input file with the program: inputs("bfloat16", ...) -> path."""
    def make(dtype="float32", *more, name="tokens.h5"):
        program("generate", "--output", tmp_path / name, "--sequence", "40", "--heads", "4", "--kv-heads", "2",
                "--head-dim", "8", "--batch", "2", "--dtype", dtype, "--overwrite", *more)
        return tmp_path / name
    return make
