"""The private virtual environment that tools in Python share: $ANNULUS_CACHE/python, filled from PyPI as needed.

It has third-party packages only, so all checkouts of this repository share it. The first tool that needs a package
installs it; other tools wait meanwhile. An installed package is not requested again. packages.lock has the version and
the hash of each package; ANNULUS_PACKAGES may name another such file.
"""
import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import locked
import stubs

NUMBERS = ["numpy", "h5py"]
TORCH_WORKS = "import torch, torch.distributed as d; assert d.is_gloo_available(); print(torch.__version__)"


class Failed(Exception):
    """Something could not be installed; the text says why."""


def cache():
    """The same folder as annulus_cache in tools/lib.sh; the shell scripts export it."""
    return Path(os.environ.get("ANNULUS_CACHE") or Path.home() / ".cache/annulus")


class Environment:
    """Its methods raise Failed. It calls `say` with a line before a slow step."""

    def __init__(self, say, folder=None):
        self.folder = Path(folder or cache() / "python")
        self.python = str(self.folder / "bin/python")
        self.say = say

    @contextlib.contextmanager
    def locked(self):
        """A lock: only one process installs at a time."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with open(f"{self.folder}.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self

    def command(self, *command, limit=1500):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
        except (subprocess.TimeoutExpired, OSError) as problem:
            raise Failed(str(problem)) from problem
        if done.returncode != 0:
            raise Failed(f"{' '.join(command[:6])}: {(done.stderr or done.stdout).strip()[-600:]}")
        return done.stdout.strip()

    def pip(self, *arguments):
        """pip compiles no modules, because Python compiles those that it imports: a few hundred of PyTorch's 2000."""
        self.command(self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir",
                     "--no-compile", *arguments)

    def works(self, program):
        """Runs a short Python program in the environment; returns its last line, or None if it fails."""
        try:
            return self.command(self.python, "-c", program, limit=300).splitlines()[-1]
        except Failed:
            return None

    def make(self):
        """Makes an empty environment, unless there is one that works."""
        if self.works("print('yes')"):
            return
        self.say(f"making a virtual environment in {self.folder}")
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.command(sys.executable, "-m", "venv", str(self.folder))
        except Failed as failure:
            raise Failed(f"no virtual environment (Debian and Ubuntu: ./tools/setup python3-venv)\n{failure}") from None

    def install(self, *names):
        """Installs what locked.needed() lists for these names, except what is installed already."""
        self.make()
        done = self.folder / "annulus-packages.txt"
        before = set(done.read_text(encoding="utf-8").splitlines()) if done.exists() else set()
        entries = locked.needed(*names)
        missing = [entry for entry in entries if f"{entry.name}=={entry.version}" not in before]
        own = os.environ.get("ANNULUS_PACKAGES")
        if own:
            self.say(f"versions are those of {own} (ANNULUS_PACKAGES); hashes are compared where it has some")
            self.pip("--no-deps", "-r", own)
        elif missing:
            if sys.version_info < (3, 11):
                raise Failed(f"this is Python {sys.version.split()[0]}, expected 3.11 or newer; or a file with versions "
                             "for this one, named by ANNULUS_PACKAGES")
            self.say(f"installing {', '.join(names)}: {len(missing)} packages")
            with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
                file.write("".join(entry.text for entry in missing))
                file.flush()
                self.pip("--no-deps", "--require-hashes", "-r", file.name)
            replaced = {entry.name for entry in missing}
            now = {line for line in before if line.split("==")[0] not in replaced}
            now |= {f"{entry.name}=={entry.version}" for entry in missing}
            if "torch" in replaced:
                (self.folder / "annulus-torch.txt").unlink(missing_ok=True)  # its stand-ins are gone, too
            done.write_text("\n".join(sorted(now)) + "\n", encoding="utf-8")

    def install_torch(self):
        """Installs PyTorch for CPUs; returns its version. Stand-ins replace the 2.5 GB of GPU libraries that its wheel
        needs."""
        self.install(*NUMBERS, "torch")
        done = self.folder / "annulus-torch.txt"  # notes that PyTorch works: to test that takes seconds
        if not done.exists():
            done.write_text(self._make_torch_work(), encoding="utf-8")
        return done.read_text(encoding="utf-8")

    def _make_torch_work(self):
        version = self.works(TORCH_WORKS)
        if version:
            return version  # a CPU wheel, or the system has the libraries
        library = next((self.folder / "lib").glob("python*/site-packages/torch/lib"), None)
        if library is None:
            raise Failed("the wheel has no torch/lib")
        names = stubs.provide(library)
        self.say(f"PyTorch: {len(names)} stand-ins for GPU libraries that a CPU does not call")
        return self.command(self.python, "-c", TORCH_WORKS)
