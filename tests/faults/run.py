#!/usr/bin/env python3
"""Makes real faults happen to the program and prints a table of their effects.

    run.py --build FOLDER [--page FILE | [--quick] [NAME...]]  FOLDER: a CMake build with tests
                                                               NAME: a fault, or a file of this folder without its .py
                                                               --quick: only the faults that take seconds
                                                               --page: also writes FILE, a page with the table, if
                                                               everything was as expected

The table has for each fault: what the user saw, the exit status, the seconds from the fault to the end of all
processes, and what was left over (processes, shared memory, files). Exit status 0 if everything was as expected.

Everything runs in new namespaces for processes, mounts and shared memory (Linux, with root or user namespaces). So what
is left over can be counted, and the kernel removes it at the end. If a tool is missing (nft, libfaketime, Slurm,
cgroups), the table says so for the fault that needs it.
"""
import argparse
import datetime
import importlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from case import FAULTS, STALL, Case, Row, Unavailable

HERE = Path(__file__).resolve().parent
FILES = ("processes", "signals", "disks", "files", "bits", "hosts", "machine")
INSIDE = "ANNULUS_FAULTS_INSIDE"  # set only inside the namespaces, to the path of the scratch folder
PAGE = """\
# What happens when something breaks

`tests/faults/run.py` kills, stops and starves the program, fills its disk, cuts its network and flips bits in its
files. After each fault it checks that no finished work is lost, that no incomplete file has the final name, that no
process, shared memory or temporary file is left, that the run ended at most a minute after the stall time-out, and that
it printed its message once. If one of these is not so, it fails. `./tools/test` tries the faults that take seconds,
`./tools/test --full` all of them.

The last run of all faults printed this table, with commit {commit} on {date} ({machine}).
The stall time-out was {stall} seconds unless the table names another. The column `s` has the seconds from the fault to
the end of all processes.

{table}
{notes}"""


def in_namespaces(scratch):
    """Runs this script again in new namespaces, which have a /proc, a /dev/shm and a scratch folder of their own. The
    scratch folder is in memory, where fsync is fast."""
    prepare = f"mount -t tmpfs none /dev/shm && mount -t tmpfs -o mode=755 none {scratch} && exec \"$@\""
    user = [] if os.getuid() == 0 else ["--map-root-user"]
    words = ["unshare", *user, "--mount", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child",
             "sh", "-c", prepare, "sh", sys.executable, "-B", *sys.argv]
    child = subprocess.Popen(words, env={**os.environ, INSIDE: str(scratch)})
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: child.kill())  # the kernel ends the processes inside
    return child.wait()


def rows_of(fault, build, scratch):
    """Runs one fault and returns its rows of the table. If something was wrong, the last row says what."""
    case = Case(fault.name, build, scratch)
    try:
        fault.function(case)
    except Unavailable as error:
        case.rows.append(Row(fault.name, f"not tried: {error}", "", "", ""))
    except Exception as error:  # noqa: the other faults must run, too
        if not isinstance(error, AssertionError):
            traceback.print_exc(file=sys.stdout)
        case.rows.append(Row(fault.name, f"WRONG: {error}", "", "", "", good=False))
    finally:
        case.end()
    return case.rows


def chosen(names, quick):
    for module in FILES:
        importlib.import_module(module)
    known = {word for fault in FAULTS for word in (fault.name, fault.module)}
    for name in names:
        if name not in known:
            sys.exit(f"run.py: there is no fault {name}; there are: {', '.join(fault.name for fault in FAULTS)}")
    return [fault for fault in FAULTS
            if (not names or fault.name in names or fault.module in names) and (fault.quick or not quick)]


def page_text(table, build):
    commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    version = re.search(r"^ANNULUS_LAUNCHER:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    launcher = Case("page", build, Path("/")).launcher_version() if version is None else version[1]
    notes = (HERE / "notes.md").read_text()
    return PAGE.format(commit=commit.stdout.strip(), date=datetime.date.today().isoformat(), table=table, notes=notes,
                       machine=f"{os.cpu_count()} cores, {launcher}", stall=STALL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", type=Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    if given.page and (given.names or given.quick):
        parser.error("--page is for the table of all faults: it cannot be combined with NAME or --quick")
    faults = chosen(given.names, given.quick)
    if INSIDE not in os.environ:
        with tempfile.TemporaryDirectory(prefix="annulus-faults-") as scratch:
            return in_namespaces(scratch)
    lines = [*Row.HEADING]
    print("\n".join(lines), flush=True)
    begin, good = time.monotonic(), True
    for fault in faults:
        for row in rows_of(fault, given.build.resolve(), Path(os.environ[INSIDE])):
            lines.append(row.line())
            print(lines[-1] if row.good else f"{lines[-1]}\n{row.saw}", flush=True)
            good = good and row.good
    print(f"{len(lines) - 2} rows, {sum('not tried' in line for line in lines)} of them not tried, "
          f"{time.monotonic() - begin:.0f} s: {'all as expected' if good else 'WRONG'}")
    if given.page and not good:
        print(f"{given.page} is not written, because something was WRONG")
    elif given.page:
        given.page.write_text(page_text("\n".join(lines), given.build))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
