"""Starts the program, and ends it at a random moment."""
import os
import signal
import subprocess
import time

FOR_ONE_MACHINE = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_pml": "ob1", "OMP_PROC_BIND": "false",
    "OMPI_MCA_orte_allowed_exit_without_sync": "1", "OMP_WAIT_POLICY": "passive",
}
LIMIT = 600  # s; a launch that takes longer hangs


class Ended:
    """Exit status (below 0: a signal), what was printed, and whether we ended it."""

    def __init__(self, status, text, was_killed=False):
        self.status, self.text, self.was_killed = status, text, was_killed

    @property
    def error(self):
        lines = [line for line in self.text.splitlines() if "annulus: error: " in line]
        return lines[0].split("annulus: error: ")[1] if lines else ""


class Launcher:
    def __init__(self, program, launcher, folder):
        self.program, self.launcher, self.folder = program, launcher, folder
        self.hung_launchers = 0

    def start(self, words, ranks=1, threads=1):
        launch = [] if ranks == 1 else [*self.launcher, "-n", str(ranks)]
        with open(self.folder / "printed", "wb") as printed:
            return subprocess.Popen([*launch, self.program, *words], cwd=self.folder, stdout=printed, stderr=printed,
                                    env=os.environ | FOR_ONE_MACHINE | {"OMP_NUM_THREADS": str(threads)},
                                    start_new_session=True)

    def _ended(self, process, was_killed=False):
        text = (self.folder / "printed").read_text(encoding="utf-8", errors="replace")
        return Ended(process.returncode, text, was_killed)

    def run(self, *words, ranks=1, threads=1):
        process = self.start(words, ranks, threads)
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            end_all(process, signal.SIGKILL)
            return Ended(-signal.SIGALRM, f"no end within {LIMIT} s")
        return self._ended(process)

    def _ends(self, process):
        """Waits for the end of a launch that was killed; returns False if the launch does not end. When its ranks have
        ended, an mpirun of Open MPI 4.1 may hang; this function then kills it, and does not count it as a fault."""
        end, alone = time.monotonic() + LIMIT, 0
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
            alone = alone + 1 if members(process) == [process.pid] else 0
            if alone > 1200:  # a minute
                self.hung_launchers += 1
                process.kill()
                process.wait()
        return process.poll() is not None

    def run_and_kill(self, random, *words, ranks=1, threads=1):
        """Runs the program, and ends it by SIGKILL (sometimes SIGTERM) at a random moment if it still runs."""
        process = self.start(words, ranks, threads)
        journal = self.folder / "out.h5.journal"
        if random.integers(2):  # otherwise the end may come before there is a file
            while process.poll() is None and not journal.exists():
                time.sleep(0.005)
        end = time.monotonic() + random.exponential(0.3)
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        was_killed = process.poll() is None
        kind = signal.SIGKILL if random.integers(4) else signal.SIGTERM
        if was_killed:
            end_one(process, random) if kind == signal.SIGKILL and random.integers(2) else end_all(process, kind)
        if not self._ends(process):
            end_all(process, signal.SIGKILL)
            return Ended(-signal.SIGALRM, f"no end within {LIMIT} s of being ended by {kind.name}")
        for _ in range(600):  # ranks whose launcher was killed see it a little later
            if not members(process):
                break
            time.sleep(0.05)
        end_all(process, signal.SIGKILL)
        return self._ended(process, was_killed)


def members(process):
    """Processes of the launch's session that still run."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii") as file:
                fields = file.read().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if name.isdigit() and int(fields[3]) == process.pid and fields[0] != "Z":
            found.append(int(name))
    return found


def end_all(process, kind):
    for one in members(process):
        try:
            os.kill(one, kind)
        except ProcessLookupError:
            pass


def end_one(process, random):
    """Ends one process of the launch: a rank, or the launcher."""
    found = members(process)
    if found:
        try:
            os.kill(found[random.integers(len(found))], signal.SIGKILL)
        except ProcessLookupError:
            pass
