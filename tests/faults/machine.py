"""Clocks that jump, missing threads, and arithmetic that a caller has changed."""
import subprocess
import time
from pathlib import Path

from case import ENVIRONMENT, LONG, SHORT, Unavailable, fault, until

FAKETIME = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1")


@fault()
def clock_jumps(case):
    """An administrator changes the time of day; the monotonic clock does not change."""
    libraries = [str(path) for pattern in FAKETIME for path in Path("/").glob(pattern[1:])]
    if not libraries:
        raise Unavailable("no libfaketime here")
    case.write("run.yaml", LONG)
    words = "--set input.generate.sequence=8192"
    for jump in ("+1h", "-1h"):
        clock = case.logs / "clock"
        clock.write_text("+0")
        fake = [f"LD_PRELOAD={libraries[0]}", f"FAKETIME_TIMESTAMP_FILE={clock}", "FAKETIME_NO_CACHE=1",
                "DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"]
        run = case.start(2, f"run run.yaml {words}", inside=["env", *fake]).reaches("float32")
        run.hit()
        clock.write_text(jump)
        case.ended(run, f"the clock jumps by {jump}", "", 0, keeps=["result.h5"])
        case.is_right(words=words)
        (case.folder / "result.h5").unlink()


@fault(quick=True)
def fewer_threads(case):
    """OpenMP starts fewer threads than the run file asks for."""
    case.write("run.yaml", SHORT)
    run = case.start(0, "run run.yaml", OMP_NUM_THREADS="8", OMP_THREAD_LIMIT="2")
    case.ended(run, "OpenMP gives 2 of 8 threads", "", 0, keeps=["result.h5"])
    case.is_right()


@fault(quick=True)
def callers_arithmetic(case):
    """A caller of the library has changed rounding, denormal numbers and signals (tests/library)."""
    test = case.build / "tests" / "library" / "library_arithmetic"
    if not test.exists():
        raise Unavailable("tests/library is not built")
    begin = time.monotonic()
    done = subprocess.run([test], capture_output=True, text=True, env={**ENVIRONMENT, "OMP_NUM_THREADS": "2"}, check=False)
    assert done.returncode == 0, done.stdout
    case.add("rounding, FTZ and signals that a caller set", "the same bits, and the caller's settings as before", 0,
             time.monotonic() - begin)
