"""TERM and USR1 are sent to ranks and to launchers at any moment."""
import random
import re
import signal
import sys
import time

from case import LONG, MIDDLE, PATIENCE, SHORT, SOURCE, fault, processes
from processes import left_by_killed, remove_left

ENDS = {signal.SIGTERM: (1, "TERM", r"annulus: error: (?:rank (\d+): )?ended by signal TERM; .*"),
        signal.SIGUSR1: (75, "USR1", r"annulus: (?:rank (\d+): )?stopped on request by signal USR1; .*")}
# Exit statuses of launchers that end before they start a rank, and of srun while its steps do not handle signals yet.
LAUNCHERS = (15, 128 + signal.SIGTERM, 128 + signal.SIGUSR1, 128 + signal.SIGKILL)
# Exit status that MPI gives a rank that sends to a rank which was killed a moment before it.
LOST_PEER = 255


def moments(length, count):
    """Seconds after the start, spread over a run of this length. Each run of the suite has the same fractions."""
    drawn = random.Random(count)
    return [length * (i + drawn.random()) / count for i in range(count)]


def send(run, number, to_a_rank, drawn):
    """Sends a signal to the launcher, or to a rank if one runs already."""
    if run.is_over():
        return
    if not to_a_rank:
        run.send_launcher(number)
        return
    ranks = run.ranks()
    try:
        if ranks:
            run.send(sorted(ranks)[drawn % len(ranks)], number)
    except (KeyError, ProcessLookupError):
        pass  # it has just ended


def at_any_moment(case, number, target, start, count, ends=None):
    """Sends the signal to the target in each of `count` runs of start(WORDS), and once when the run is surely in the
    middle. Adds a row that counts how they ended. `ends` replaces ENDS[number] if the target kills the ranks."""
    status, name, saw = ends or ENDS[number]
    expected = (status, LOST_PEER) if ends else (status,)
    case.write("run.yaml", SHORT)
    case.write("long.yaml", LONG)
    first = start("run run.yaml")
    assert first.wait() == 0, first.output()
    (case.folder / "result.h5").unlink()
    counts, slowest, example = {}, 0, ""
    for drawn, after in enumerate([*moments(first.seconds, count), None]):
        deck, where = ("long.yaml", "in the middle") if after is None else ("run.yaml", f"after {after:.2f} s")
        run = start(f"run {deck}")
        if after is None:
            run.reaches(MIDDLE)
        else:
            time.sleep(after)
        send(run, number, target == "a rank", drawn)
        found, output = run.wait(PATIENCE + 300), run.output()
        where = f"{name} to {target} {where}"
        assert found in (0, *expected, *LAUNCHERS), f"{where}: status {found}: {output}"
        assert run.seconds < PATIENCE, f"{where}: it took {run.seconds:.1f} s: {output}"
        lines = re.findall(saw, output)  # a rank prints its own signal; rank 0 prints a signal to all ranks
        assert len(lines) == len(set(lines)), f"{where}: said more than once: {output}"
        assert target == "a rank" or len(lines) <= 1, f"{where}: rank 0 speaks for all: {output}"
        whole = (case.folder / "result.h5").exists()
        assert whole or found != 0, f"{where}: status 0 and no result: {output}"
        if whole:
            case.is_right(rows=4, deck=deck)
        killed = left_by_killed(case) if ends else []
        left = case.left(["run.yaml", "long.yaml", "result.h5", *killed])
        assert not left, f"{where}: left over: {', '.join(left)}; {output}"
        (case.folder / "result.h5").unlink(missing_ok=True)
        if killed:
            remove_left(case)
        counts[found] = counts.get(found, 0) + 1
        slowest = max(slowest, run.seconds)
        example = re.search(saw, output)[0] if lines else example
    assert found in expected and lines, f"{where}: status {found}, expected {expected}, and a line that says so: {output}"
    text = ", ".join(f"{times} x {found}" for found, times in sorted(counts.items()))
    case.add(f"{name} to {target}, any moment", example, text, slowest)


@fault()
def signals_to_ranks_and_mpirun(case):
    for target in ("a rank", "mpirun"):
        for number in ENDS:
            at_any_moment(case, number, target, lambda words: case.start(2, words), count=8)


@fault()
def signals_to_srun(case):
    """srun sends USR1 on to the ranks. After TERM srun kills them at once; the next run removes their unfinished
    files."""
    killed = (128 + signal.SIGKILL, "TERM", r"srun: error: n1: task 0: Killed")
    case.need("slurmctld", "munged", "srun")
    sys.path.insert(0, str(SOURCE / "tests" / "slurm"))
    from cluster import Cluster  # here, because only this fault needs Slurm
    pmi = "pmix" if "Open MPI" in case.launcher_version() or "OpenRTE" in case.launcher_version() else "pmi2"
    words = ["srun", "--quiet", "-n", "2", "--ntasks-per-node=1", f"--mpi={pmi}", "--kill-on-bad-exit=1"]
    with Cluster(case.logs / "cluster") as cluster:
        case.before = set(processes())  # Slurm's daemons are not left over
        for number in ENDS:
            at_any_moment(case, number, "srun", lambda run: case.start(0, run, before=words,
                          SLURM_CONF=f"{cluster.folder}/slurm.conf", OMPI_MCA_btl="self,vader,tcp"), count=6,
                          ends=killed if number == signal.SIGTERM else None)


@fault(quick=True)
def blocked_signals(case):
    """The process that starts the program has blocked the signals, and the program inherits that."""
    case.write("run.yaml", SHORT.replace("2048", "131072"))
    for number, (status, name, saw) in ENDS.items():
        block = {"preexec_fn": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, set(ENDS))}
        run = case.start(0, "run run.yaml", more=block).reaches("float32")
        run.send_launcher(number)
        case.ended(run, f"{name}, which the caller blocks", saw, status)
