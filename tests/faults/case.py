"""What the faults of this folder share: launches, their ranks, what they leave behind, and the rows of the table."""
import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "support"))
from waiting import until  # noqa: faults import it from here

CROWD = max(1.0, os.getloadavg()[0] / os.cpu_count())  # processes per core
STALL = round(3 * max(1.0, CROWD / 2))  # s; distribution.stall_timeout of the run files below
# Seconds that may pass from a fault to the end of all ranks: the stall time-out, which is longer on a busy machine
# already, and 60 s for reports, because the machine may become busy after CROWD was read; more if it is busy already.
PATIENCE = STALL + 60 * CROWD
# Takes some seconds on one core, so a fault can come in the middle; progress on stderr shows when.
LONG = """\
input: {generate: {sequence: 16384, heads: 8, batch: 4}}
attention: {causal: false}
distribution: {strategy: ring_blocking, stall_timeout: STALL}
output: {file: result.h5}
"""
SHORT = """\
input: {generate: {sequence: 2048, heads: 4, kv_heads: 2, head_dim: 32}}
attention: {segments: [256, all], dilations: [1, 4]}
compute: {reproducible: true}
distribution: {strategy: ring, stall_timeout: STALL}
output: {file: result.h5}
"""
# A run in units: finished units stay when the run is killed.
UNITS = """\
input: {generate: {sequence: 2001, heads: 8, kv_heads: 4, head_dim: 32, batch: 2}}
attention: {segments: [512, all], dilations: [1, 2]}
compute: {reproducible: true, memory_limit: 2MiB}
distribution: {strategy: ring, stall_timeout: STALL}
output: {file: result.h5}
"""
LAYER = """\
input: {file: layer.h5}
attention: {segments: [64, all], dilations: [1, 4]}
distribution: {strategy: ring, stall_timeout: STALL}
layer: {heads: 4, kv_heads: 2}
train: {steps: 40, rate: 1, checkpoint: checkpoint.h5, save_every: 10}
output: {file: result.h5}
"""
LAYER_INPUT = "generate --output layer.h5 --layer 64 --sequence 512 --heads 4 --kv-heads 2 --head-dim 16 --dtype float64"
# The variables that the C++ tests have (tests/CMakeLists.txt).
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_hwloc_base_binding_policy": "none", "OMP_PROC_BIND": "false",
    "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader", "OMPI_MCA_orte_allowed_exit_without_sync": "1",
    "OMP_NUM_THREADS": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
MIDDLE = " %  "  # progress on stderr: the ranks are in the middle of the attention
FAULTS = []


class Unavailable(Exception):
    """This machine lacks what the fault needs; the text says what."""


@dataclasses.dataclass
class Fault:
    name: str
    module: str
    function: object
    quick: bool


def fault(quick=False):
    """Registers a function of a Case as the fault with the function's name."""
    def add(function):
        FAULTS.append(Fault(function.__name__, function.__module__, function, quick))
        return function
    return add


@dataclasses.dataclass
class Row:
    fault: str
    saw: str
    status: str
    seconds: str
    left: str
    good: bool = True

    HEADING = ("| fault | what the user saw | status | s | left over |", "|---|---|---|---|---|")

    def line(self):
        """A row of the table, at most 120 columns, because a page of docs/ has it."""
        rest = len(f"| {self.fault} |  | {self.status} | {self.seconds} | {self.left} |")
        saw = self.saw.replace("\n", " ").replace("|", "/")
        saw = saw if len(saw) <= 120 - rest else saw[: 117 - rest] + "..."
        return f"| {self.fault} | {saw} | {self.status} | {self.seconds} | {self.left} |"


def stat_of(pid):
    """[state, parent, ...] of a process; None if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def processes():
    """{pid: command} of all processes that run in this namespace."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat_of(entry.name) or "Z")[0] not in "ZX":
            try:
                found[int(entry.name)] = (entry / "comm").read_text().strip()
            except OSError:  # ended meanwhile
                continue
    return found


def units_done(journal):
    """How many units of a run its journal calls finished; -1 without a journal, which the end of the run removes."""
    try:
        return journal.read_bytes().count(b" done ")
    except FileNotFoundError:
        return -1


