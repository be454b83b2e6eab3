"""Runs random valid run files for a given time; compares every result with two definitions. See tools/soak."""
import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import h5py
import numpy as np

from draw import Case
from launches import Launcher
from tables import Tables

TOLERANCES = {"float64": (1e-12, 1e-11), "float32": (1e-5, 3e-5), "float16": (3e-3, 3e-3), "bfloat16": (2e-2, 2e-2)}
# The tolerances of products that are less exact than those of float32.
OF_PRODUCTS = {"bfloat16": TOLERANCES["bfloat16"], "tf32": TOLERANCES["float16"], "3xtf32": TOLERANCES["float16"],
               "3xbfloat16": (1e-4, 3e-4)}
SAMPLED = 12      # rows of a head that are compared if there are many
MOST_KILLS = 4
RESULTS = ("out", "lse", "dq", "dk", "dv")


class Fault(Exception):
    """Something wrong has happened; the text says what."""


def expect(holds, text):
    if not holds:
        raise Fault(text)


class Soak:
    def __init__(self, given, folder):
        self.given, self.folder, self.counts, self.refusals = given, folder, Counter(), Counter()
        self.examples = {}
        self.launcher = Launcher(given.program, given.launcher.split(), folder)
        self.tables = Tables(self.launcher.run("list").text)

    def case(self, number):
        """Draws and checks one case; raises Fault."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.random = np.random.default_rng([self.given.seed, number])
        case = Case(self.random, self.tables, self.folder)
        case.write()
        self.counts["cases"] += 1
        ended = self._bench(case) if case.kind == "bench" else self._run(case)
        if ended.status != 0:
            self._refused(ended)
            return
        self.counts[case.kind] += 1
        if case.kind != "bench":
            self._check(case)

    def _refused(self, ended):
        """Checks that the program refused the case correctly: with an error message of its own, and without a file."""
        expect(ended.status in (1, 2) and ended.error, f"status {ended.status}: {ended.text[-3000:]}")
        for words in ("internal error", "std::", "bad_alloc", "HDF5", "MPI_ERR"):
            expect(words not in ended.error, f"status {ended.status}: {ended.error}")
        expect(not (self.folder / "out.h5").exists(), f"there is a result after an error: {ended.error}")
        self.counts["refused"] += 1
        kind = " ".join(word for word in ended.error.split() if word.isalpha())[:80]
        self.refusals[kind] += 1
        self.examples.setdefault(kind, ended.error)

    def _launch(self, case, *words):
        """Launches the case and kills it as often as drawn, then launches it once more. Each launch draws its number of
        ranks."""
        kills = int(self.random.integers(1, MOST_KILLS + 1)) if case.is_long or self.random.integers(6) == 0 else 0
        for _ in range(kills):
            ended = self.launcher.run_and_kill(self.random, *words, ranks=case.ranks, threads=case.threads)
            if not ended.was_killed:
                return ended
            self.counts["kills"] += 1
            case.ranks = int(self.random.integers(1, 5))
        ended = self.launcher.run(*words, ranks=case.ranks, threads=case.threads)
        if kills and ended.status == 1 and "--restart" in ended.error:  # another number of ranks may need other units
            self.counts["restarts"] += 1
            ended = self.launcher.run(*words, "--restart", ranks=case.ranks, threads=case.threads)
        self.counts["resumed"] += kills > 0 and ended.status == 0
        return ended

    def _run(self, case):
        ended = self._launch(case, "run", "run.yaml")
        if ended.status != 0 and "exists" in ended.error and (self.folder / "out.h5").exists():
            ended.status = 0  # the kill came too late: the result was complete
        return ended

    def _bench(self, case):
        strategies = [case.one_of(*(name for name in case.strategies() if name != "stream")) for _ in range(2)]
        del case.settings["distribution"]
        case.settings["bench"] = {"sweep": [{"distribution.strategy": sorted(set(strategies))},
                                            {"attention.causal": [case.attention["causal"]]}],
                                  "repeats": 1, "warmup": 0, "verify_rows": 8, "file": "sweep.h5"}
        del case.settings["output"]
        (self.folder / "run.yaml").write_text(json.dumps(case.settings), encoding="utf-8")
        ended = self._launch(case, "bench", "run.yaml")
        if ended.status == 0:
            with h5py.File(self.folder / "sweep.h5") as file:
                done = [text.decode() for text in file["cases/status"][...]]
                expect(len(done) == len(set(strategies)), f"{len(done)} rows in the table for {strategies}")
                expect(set(done) == {"ok"}, f"bench: {done}")
                self.counts["benched cases"] += len(done)
        return ended

    def _check(self, case):
        for left in ("out.h5.part", "out.h5.journal"):
            expect(not (self.folder / left).exists(), f"{left} is left beside a result")
        verified = self.launcher.run("verify", "run.yaml", "--rows", "64")
        expect(verified.status == 0, f"annulus verify: status {verified.status}: {verified.text[-3000:]}")
        with h5py.File(self.folder / "out.h5") as file:
            found = {name: np.asarray(file[name][...], "f8") for name in RESULTS if name in file}
        if case.axes == "bhsd":
            found = {name: np.moveaxis(tensor, 1, 2) for name, tensor in found.items()}
        expect(set(found) == set(RESULTS[:5 if case.backward else 2]), f"the result has {', '.join(found)}")
        precision = case.settings["compute"].get("precision")
        self.tolerance = max(TOLERANCES[case.type], OF_PRODUCTS.get(precision, (0, 0)))
        if precision == "float32" and case.type == "float64":
            self.tolerance = TOLERANCES["float32"]
        for entry in range(case.batch):
            self._check_entry(case, entry, found)

    def _check_entry(self, case, entry, found):
        definition, tensors = case.definition(entry), {name: one[entry] for name, one in case.tensors.items()}
        q, k, v = (tensors[name] for name in "qkv")
        queries = np.arange(case.queries)
        if len(queries) > 200:
            queries = np.sort(self.random.choice(queries, SAMPLED, replace=False))
        head = int(self.random.integers(case.heads))
        out, lse = definition.forward(q, k, v, head, queries)
        self._compare("out", found["out"][entry][queries, head], out, self.tolerance[0], case)
        self._compare("lse", found["lse"][entry][queries, head], lse, self.tolerance[0], case)
        if not case.backward or case.rows > 200:
            return
        group = case.heads // case.kv_heads
        kv = head // group
        heads = list(range(kv * group, (kv + 1) * group))
        dlse = tensors.get("dlse", np.zeros(q.shape[:2]))
        dq, dk, dv = definition.backward(q, k, v, tensors["dout"], dlse, heads)
        for name, expected, got in (("dq", dq, found["dq"][entry][:, heads]), ("dk", dk, found["dk"][entry][:, kv]),
                                    ("dv", dv, found["dv"][entry][:, kv])):
            self._compare(name, got, expected, self.tolerance[1], case)

    def _compare(self, name, found, expected, tolerance, case):
        where = np.isfinite(expected)
        expect(np.array_equal(found[~where], expected[~where]), f"{name}: -inf at other rows than the definition's")
        self.counts["numbers compared"] += expected.size
        if not where.any():
            return
        error = np.abs(found[where] - expected[where]).max() / max(1, np.abs(expected[where]).max())
        if case.type in ("float16",) or case.settings["output"].get("type") == "float32":
            tolerance = max(tolerance, TOLERANCES["float16" if case.type == "float16" else "float32"][0])
        expect(error <= tolerance, f"{name}: error {error:.3g}, tolerance {tolerance:.3g}")

    def say(self, seconds):
        print(f"soak: {seconds:.0f} s, seed {self.given.seed}:", ", ".join(f"{n} {name}" for name, n in self.counts.items()))
        if self.launcher.hung_launchers:
            print(f"  {self.launcher.hung_launchers} times the launcher itself did not end though its ranks had ended")
        for text, count in self.refusals.most_common(12):
            print(f"  refused {count} times: {self.examples[text][:240]}")


def arguments():
    parser = argparse.ArgumentParser(prog="tools/soak")
    parser.add_argument("minutes", type=float, nargs="?", default=1)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--case", type=int, help="only this one; its files stay")
    parser.add_argument("--program", required=True)
    parser.add_argument("--launcher", default="mpirun")
    return parser.parse_args()


def main():
    given = arguments()
    folder = Path(tempfile.mkdtemp(prefix="annulus-soak-"))
    soak = Soak(given, folder)
    begin, number = time.monotonic(), given.case or 0
    while True:
        try:
            soak.case(number)
        except Fault as fault:
            print(f"soak: FAULT in case {number}: {fault}\n  files: {folder}\n  again: tools/soak --seed {given.seed} "
                  f"--case {number}")
            soak.say(time.monotonic() - begin)
            return 1
        number += 1
        if given.case is not None:
            print(f"soak: case {given.case} is right; files: {folder}")
            break
        if time.monotonic() - begin > 60 * given.minutes:
            break
    soak.say(time.monotonic() - begin)
    if given.case is None:
        shutil.rmtree(folder)
    few = soak.counts["refused"] == soak.counts["cases"]
    if few:
        print("soak: every case was refused: nothing was checked")
    return int(few)


if __name__ == "__main__":
    sys.exit(main())
