"""Turns raw rounds into the lines of a table."""
from statistics import median

from measure import FLOPS

MIB = 1 << 20
HEADER = ("case", "pass", "who", "GFLOP/CPU s", "(min max)", "of peak", "of bf16", "CPU s", "wall s", "GFLOP/s", "+MiB", "difference",
          "annulus/peer by CPU", "by wall")
WIDTHS = (42, 16, 12, 11, 15, 7, 7, 8, 8, 8, 7, 10, 20, 20)


def line(cells):
    """Text to the left, numbers to the right."""
    return "  ".join(f"{cell:<{w}}" if i < 3 else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(cells, WIDTHS))).rstrip()


def spread(values, digits=2):
    """Median, and the range where there is one: 1.33 (1.30 1.35)."""
    if not values:
        return ""
    text = f"{median(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} {max(values):.{digits}f})"


def samples(record, who, what):
    """The measurements of a pass, round by round."""
    return [this[who][what] for this in record["rounds"] if who in this and what in this[who]]


def ratios(record, who, what, key):
    """annulus' rate over the peer's in the same round, that is the peer's time over annulus'."""
    return [this[who][what][key] / this["annulus"][what][key] for this in record["rounds"]
            if who in this and what in this[who]]


def worst_difference(record, who, what):
    names = {"forward": ["out"], "backward": ["dq", "dk", "dv"]}.get(what, ["out", "dq", "dk", "dv"])
    checks = [record["checks"][who][n] for n in names if n in record["checks"].get(who, {})]
    if not checks:
        return ""
    return f"{max(c['error'] for c in checks):.0e}" + ("" if all(c["equal"] for c in checks) else " !!")


def extra_memory(record, who, what):
    first = record["first"] if who == "annulus" else record["rounds"][0].get(who, {})
    extra = first.get(f"{what} extra")
    return "" if extra is None else f"{max(0.0, extra) / MIB:.0f}"


def summary(record, who, what):
    """The numbers of one line; None where nothing was measured."""
    seconds = samples(record, who, what)
    if not seconds:
        return None
    flops = FLOPS.get(what, FLOPS["forward"]) * record["case"]["head_dim"] * record["kept"] * 1e-9
    peaks = [this["peak"] for this in record["rounds"] if what in this.get(who, {})]
    rates = [flops / one["cpu"] for one in seconds]
    return {"gflop": flops, "rates": rates, "of_peak": median(r / p["rate"] for r, p in zip(rates, peaks)),
            "of_bfloat16": [r / p["bfloat16 rate"] for r, p in zip(rates, peaks) if p.get("bfloat16 rate")],
            "cpu": median(one["cpu"] for one in seconds), "wall": median(one["wall"] for one in seconds),
            "ratio_cpu": ratios(record, who, what, "cpu") if who != "annulus" else [],
            "ratio_wall": ratios(record, who, what, "wall") if who != "annulus" else []}


def rows(record):
    """The table's lines of a case: pass by pass, annulus first, then its peers."""
    passes = ["process"] if record["case"]["generated"] else ["forward", "backward", "forward+backward"]
    name = record["case"]["name"]  # printed in the first line only
    for what in passes:
        for who in ["annulus"] + record["case"]["peers"]:
            numbers = summary(record, who, what)
            if numbers is None:
                continue
            low, high = min(numbers["rates"]), max(numbers["rates"])
            yield line((name, "whole process" if what == "process" else what, who,
                        f"{median(numbers['rates']):.1f}", f"({low:.1f} {high:.1f})", f"{numbers['of_peak']:.2f}",
                        f"{median(numbers['of_bfloat16']):.2f}" if numbers["of_bfloat16"] else "", f"{numbers['cpu']:.3f}", f"{numbers['wall']:.3f}", f"{numbers['gflop'] / numbers['wall']:.1f}",
                        extra_memory(record, who, what), worst_difference(record, who, what),
                        spread(numbers["ratio_cpu"]), spread(numbers["ratio_wall"])))
            name = ""


LONG_HEADER = ("rows", "GFLOP", "CPU s in all", "of it kernel", "wall s", "reading s", "writing s", "peak MiB", "+MiB",
               "GFLOP/CPU s in all", "kernel", "of peak")


def long_row(record):
    """A line of the long-sequence table: the whole process, reading and writing included."""
    process, forward = samples(record, "annulus", "process"), samples(record, "annulus", "forward")
    runs = [this["annulus"] for this in record["rounds"]]
    cpu = median(one["cpu"] for one in process)
    kernel = median(one["cpu"] for one in forward)
    flops = FLOPS["forward"] * record["case"]["head_dim"] * record["kept"] * 1e-9
    cells = (str(record["case"]["sequence"]), f"{flops:.1f}", f"{cpu:.2f}", f"{kernel:.2f}",
             f"{median(one['wall'] for one in process):.2f}", f"{median(r['read'] for r in runs):.2f}",
             f"{median(r['write'] for r in runs):.2f}", f"{max(r['resident'] for r in runs) / MIB:.0f}",
             extra_memory(record, "annulus", "forward"), f"{flops / cpu:.1f}", f"{flops / kernel:.1f}",
             f"{summary(record, 'annulus', 'forward')['of_peak']:.2f}")
    return long_line(cells)


def long_line(cells):
    return "  ".join(f"{cell:>{max(8, len(head))}}" for cell, head in zip(cells, LONG_HEADER))


LEGEND = """\
GFLOP/CPU s: useful flops (4 D per kept query, key and head forward, 10 D backward) per CPU second, median of the rounds.
CPU s: annulus its kernels on all ranks, without messages (/run/kernel_cpu_seconds); a peer all its threads and ranks.
of peak: share of the multiply-add peak measured in the same rounds with as many threads.  of bf16: the same of the peak of
VDPBF16PS, bfloat16 only.  +MiB: memory above the inputs on the fullest rank, outputs included.
difference: the largest difference from annulus' result, divided by max(1, largest value); '!!' is too much.
annulus/peer: ratio of rates, median (min max) over the rounds; above 1 annulus is faster.
"""


def about(machine, records):
    """What the numbers were measured on."""
    text = f"\nCPU: {machine['cpu']}.  " + ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    for name, key in (("multiply-add", "rate"), ("VDPBF16PS", "bfloat16 rate")):
        peaks = [this["peak"][key] for record in records for this in record.get("rounds", [])
                 if key in this["peak"] and record["case"]["dtype"] != "float64"]
        if peaks and max(peaks) > 0:
            text += f"\nPeak, {name}: {spread(peaks, 0)} GFLOP per CPU second."
        elif peaks:
            text += f"\nPeak, {name}: this CPU has no such instruction, so the column is empty."
    return text + "\n"