def is_laid_out(journal):
    """True if the file of the result has its room on the disk: only then the journal has a line `owner`."""
    try:
        return b" owner " in journal.read_bytes()
    except FileNotFoundError:
        return False


def shared_memory():
    """Files of /dev/shm, and System V's segments. All are ours, because the namespaces are."""
    segments = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return [f"/dev/shm/{path.name}" for path in Path("/dev/shm").iterdir()] + [f"segment {s.split()[1]}" for s in segments]


class Run:
    """A launch in the background; its output goes to files beside the folder in which it runs."""

    def __init__(self, words, folder, logs, environment, **more):
        self.paths = [logs / name for name in ("out.txt", "err.txt")]
        with open(self.paths[0], "wb") as out, open(self.paths[1], "wb") as err:
            self.process = subprocess.Popen(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=err, start_new_session=True, **more)
        self.begin = self.hit_at = time.monotonic()
        self.seconds = None

    def out(self):
        return self.paths[0].read_text(errors="replace")

    def err(self):
        return self.paths[1].read_text(errors="replace")

    def output(self):
        return self.out() + self.err()

    def hit(self):
        """Notes the time of the fault: now."""
        self.hit_at = time.monotonic()

    def is_over(self):
        return self.process.poll() is not None

    def reaches(self, what):
        """While the launch runs, waits for words on stderr, or until a function returns true."""
        holds = what if callable(what) else lambda: what in self.err()
        until(120, lambda: holds() or self.is_over(), lambda: f"{what}\n{self.output()}")
        assert not self.is_over(), f"it ended before {what}: {self.output()}"
        return self

    def ranks(self):
        """{rank: pid}: the ranks are the processes of our program that know their number."""
        found = {}
        for pid, name in processes().items():
            if name != "annulus":
                continue
            try:
                text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
            except OSError:  # ended meanwhile
                continue
            rank = re.search(r"(?:^|\0)(?:OMPI_COMM_WORLD_RANK|PMI_RANK|SLURM_PROCID)=(\d+)", text)
            found[int(rank[1]) if rank else 0] = pid
        return found

    def send(self, rank, number):
        self.hit()
        os.kill(self.ranks()[rank], number)

    def send_launcher(self, number):
        self.hit()
        self.process.send_signal(number)

    def wait(self, seconds=300):
        """Waits for the end and returns the exit status: 128 + signal if the launch was killed."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it has not ended {seconds} s later: {self.output()}") from None
        if self.seconds is None:  # set by the first call only: a later call would count the time of other runs, too
            self.seconds = time.monotonic() - self.hit_at
        return status if status >= 0 else 128 - status


class Case:
    """One fault: its own folder, and its rows of the table."""

    def __init__(self, name, build, scratch):
        self.name, self.build, self.scratch, self.rows = name, build, scratch, []
        self.program = build / "annulus"
        entry = re.search(r"^MPIEXEC_EXECUTABLE:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
        self.launcher = entry[1]
        self.mounts = []
        if scratch == Path("/"):
            return
        self.logs = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=scratch))
        self.folder, self.temporary = self.logs / "work", self.logs / "tmp"
        self.logs.chmod(0o755)  # munged requires that every user can reach its socket
        self.folder.mkdir()
        self.temporary.mkdir()
        self.before = set(processes())

    def launcher_version(self):
        text = subprocess.run([self.launcher, "--version"], capture_output=True, text=True, check=False).stdout
        return text.splitlines()[0]

    def end(self):
        for pid in set(processes()) - self.before:  # left by a fault that failed
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for mount in self.mounts:
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self.logs, ignore_errors=True)
        for path in Path("/dev/shm").iterdir():
            path.unlink()

    # ---- what a fault needs ----
    def library(self, name):
        return str(self.build / "tests" / "end_to_end" / f"lib{name}.so")

    def need(self, *tools):
        for tool in tools:
            if shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
                raise Unavailable(f"no {tool} here")

    def write(self, name, text):
        """Writes a run file, and adds the stall time-out."""
        (self.folder / name).write_text(text.replace("STALL", str(STALL)))

    def mount(self, path, options):
        """Mounts a tmpfs as a small disk."""
        path.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", path], check=True)
        self.mounts.append(path)

    def unmount(self, path):
        subprocess.run(["umount", path], check=True)
        self.mounts.remove(path)

    # ---- launches ----
    def launch(self, ranks):
        return [self.launcher, "-n", str(ranks), "--map-by", ":OVERSUBSCRIBE"] if ranks > 0 else []

    def start(self, ranks, words, before=(), inside=(), more=None, **variables):
        """Starts `before mpirun -n RANKS inside annulus WORDS`; without mpirun if ranks is 0. `more` is for
        subprocess.Popen."""
        environment = {**os.environ, **ENVIRONMENT, "TMPDIR": str(self.temporary), **variables}
        words = words.split() if isinstance(words, str) else words
        logs = Path(tempfile.mkdtemp(prefix="log-", dir=self.logs))
        return Run([*before, *self.launch(ranks), *inside, self.program, *words], self.folder, logs, environment,
                   **(more or {}))

    def do(self, ranks, words, **more):
        """Runs a launch that must succeed, and returns what it printed."""
        run = self.start(ranks, words, **more)
        status = run.wait()
        assert status == 0, f"{words} returned {status}: {run.output()}"
        return run.output()

    # ---- what a launch did ----
    def left(self, files):
        """Processes, shared memory and files that are left, except these files in the folder; [] if none are."""
        def left_over():
            ours = [f"{name} ({pid})" for pid, name in processes().items() if pid not in self.before]
            there = [path.name for path in self.folder.iterdir()] if self.folder.exists() else []
            # Without a launcher, Open MPI starts a helper process, which leaves empty folders in TMPDIR.
            temporary = [f"{path.relative_to(self.logs)}" for path in self.temporary.rglob("*") if not path.is_dir()]
            return [*ours, *shared_memory(), *temporary,
                    *sorted(name for name in there if name not in files)]
        end = time.monotonic() + 30  # some may be just ending
        while left_over() and time.monotonic() < end:
            time.sleep(0.01)
        return left_over()

    def ended(self, run, what, saw, status, files=(), keeps=(), within=PATIENCE):
        """Raises AssertionError unless the run ends as given. Adds the row `what` to the table.

        saw     a regular expression that exactly one line of stdout and stderr matches; "": no such line is expected
        status  the expected exit status, or several possible ones
        files   names of files that may be in the folder afterwards, besides run files
        keeps   names of files that must be there
        """
        statuses = (status,) if isinstance(status, int) else tuple(status)
        found, output = run.wait(within + 600), run.output()
        lines = [line for line in output.splitlines() if re.search(saw, line)] if saw else []
        assert found in statuses, f"{what}: status {found}, expected {statuses}: {output}"
        assert not saw or len(lines) == 1, f"{what}: {len(lines)} lines like {saw!r}, expected one: {output}"
        # A run that succeeds may take any time.
        assert found == 0 or run.seconds <= within, f"{what}: {run.seconds:.1f} s, at most {within:.0f}: {output}"
        for name in keeps:
            assert (self.folder / name).exists(), f"{what}: {name} is lost: {output}"
        decks = [path.name for path in self.folder.glob("*.yaml")] if self.folder.exists() else []
        left = self.left({*decks, *files, *keeps})
        assert not left, f"{what}: left over: {', '.join(left)}; {output}"
        self.add(what, lines[0] if lines else "the result", found, run.seconds)

    def add(self, what, saw, status, seconds, left="nothing"):
        saw = saw.replace(str(self.folder) + "/", "").replace(str(self.logs), "...").replace("annulus: ", "")
        self.rows.append(Row(what, saw.strip(), str(status), f"{seconds:.1f}", left))

    def is_right(self, rows=64, deck="run.yaml", words=""):
        self.do(0, f"verify {deck} --rows {rows} {words}")

    def bits(self, file="result.h5"):
        """The result's tensors as text, without times."""
        text = subprocess.run(["h5dump", "-d", "/out", "-d", "/lse", "-m", "%a", self.folder / file],
                              capture_output=True, text=True, check=True).stdout
        return text.split("\n", 1)[1]  # without the file's name
