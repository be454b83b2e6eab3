"""Disks that are full from the start, or fill up during a run."""
import random
import shutil

from case import SHORT, UNITS, fault, is_laid_out, units_done, until

FULL = r"annulus: error: .*(No space left on device|the file system has \d+ free)"


def fill(path):
    """Leaves no byte free."""
    try:
        with open(path, "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
    except OSError:
        return


@fault(quick=True)
def disk_full(case):
    """A disk that is too small from the start: the run says so before it computes anything. It needs 1.3 MiB."""
    case.write("run.yaml", SHORT)
    disk = case.folder / "disk"
    words = "run run.yaml --set output.file=disk/result.h5 --set output.report=disk/report.json"
    for size in ("64k", "1m"):
        case.mount(disk, f"size={size}")
        case.ended(case.start(2, words), f"a disk of {size}B", FULL, 1, ["disk"])
        assert not list(disk.iterdir()), f"left on the disk: {list(disk.iterdir())}"
        case.unmount(disk)


@fault()
def disk_fills(case):
    """Other processes fill the disk at some moment of a run in units. Once there is room, the same command
    continues."""
    case.write("run.yaml", UNITS)
    case.do(2, "run run.yaml")
    expected = case.bits()
    (case.folder / "result.h5").unlink()
    disk, words = case.folder / "disk", "run run.yaml --set output.file=disk/result.h5"
    drawn, ends = random.Random(1), {}
    for done in (0, 1, 3, 6):  # units
        case.mount(disk, "size=64m")
        journal = disk / "result.h5.journal"
        run = case.start(2, words)
        until(120, lambda: run.is_over() or (is_laid_out(journal) and units_done(journal) >= done),
              lambda: f"{done} units\n{run.output()}")
        fill(disk / "others")
        run.hit()
        status, output = run.wait(), run.output()
        assert status in (0, 1), output
        if status == 1:
            lines = [line for line in output.splitlines() if "No space left on device" in line]
            assert len(lines) == 1, output
            assert not (disk / "result.h5").exists(), output
            (disk / "others").unlink()
            saw = lines[0]
            case.do(3, words)
        ends[status] = ends.get(status, 0) + 1
        shutil.move(disk / "result.h5", case.folder / "result.h5")
        assert case.bits() == expected, "other bits"
        (case.folder / "result.h5").unlink()
        case.unmount(disk)
    assert 1 in ends, "it never was full in the middle"
    counts = ", ".join(f"{times} x {found}" for found, times in sorted(ends.items()))
    case.add("the disk fills up in the middle", saw, counts, run.seconds)
