"""Installs the peers from PyPI into a private virtual environment; quick when they are there.

Only numpy and h5py are needed by every peer; one that cannot be installed is left out and the others run.
"""
import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

import stubs
from program import Failed, say

# Ranges of versions that exist and are known to work; pip takes the newest that fits this Python.
BASE = ["numpy>=1.26,<2.5", "h5py>=3.10,<3.17"]
TORCH = "torch>=2.8,<2.16"
JAX = "jax>=0.5,<0.11"
# The needs that PyTorch names and that a CPU has no use for; `setuptools` is for building extensions.
GPU_ONLY = ("nvidia", "cuda", "triton", "setuptools")

CHECKS = {
    "base": "import numpy, h5py; print(numpy.__version__, h5py.__version__)",
    "torch": "import torch, torch.distributed as d; assert d.is_gloo_available(); print(torch.__version__)",
    "jax": "import jax; jax.numpy.ones(2).block_until_ready(); print(jax.__version__)",
}
TORCH_NEEDS = """
import importlib.metadata as metadata, re
for need in metadata.requires("torch") or []:
    if "extra ==" not in need: print(need.split(";")[0].strip())
"""


class Environment:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.python = str(self.folder / "venv/bin/python")

    def command(self, *command, limit=1500):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
        except (subprocess.TimeoutExpired, OSError) as problem:
            raise Failed(str(problem)) from problem
        if done.returncode != 0:
            raise Failed(f"{' '.join(command[:6])}: {(done.stderr or done.stdout).strip()[-600:]}")
        return done.stdout.strip()

    def pip(self, *arguments):
        self.command(self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir",
                     *arguments)

    def works(self, what):
        """The version of a peer that can be imported, or nothing."""
        try:
            return self.command(self.python, "-c", CHECKS[what], limit=300).splitlines()[-1]
        except Failed:
            return None

    def make(self):
        if self.works("base"):
            return
        say(f"making a virtual environment in {self.folder / 'venv'} with numpy and h5py")
        shutil.rmtree(self.folder / "venv", ignore_errors=True)
        try:
            self.command(sys.executable, "-m", "venv", str(self.folder / "venv"))
        except Failed as failure:
            raise Failed(f"no virtual environment (Debian and Ubuntu: ./tools/setup python3-venv)\n{failure}") from None
        self.pip(*BASE)

    def install_torch(self):
        """The wheel alone, then its needs but for the 2.5 GB of GPU libraries, which stand-ins take the place of."""
        say("installing PyTorch: one wheel of about 540 MB, 1.2 GB unpacked")
        self.pip("--no-deps", TORCH)
        needs = self.command(self.python, "-c", TORCH_NEEDS).splitlines()
        self.pip(*[need for need in needs if not need.startswith(GPU_ONLY)], *BASE)
        if self.works("torch"):
            return  # a CPU wheel, or the system has what it needs
        library = next((self.folder / "venv/lib").glob("python*/site-packages/torch/lib"), None)
        if library is None:
            raise Failed("the wheel has no torch/lib")
        names = stubs.provide(library)
        say(f"PyTorch: {len(names)} stand-ins for GPU libraries that a CPU does not call")

    def install_jax(self):
        say("installing JAX: about 150 MB, 520 MB unpacked")
        self.pip(JAX, *BASE)


def install(folder, wanted):
    """(the environment's python or None, {peer: version} of what works); says what is missing and why."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with open(Path(folder) / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one installs, whoever waited finds it done
        return install_alone(Environment(folder), wanted)


def install_alone(environment, wanted):
    try:
        environment.make()
    except Failed as failure:
        say(f"annulus alone: {failure}")
        return None, {}
    versions = {"numpy, h5py": environment.works("base")}
    for peer, put_in in (("torch", environment.install_torch), ("jax", environment.install_jax)):
        if peer not in wanted:
            continue
        try:
            if not environment.works(peer):
                put_in()
            versions[peer] = environment.command(environment.python, "-c", CHECKS[peer])
        except (Failed, OSError, subprocess.CalledProcessError) as problem:
            say(f"{peer} is left out: {problem}")
    return environment.python, versions
