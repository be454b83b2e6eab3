"""Ranks that are killed, stopped, slowed, starved of memory, or late."""
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

from case import LONG, MIDDLE, PATIENCE, SHORT, STALL, Unavailable, fault, until


@fault()
def killed(case):
    """By KILL, as the kernel does when memory is short: nothing can be said any more, the launcher says it."""
    case.write("run.yaml", LONG)
    for rank in (0, 1):
        run = case.start(3, "run run.yaml").reaches(MIDDLE)
        run.send(rank, signal.SIGKILL)
        case.ended(run, f"rank {rank} of 3 killed", r"exited on signal 9", 137, left_by_killed(case))
        remove_left(case)


def left_by_killed(case):
    """If the launcher also kills the other ranks, the unfinished file stays; the next run removes it."""
    return [f"result.h5.{what}" for what in ("part", "journal") if (case.folder / f"result.h5.{what}").exists()]


def remove_left(case):
    """As a user would: the next run of the same file ends well, and leaves its result alone."""
    case.do(2, "run run.yaml --set input.generate.sequence=64 --restart")
    left = case.left(["result.h5", *(path.name for path in case.folder.glob("*.yaml"))])
    assert not left, f"the next run left over: {', '.join(left)}"
    (case.folder / "result.h5").unlink()


@fault()
def stopped(case):
    case.write("run.yaml", LONG)
    for rank in (0, 1):
        run = case.start(3, "run run.yaml").reaches(MIDDLE)
        run.send(rank, signal.SIGSTOP)
        other = 1 - rank
        case.ended(run, f"rank {rank} of 3 stopped", rf"annulus: stalled: rank {other}: .* for ", 4,
                   [f"result.h5.stalled.{each}.jsonl" for each in range(3)], [f"result.h5.stalled.{other}.jsonl"])
        for file in case.folder.glob("*.jsonl"):
            file.unlink()


@fault()
def slowed(case):
    """A rank that has a fifth of a processor is late, and no stall."""
    case.write("run.yaml", LONG)
    smaller = "--set input.generate.batch=1 --set input.generate.sequence=8192"
    run = case.start(2, "run run.yaml " + smaller).reaches("float32")
    victim = run.ranks()[1]

    def slow_down():
        try:
            while not run.is_over():
                os.kill(victim, signal.SIGSTOP)
                time.sleep(0.4)
                os.kill(victim, signal.SIGCONT)
                time.sleep(0.1)
        except ProcessLookupError:
            return
    thread = threading.Thread(target=slow_down)
    thread.start()
    case.ended(run, "rank 1 of 2 runs a fifth of the time", "", 0, keeps=["result.h5"])
    thread.join()
    case.is_right(words=smaller)


class MemoryGroup:
    """Processes that together may use so many bytes, and no swap."""

    ROOT = Path("/sys/fs/cgroup/memory")

    def __init__(self, size):
        self.path = self.ROOT / f"annulus_faults_{os.getpid()}_{time.monotonic_ns()}"
        try:
            self.path.mkdir()
            for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"):
                if (self.path / name).exists():
                    (self.path / name).write_text(str(size))
        except OSError as error:
            raise Unavailable(f"no memory cgroup can be made: {error.strerror}") from None

    def __enter__(self):
        return self

    def words(self):
        """In front of a command that shall run inside."""
        return ["sh", "-c", f"echo $$ > {self.path}/cgroup.procs && exec \"$@\"", "sh"]

    def __exit__(self, *_):
        until(10, lambda: not (self.path / "cgroup.procs").read_text().split(), "the end of a cgroup's processes")
        self.path.rmdir()


@fault()
def out_of_memory(case):
    """The user promises more memory than the job has; and a job that has little, of which nothing was promised. The run
    needs 240 MiB in one pass and 190 in two, if its result is not in memory, as all other files of this suite are."""
    case.write("run.yaml", SHORT)
    large = "--set input.generate.sequence=131072 --set attention.segments=[256] --set attention.dilations=[1] "
    with tempfile.TemporaryDirectory(dir=case.build) as disk, MemoryGroup(200 << 20) as group:
        run = case.start(2, "run run.yaml " + large + "--set compute.memory_limit=4GiB", before=group.words())
        run.reaches("float32")
        case.ended(run, "the kernel kills for want of memory", r"exited on signal 9", 137, left_by_killed(case))
        remove_left(case)
        large += f"--set output.file={disk}/result.h5"
        run = case.start(2, "run run.yaml " + large, before=group.words())
        case.ended(run, "little memory, no limit named", "", 0, keeps=[f"{disk}/result.h5"])
        case.is_right(words=large)


@fault()
def late(case):
    """A peer that starts later than the others; they wait in MPI_Init."""
    case.write("run.yaml", SHORT)
    for name, seconds, timeout, saw, status, keeps in (
            (f"rank 1 starts late, {STALL} s allowed", 3 * STALL + 5, STALL, r"stalled: .*inside MPI_Init_thread", 4, []),
            ("rank 1 starts 130 s late", 130, 600, "", 0, ["result.h5"])):
        sleep = ["sh", "-c", f"[ $OMPI_COMM_WORLD_RANK = 0 ] || sleep {seconds}; exec \"$@\"", "sh"]
        run = case.start(2, "run run.yaml", inside=sleep, ANNULUS_STALL_TIMEOUT=str(timeout))
        case.ended(run, name, saw, status, keeps=keeps, within=seconds + PATIENCE)
