"""Files that change, vanish or cannot be written (read-only, over quota, no TMPDIR); and several runs on one output."""
import os
import re
import shutil

from case import SHORT, UNITS, fault, units_done

# UNITS ends within half a second: on a busy machine a fault in its middle would come too late.
LONGER = UNITS.replace("2001", "32001").replace("2MiB", "28MiB").replace("[1, 2]", "[1, 1]")
FROM_FILE = re.sub(r"{generate: .*}}", "{file: in.h5}", LONGER)
INPUT = "generate --output in.h5 --sequence 32001 --heads 8 --kv-heads 4 --head-dim 32 --batch 2"


def begin(case, words="run run.yaml"):
    """Starts a run in units; returns when some units are finished."""
    run = case.start(2, words)
    return run.reaches(lambda: units_done(case.folder / "result.h5.journal") > 0)


def truncate(path):
    os.truncate(path, path.stat().st_size // 3)


def replace(path):
    shutil.copy(path, path.with_suffix(".new"))
    path.with_suffix(".new").rename(path)


def change(path):
    """Changes some numbers of k in place."""
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(bytes(64))


@fault(quick=True)
def input_changed(case):
    """No result mixes what was computed from the old input with the new input."""
    case.write("run.yaml", FROM_FILE)
    for name, how, saw in (("truncated", truncate, r"annulus: error: .*in.h5"),
                           ("replaced", replace, r"annulus: error: .*in.h5.*inode"),
                           ("changed in place", change, r"annulus: error: .*in.h5.*modified")):
        case.do(1, INPUT)
        run = begin(case)
        run.hit()
        how(case.folder / "in.h5")
        unfinished = ["result.h5.part", "result.h5.journal"]
        case.ended(run, f"input {name} while it is read", saw, 1, ["in.h5", *unfinished])
        run = case.start(2, "run run.yaml")
        case.ended(run, f"... and the next run, input {name}", r"annulus: error: ", 1, ["in.h5", *unfinished])
        for file in ["in.h5", *unfinished]:
            (case.folder / file).unlink(missing_ok=True)


@fault(quick=True)
def folder_removed(case):
    """Someone removes the folder with everything in it (rm -rf)."""
    case.write("run.yaml", LONGER)
    run = begin(case)
    run.hit()
    shutil.rmtree(case.folder)
    case.ended(run, "the folder of the result is removed", r"annulus: error: ", 1)
    assert not case.folder.exists(), "the folder is there again"


@fault()
def read_only(case):
    """A file system that is read-only from the start."""
    case.write("run.yaml", SHORT)
    disk = case.folder / "disk"
    case.mount(disk, "size=8m,ro")
    run = case.start(2, "run run.yaml --set output.file=disk/result.h5")
    case.ended(run, "a read-only file system", r"annulus: error: .*Read-only file system", 1, ["disk"])
    case.unmount(disk)


@fault()
def over_quota(case):
    """From a chosen write on, the quota is reached (recorder.cpp); once there is room, the same command continues."""
    case.write("run.yaml", UNITS)
    case.do(2, "run run.yaml")
    expected = case.bits()
    (case.folder / "result.h5").unlink()
    for write in (1, 4, 12, 24):
        quota = [f"LD_PRELOAD={case.library('recorder')}", f"RECORD_QUOTA={write}"]
        run = case.start(2, "run run.yaml", inside=["env", *quota])
        case.ended(run, f"over quota from write {write} on", r"Disk quota exceeded", 1,
                   ["result.h5.part", "result.h5.journal"])
        case.do(3, "run run.yaml")
        assert case.bits() == expected, "other bits"
        (case.folder / "result.h5").unlink()


@fault(quick=True)
def two_runs(case):
    """Runs that start together with the same output: one makes it, the others end with an error."""
    case.write("run.yaml", SHORT.replace("2048", "32768"))
    runs = [case.start(2, "run run.yaml") for _ in range(3)]
    for run in runs:
        run.status = run.wait()
    assert sorted(run.status for run in runs) == [0, 1, 1], [run.output() for run in runs]
    refused = [run for run in runs if run.status == 1]
    for run in refused:
        case.ended(run, "two runs more on one output", r"another run makes this output already|exists already", 1,
                   keeps=["result.h5"], within=300)  # the time of the run that made it counts, too
    case.is_right()


@fault()
def no_temporary_folder(case):
    """TMPDIR cannot be written; MPI keeps its own files there."""
    case.write("run.yaml", SHORT)
    for ranks in (0, 2):
        run = case.start(ranks, "run run.yaml", TMPDIR="/proc/no/such/folder")
        if run.wait() == 0:
            case.ended(run, f"TMPDIR cannot be written, {ranks or 1} ranks", "", 0, keeps=["result.h5"])
            (case.folder / "result.h5").unlink()
        else:  # Open MPI's launcher prints a page about it
            found = r"(?i)session director|TMPDIR|orte_init|opal_init"
            saw = next(line for line in run.output().splitlines() if re.search(found, line))
            assert not (case.folder / "result.h5").exists()
            case.add(f"TMPDIR cannot be written, {ranks or 1} ranks", saw, run.process.returncode, run.seconds)
