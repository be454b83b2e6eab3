#!/usr/bin/env python3
"""The table of docs/what-would-it-take.md: `annulus plan` for three machines, numbers of rows and of ranks.

    what_would_it_take.py [--program PATH] [--rows N,...] [--ranks P,...] [MACHINE ...]

A line for each machine and number of rows; in its cells what `auto` takes, the time and the memory of the fullest rank.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MACHINES = ("cpu_cluster", "a100_cluster", "h100_cluster")


def cell(program, machine, rows, ranks):
    """strategy, time, memory; or why there is none."""
    command = [program, "plan", ROOT / "input/what_would_it_take.yaml", "--ranks", ranks, "--machine",
               ROOT / f"input/machines/{machine}.yaml", "--set", f"input.generate.sequence={rows}"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    taken = re.search(r"^\* (\w+) +(\S+) +(\S+ \S+) +\S+ \S+ +\S+ \S+ +(\S+ \S+)", done.stdout, re.MULTILINE)
    if taken:
        strategy, _, seconds, memory = taken.groups()
        passes = re.search(rf"^\* .*?(\d+) x \S+ \S+$", done.stdout, re.MULTILINE)
        return f"`{strategy}` {seconds}, {memory}" + (f", {passes[1]} passes" if passes else "")
    if done.returncode == 0 or not done.stderr:
        sys.exit(f"{' '.join(map(str, command))}: no line begins with *\n{done.stdout}{done.stderr}")
    return done.stderr.strip().splitlines()[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(ROOT / "build/release/annulus"))
    parser.add_argument("--rows", default="1000000,10000000,100000000")
    parser.add_argument("--ranks", default="8,64,512,4096")
    parser.add_argument("machines", nargs="*", default=MACHINES)
    words = parser.parse_args()
    ranks = words.ranks.split(",")
    print("| machine | rows | " + " | ".join(f"{int(p):,} ranks" for p in ranks) + " |")
    print("|" + "---|" * (2 + len(ranks)))
    for machine in words.machines:
        for rows in words.rows.split(","):
            cells = [cell(words.program, machine, rows, p) for p in ranks]
            print(f"| `{machine}` | {int(rows):,} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
