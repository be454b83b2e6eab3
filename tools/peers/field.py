"""run --field: the tables of docs/comparison.md, annulus beside other published codes, on the same inputs.

Every result is compared with the definition in float64 (exact.py). A wrong one is marked, and stays in the table.
Rounds are interleaved: each round measures annulus and every peer once. The tables are Markdown, on stdout.
"""
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from time import monotonic

from cases import LONGNET_DILATIONS, LONGNET_SEGMENTS, Case
from measure import GRADIENT_TOLERANCE, TOLERANCE, worst
from program import Failed, launch, say

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
# The package of each peer that is not PyTorch's. In those of MARKED a stand-in computes each block (standins.py).
PACKAGES = {"ring-attention": "ring-attention-pytorch", "yunchang": "yunchang", "yunchang-cpu": "yunchang",
            "yunchang-ulysses": "yunchang", "ring-flash": "ring-flash-attn", "deepspeed-ulysses": "deepspeed",
            "deepspeed-ring": "deepspeed", "para-ulysses": "para-attn", "para-ring": "para-attn",
            "dilated-attention-pytorch": "dilated-attention-pytorch", "torchscale": "torchscale"}
MARKED = {"yunchang", "yunchang-ulysses", "ring-flash", "para-ring", "dilated-attention-pytorch", "torchscale"}


@dataclass(frozen=True)
class Who:
    """A line of a table: annulus with a strategy, or a peer."""

    name: str
    peer: str = ""
    strategy: str = "auto"
    ranks: int = 0  # 0: those of the case

    def title(self):
        return self.name + (" (s)" if self.peer in MARKED else "")


@dataclass
class Table:
    """Measures annulus and the peers on each case; the first line is the baseline. `layout`: times, memory (columns are
    ranks), threshold."""

    title: str
    cases: list
    everyone: list
    layout: str = "times"


def ours(*strategies, **more):
    return [Who(f"annulus, `{strategy}`", strategy=strategy, **more) for strategy in strategies]


ALLGATHER = Who("all-gather over gloo (PyTorch)", "allgather")
RING_ATTENTION = Who("ring-attention-pytorch", "ring-attention")
ULYSSES = Who("DeepSpeed Ulysses", "deepspeed-ulysses")
EVEN_ODD = Who("even/odd ring over DeepSpeed", "deepspeed-ring")
TWO = [ALLGATHER, ULYSSES, Who("yunchang Ulysses", "yunchang-ulysses"), Who("para-attn Ulysses", "para-ulysses"),
       EVEN_ODD, RING_ATTENTION, Who("yunchang ring", "yunchang"),
       Who("yunchang ring, kernel for CPUs", "yunchang-cpu"), Who("ring-flash-attn", "ring-flash"),
       Who("para-attn ring", "para-ring")]


