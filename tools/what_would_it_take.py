#!/usr/bin/env python3
"""Prints the table of docs/what-would-it-take.md: `annulus plan` for three machines, numbers of rows and of ranks.

    what_would_it_take.py [--program PATH] [--rows N,...] [--ranks P,...] [--machines NAME,...]

A cell has the strategy that `auto` takes, the time, and the memory of the fullest rank; `x N` if the run has N passes,
each of which takes this memory.
"""
import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEAST_ROWS = 1000  # per rank; numbers of ranks that leave fewer have no line


def cell(program, machine, rows, ranks):
    """The text of a cell: strategy, time and memory; or why there are none."""
    command = [program, "plan", ROOT / "input/what_would_it_take.yaml", "--ranks", ranks, "--machine",
               ROOT / f"input/machines/{machine}.yaml", "--set", f"input.generate.sequence={rows}"]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # each thread would add its own buffers to the memory
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, env=one_thread)
    taken = re.search(r"^\* (\w+) +\S+ +(\S+ \S+) +\S+ \S+ +\S+ \S+ +(\S+ \w+)(!?)(.*)$", done.stdout, re.MULTILINE)
    if taken:
        strategy, seconds, memory, too_much, rest = taken.groups()
        passes = re.search(r"(\d+) x (\S+ \S+)$", rest)
        if too_much and not passes:
            return "too much memory"
        return f"`{strategy}` {seconds}, " + (f"{passes[2]} x {passes[1]}" if too_much else memory)
    if done.returncode == 0 or not done.stderr:
        sys.exit(f"{' '.join(map(str, command))}: no line begins with *\n{done.stdout}{done.stderr}")
    return done.stderr.strip().splitlines()[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(ROOT / "build/release/annulus"))
    parser.add_argument("--rows", default="1000000,10000000,100000000")
    parser.add_argument("--ranks", default="8,64,512,4096")
    parser.add_argument("--machines", default="cpu_cluster,a100_cluster,h100_cluster", help="files of input/machines")
    words = parser.parse_args()
    machines = words.machines.split(",")
    print("| rows | ranks | " + " | ".join(f"`{machine}`" for machine in machines) + " |")
    print("|" + "---|" * (2 + len(machines)))
    for rows in map(int, words.rows.split(",")):
        for ranks in map(int, words.ranks.split(",")):
            if rows >= LEAST_ROWS * ranks:
                cells = [cell(words.program, machine, rows, ranks) for machine in machines]
                print(f"| {rows // 10**6:,} M | {ranks:,} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
