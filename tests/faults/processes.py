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
    """KILL, which the kernel sends when memory is short: the rank can print nothing, so the launcher reports it."""
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
    """Runs the same file again, as a user would: it succeeds, and only its result is left."""
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
    """A rank that gets a fifth of a processor is late; that is no stall."""
    case.write("run.yaml", LONG)
    smaller = "--set input.generate.batch=1"  # at full speed it takes fast cores two seconds: time to slow rank 1 down
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
    """A group of processes that together may use `size` bytes of memory, and no swap."""

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
        """The words in front of a command that must run in the group."""
        return ["sh", "-c", f"echo $$ > {self.path}/cgroup.procs && exec \"$@\"", "sh"]

    def __exit__(self, *_):
        until(10, lambda: not (self.path / "cgroup.procs").read_text().split(), "the end of a cgroup's processes")
        self.path.rmdir()


@fault()
def out_of_memory(case):
    """In the first run compute.memory_limit is higher than the job's memory; the second run has no such limit. The run
    needs 240 MiB as a whole and 190 MiB in two units, if its result is on disk: other files here are in memory."""
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
    """One rank starts later than the others, which wait in MPI_Init."""
    case.write("run.yaml", SHORT)
    for name, seconds, timeout, saw, status, keeps in (
            (f"rank 1 starts late, {STALL} s allowed", 3 * STALL + 5, STALL, r"stalled: .*inside MPI_Init_thread", 4, []),
            ("rank 1 starts 130 s late", 130, 600, "", 0, ["result.h5"])):
        sleep = ["sh", "-c", f"[ $OMPI_COMM_WORLD_RANK = 0 ] || sleep {seconds}; exec \"$@\"", "sh"]
        run = case.start(2, "run run.yaml", inside=sleep, ANNULUS_STALL_TIMEOUT=str(timeout))
        case.ended(run, name, saw, status, keeps=keeps, within=seconds + PATIENCE)