def tables(quick):
    """The tables of the five reports, in their units."""
    short, rounds = (1024, 2) if quick else (4096, 3)
    pairs = {"segments": [short // 4, short // 2, short], "dilations": [1, 2, 4]}
    far = {"heads": 4, "causal": True, "segments": LONGNET_SEGMENTS, "dilations": LONGNET_DILATIONS, "backward": False}
    longest = [65536, 81920] if quick else [262144, 409600]
    composed = Who("composed (PyTorch)", "composed")
    return [
        Table("One device", [Case("one", short, rounds=rounds)],
              [Who("fused kernel (PyTorch)", "torch"), RING_ATTENTION, *ours("single")]),
        Table("One device, dilated as in LongNet", [Case("longnet", short, rounds=rounds, **pairs)],
              [composed, Who("torchscale", "torchscale"), *ours("single")]),
        Table("One device, dilated, heads in groups",
              [Case("grouped", short, rounds=rounds, semantics="grouped", **pairs)],
              [composed, Who("dilated-attention-pytorch", "dilated-attention-pytorch"), *ours("single")]),
        Table("Two devices", [Case("two", short, ranks=2, rounds=rounds)],
              TWO + ours("allgather", "allgather_overlap", "ring_blocking", "ring", "ring_bidirectional", "rotation",
                         "onesided", "ulysses")),
        Table("Two devices, twice the rows", [Case("twice", 2 * short, ranks=2, rounds=2)],
              [ALLGATHER, EVEN_ODD, *ours("allgather", "ring_blocking", "ring")]),
        Table("Memory over P", [Case("memory", short, ranks=p, rounds=1) for p in (1, 2, 4)],
              [ALLGATHER, RING_ATTENTION, *ours("allgather", "ulysses", "ring")], "memory"),
        Table("The longest of the reports on one device", [Case("long", longest[0], rounds=2, **far)],
              [composed, *ours("single")]),
        Table("The longest of the reports on two devices", [Case("long", longest[1], ranks=2, rounds=2, **far)],
              ours("allgather", "ring")),
        Table("Where two devices become worth it", [Case("threshold", n, rounds=5, backward=False)
                                                    for n in ([256, 1024] if quick else [256, 1024, 2048, 4096])],
              [Who("PyTorch, one", "torch", ranks=1), replace(ALLGATHER, name="all-gather, two", ranks=2),
               Who("annulus `single`, one", strategy="single", ranks=1),
               Who("annulus `ring`, two", strategy="ring", ranks=2)], "threshold"),
    ]


class Field:
    def __init__(self, annulus, workers, versions, limit):
        """`versions`: of the installed packages; a peer whose package is missing is left out."""
        self.annulus, self.workers, self.versions, self.limit = annulus, workers, versions, limit

    def has(self, who):
        return who.peer and PACKAGES.get(who.peer, "torch") in self.versions

    def exact(self, case):
        """The file with the float64 results; made once for all numbers of ranks."""
        about = asdict(case) | {"ranks": 1, "rounds": 1, "group": "", "strategy": ""}
        path = self.annulus.folder / f"exact-{abs(hash(json.dumps(about)))}.h5"
        if not path.exists():
            launch([self.workers.python, HERE / "exact.py", "make", json.dumps(about), self.annulus.input_file(case),
                    path], 10 * self.limit)
        return path

    def check(self, who, case, record):
        """The largest errors of a first run, relative to the largest number of each result."""
        if who.peer:
            if not self.has(who):
                raise Failed("not installed")
            command = {"do": "load", "case": case.description(), "input": str(self.annulus.input_file(case)),
                       "result": str(self.exact(case))}
            answers = [a["check"] for a in self.workers.get(who.peer, case).ask(command, self.limit)]
        else:
            record["first"] = self.annulus.run(case, False) | (self.annulus.run(case, True) if case.backward else {})
            compared = launch([self.workers.python, HERE / "exact.py", "compare", self.annulus.folder / "result.h5",
                               self.exact(case)], self.limit)
            answers = [json.loads(compared["text"])]
        record["errors"] = {name: worst(a[name]["difference"] for a in answers) / max(a[name]["largest"] for a in answers)
                            for name in answers[0]}

    def once(self, who, case, record):
        """Measures one line once: forward, and with gradients."""
        if who.peer:
            measured = self.workers.get(who.peer, case).measure(not record["rounds"], self.limit)
        else:
            measured = self.annulus.run(case, case.backward)
        if not record["rounds"]:
            record["extra"] = {name: value for name, value in (measured | record.get("first", {})).items()
                               if name.endswith("extra")}
        this = {"forward": measured["forward"]}
        if "backward" in measured:
            this["with gradients"] = {key: this["forward"][key] + measured["backward"][key] for key in ("cpu", "wall")}
        record["rounds"].append(this)

    def measure(self, table, case, seconds):
        """{name: record} of annulus and all peers. After the checks it takes about `seconds`, but at least one
        round."""
        records = {who.name: {"rounds": []} for who in table.everyone}
        cases = {who.name: replace(case, strategy=who.strategy, ranks=who.ranks or case.ranks)
                 for who in table.everyone}
        for who in table.everyone:  # all start at once: imports take longer than the computing
            if self.has(who):
                self.workers.get(who.peer, cases[who.name])
        for number in range(-1, case.rounds):  # -1: the check
            if number == 0:
                deadline, longest = monotonic() + seconds, 0.0
            start = monotonic()
            if number > 0 and start + longest > deadline:
                say(f"{number} of {case.rounds} rounds, the time is up")
                break
            for who in table.everyone:
                record = records[who.name]
                try:
                    if "left out" not in record:
                        (self.check if number < 0 else self.once)(who, cases[who.name], record)
                except Failed as failure:
                    record["left out"] = str(failure)
                    say(f"{who.name} is left out: {failure}")
            if number >= 0:
                longest = max(longest, monotonic() - start)
        return records

    def facts(self):
        """What DeepSpeed's isend does, in one line."""
        if "deepspeed" not in self.versions:
            return "DeepSpeed is not installed."
        two = Case("facts", 256, ranks=2)
        try:
            found = self.workers.get("deepspeed-ring", two).ask({"do": "facts"}, self.limit)[0]
        except Failed as failure:
            return f"DeepSpeed: {failure}"
        return (f"DeepSpeed {self.versions['deepspeed']}: isend of 64 MiB returned after {1e3 * found['call']:.1f} ms "
                f"with a {found['isend returns']}; it had been sent after {1e3 * found['until it is sent']:.0f} ms.")


def middle(record, what, key):
    return median(this[what][key] for this in record["rounds"] if what in this)


def speed(record, baseline, what, key):
    """How many times as fast as the baseline in the same round, in the median."""
    return median(b[what][key] / this[what][key] for this, b in zip(record["rounds"], baseline["rounds"])
                  if what in this and what in b)


def verdict(record, dtype="float32"):
    """(errors of out and of the worst gradient; "right", or the names of wrong tensors)."""
    def limit(name):
        return (TOLERANCE if name == "out" else GRADIENT_TOLERANCE)[dtype]

    errors = record["errors"]
    wrong = [name for name, error in errors.items() if not error <= limit(name)]
    gradients = [errors[name] for name in ("dq", "dk", "dv") if name in errors]
    largest = worst(gradients) if gradients else None
    shown = [f"{error:.1g}".replace("e-0", "e-").replace("e+0", "e") for error in (errors["out"], largest)
             if error is not None]
    named = "all" if len(wrong) == len(errors) > 1 else " ".join(wrong)
    return "; ".join(shown), f"**wrong: {named}**" if wrong else "right"


def row(*cells):
    return f"| {' | '.join(cells)} |"


def head(*cells):
    return [row(*cells), "|" + "---|" * len(cells)]


def times(table, records):
    """Lines of one case. Two numbers in a cell are forward; with gradients."""
    lines = head("", "ms", "CPU ms", "speed by wall", "by CPU", "MiB", "errors", "result")
    baseline = records[table.everyone[0].name]
    for who in table.everyone:
        record = records[who.name]
        if "left out" in record:
            why = record["left out"].splitlines()[-1][:70].replace("|", "/")
            lines.append(row(who.title(), f"left out: {why}", *[""] * 6))
            continue
        passes = [what for what in ("forward", "with gradients") if what in record["rounds"][0]]
        extra = [record["extra"][f"{what} extra"] / MIB for what in ("forward", "forward+backward")[:len(passes)]]
        both = [(what, key) for key in ("wall", "cpu") for what in passes]
        seconds = [f"{1e3 * middle(record, *one):.0f}" for one in both]
        speeds = [f"{speed(record, baseline, *one):.2f}" if "left out" not in baseline else "" for one in both]
        pairs = [numbers[i * len(passes):(i + 1) * len(passes)] for numbers in (seconds, speeds) for i in (0, 1)]
        lines.append(row(who.title(), *("; ".join(pair) for pair in pairs),
                         "; ".join(f"{max(0.0, value):.0f}" for value in extra), *verdict(record)))
    return lines


def memory(table, by_case):
    """MiB on the fullest rank beyond its inputs, a column for each number of ranks."""
    lines = head("", *(f"P = {case.ranks}" for case, _ in by_case))
    for who in table.everyone:
        cells = []
        for _, records in by_case:
            extra = records[who.name].get("extra", {})
            values = [extra[name] / MIB for name in ("forward extra", "forward+backward extra") if name in extra]
            cells.append("; ".join(f"{max(0.0, value):,.0f}" for value in values) or "left out")
        lines.append(row(who.title(), *cells))
    return lines


def threshold(table, by_case):
    """ms forward by wall, a line for each number of rows."""
    lines = head("rows", *(who.title() for who in table.everyone))
    for case, records in by_case:
        found = [records[who.name] for who in table.everyone]
        cells = [f"{1e3 * middle(one, 'forward', 'wall'):,.1f}" if one["rounds"] else "left out" for one in found]
        lines.append(row(f"{case.sequence:,}", *cells))
    return lines


def printed(table, by_case):
    """The lines of a table with its headings."""
    lines = [f"### {table.title}"]
    if table.layout == "times":
        for case, records in by_case:
            rounds = max(len(record["rounds"]) for record in records.values())
            lines += ["", f"{case.name}, {case.heads} heads, {rounds} rounds:", "", *times(table, records)]
    else:
        about = ", ".join(case.name for case, _ in by_case)
        lines += ["", f"{about}:", "", *(memory if table.layout == "memory" else threshold)(table, by_case)]
    return lines + [""]


LEGEND = """\
Two numbers in a cell: forward; with gradients. ms: wall time, the slowest rank. CPU ms: all threads and ranks; annulus
its kernels, without messages. speed: how many times as fast as the first line in the same round. All are medians of the
rounds. MiB: beyond the inputs on the fullest rank, results included. errors: the largest difference from the definition
in float64, divided by its largest number; of out, and of the worst gradient. (s): calls a GPU package for one block of
keys; that call is PyTorch's kernel.
"""


def measure_all(field, chosen, seconds, save):
    """Prints table after table; [{"table", "case", "records"}]."""
    found, end = [], monotonic() + seconds
    left = sum(case.expected_seconds() * case.rounds * len(table.everyone) for table in chosen for case in table.cases)
    for table in chosen:
        by_case = []
        for case in table.cases:
            weight = case.expected_seconds() * case.rounds * len(table.everyone)
            say(f"{table.title}: {case.name}")
            by_case.append((case, field.measure(table, case, max(5, (end - monotonic()) * weight / left))))
            left = max(left - weight, 1e-9)
            found.append({"table": table.title, "case": case.description(), "records": by_case[-1][1]})
            save(found)
            later = table.cases[table.cases.index(case) + 1:]
            field.workers.keep_only({(who.peer, c.threads, who.ranks or c.ranks)
                                     for c in later for who in table.everyone})
        print("\n".join(printed(table, by_case)), flush=True)
        field.annulus.forget_inputs([case for later in chosen[chosen.index(table) + 1:] for case in later.cases])
    return found
