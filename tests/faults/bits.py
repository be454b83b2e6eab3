"""Bits that flip in stored files: in files from which a run or a training continues, and in a result."""
import re
import signal
import subprocess

from case import LAYER, LAYER_INPUT, UNITS, fault, units_done, until

UNFINISHED = ["result.h5.part", "result.h5.journal"]


def flip(path, byte, bit=6):
    """Flips one bit. Bit 6 in the last byte of a little-endian float is a bit of the exponent."""
    with open(path, "r+b") as file:
        file.seek(byte)
        old = file.read(1)[0]
        file.seek(byte)
        file.write(bytes([old ^ 1 << bit]))


def byte_offset(path, dataset):
    """Where the numbers of a dataset begin in its file."""
    text = subprocess.run(["h5dump", "-p", "-H", "-d", dataset, path], capture_output=True, text=True, check=True)
    return int(re.search(r"OFFSET (\d+)", text.stdout)[1])


def interrupted(case):
    """Starts a run in units, kills it after some units are finished, and returns its journal."""
    journal = case.folder / "result.h5.journal"
    for _ in range(20):  # a busy machine may kill it too late
        run = case.start(2, "run run.yaml")
        until(120, lambda: run.is_over() or units_done(journal) >= 2, run.output)
        try:
            run.send(0, signal.SIGKILL)
        except (KeyError, ProcessLookupError):
            pass  # it has just ended
        run.wait()
        if journal.exists():
            return journal
        (case.folder / "result.h5").unlink()
    raise AssertionError("it was never killed in the middle")


@fault()
def flipped_in_journal(case):
    """If the first line is damaged, the run is refused. Another damaged line is ignored: a unit without its line `done`
    is computed again, and all units without the line `part`."""
    case.write("run.yaml", UNITS)
    case.do(2, "run run.yaml")
    expected = case.bits()
    (case.folder / "result.h5").unlink()
    journal = interrupted(case)
    flip(journal, 50, 0)
    run = case.start(2, "run run.yaml")
    case.ended(run, "a bit of the journal's first line", r"annulus: error: .*journal: is damaged", 1, keeps=UNFINISHED)
    flip(journal, 50, 0)
    for word in ("making", "part", "owner", "claim", "check", "done"):
        flip(journal, re.search(rf"^\w{{8}} {word}\b".encode(), journal.read_bytes(), re.MULTILINE).end() - 1, 0)
        finished = units_done(journal)  # one less if the bit is in a line `done`
        run = case.start(2, "run run.yaml")
        saw = "" if word == "part" else rf"annulus: going on: {finished} of \d+ units are finished"
        case.ended(run, f"a bit of its line '{word}'", saw, 0, keeps=["result.h5"])
        assert ("going on" in run.output()) == (word != "part"), f"{word}: {run.output()}"
        assert case.bits() == expected, f"{word}: other bits"
        (case.folder / "result.h5").unlink()
        if word != "done":
            interrupted(case)


@fault()
def flipped_in_part_file(case):
    """The run that continues warns, and computes the unit again."""
    case.write("run.yaml", UNITS)
    case.do(2, "run run.yaml")
    expected = case.bits()
    (case.folder / "result.h5").unlink()
    interrupted(case)
    part = case.folder / "result.h5.part"
    first = re.search(rb'"out":(\d+)', (case.folder / "result.h5.journal").read_bytes())
    flip(part, int(first[1]) + 4 * 32 + 3)  # head 1 is not yet written: only head 0 is noticed
    flip(part, int(first[1]) + 3)
    run = case.start(2, "run run.yaml")
    case.ended(run, "a bit of a finished unit in the part file", r"annulus: warning: .*part: out of unit 0 changed on disk", 0,
               keeps=["result.h5"])
    assert case.bits() == expected, "other bits"


@fault(quick=True)
def flipped_in_checkpoint(case):
    case.write("run.yaml", LAYER)
    case.do(0, LAYER_INPUT)
    case.do(2, "train run.yaml --set train.steps=10")
    (case.folder / "result.h5").unlink()
    checkpoint = case.folder / "checkpoint.h5"
    whole = checkpoint.read_bytes()
    for dataset in ("/wq", "/loss"):
        checkpoint.write_bytes(whole)
        flip(checkpoint, byte_offset(checkpoint, dataset) + 7, 2)
        run = case.start(2, "train run.yaml")
        case.ended(run, f"a bit of {dataset} in a checkpoint", r"annulus: error: .*checkpoint.h5", 1,
                   keeps=["layer.h5", "checkpoint.h5"])
    checkpoint.write_bytes(whole)
    case.do(2, "train run.yaml")


@fault(quick=True)
def flipped_in_result(case):
    """The flip makes an error above the tolerance. Here verify recomputes all rows, so it must find it."""
    case.write("run.yaml", UNITS.replace("2001", "512"))
    case.do(2, "run run.yaml")
    result = case.folder / "result.h5"
    for dataset, number in (("/out", 300 * 8 * 32 + 77), ("/lse", 1001)):
        byte = byte_offset(result, dataset) + 4 * number + 3
        flip(result, byte)
        run = case.start(0, "verify run.yaml --rows 512")
        case.ended(run, f"a bit of {dataset} in a result", rf"{dataset[1:]} +error .* WRONG", 3, keeps=["result.h5"])
        flip(result, byte)
    case.is_right(rows=512)
