"""annulus beside its peers: see run and README.md."""
import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import cases as case_lists
import field
import report
import training
from install import install, install_field
from measure import PACKAGES, Bench
from program import Annulus, Failed, say
from workers import SETTINGS, Workers

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build"


def arguments():
    parser = argparse.ArgumentParser(
        prog="run", description="Measures annulus and its peers in turn on the same input; one table, and JSON.")
    parser.add_argument("--quick", action="store_true", help="small cases, two rounds: about 3 minutes instead of 12")
    parser.add_argument("--types", action="store_true", help="instead: bfloat16 and float16 beside PyTorch, 30 minutes")
    parser.add_argument("--training", action="store_true",
                        help="instead: annulus train beside PyTorch's DDP, FSDP2 and DTensor, 2 ranks")
    parser.add_argument("--long", action="store_true", help="instead: annulus alone, 16 Ki to 4 Mi rows")
    parser.add_argument("--field", action="store_true", help="instead: the tables of docs/comparison.md, 25 minutes")
    parser.add_argument("--torchscale", metavar="FOLDER", help="with --field: a checkout of torchscale")
    parser.add_argument("--only", metavar="NAME,...", default="",
                        help="only cases with one of these in their name, or with a peer of that name")
    parser.add_argument("--json", metavar="FILE", default=str(BUILD / "peers/peers.json"),
                        help="raw numbers (default build/peers/peers.json)")
    parser.add_argument("--rounds", type=int, help="instead of what each case asks for (mostly 5)")
    parser.add_argument("--seconds", type=float, help="time for the measurements; rounds after it are left out")
    parser.add_argument("--limit", type=float, help="seconds that a single measurement may take")
    parser.add_argument("--program", default=str(BUILD / "release/annulus"),
                        help="another annulus than build/release's; then nothing is built")
    parser.add_argument("--folder", default=str(BUILD / "peers"),
                        help="inputs and results while it runs (default build/peers)")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    return parser.parse_args()


def chosen_cases(options):
    if options.field:
        found = [case for table in field.tables(options.quick) for case in table.cases]
    elif options.types:
        found = case_lists.sixteen_bits([1024] if options.quick else [1024, 4096, 8192])
    elif options.long:
        found = case_lists.long_sequences(min(2, os.cpu_count() or 1), 262144 if options.quick else 1 << 22)
    else:
        found = case_lists.quick() if options.quick else case_lists.full()
    words = [word for word in options.only.split(",") if word]
    found = [c for c in found if not words or any(word in c.name or word in c.peers for word in words)]
    for case in found:
        case.rounds = options.rounds or (1 if options.long and options.quick else case.rounds)
    return found


def build_peak(name, cache):
    """A peak program, compiled for this machine; again when its sources are newer."""
    source, binary = HERE / f"{name}.cpp", Path(cache) / f"{name}-{platform.node() or 'here'}"
    newest = max(path.stat().st_mtime for path in (source, HERE / "peak.hpp"))
    if not binary.exists() or binary.stat().st_mtime < newest:
        Path(cache).mkdir(parents=True, exist_ok=True)
        aside = binary.with_suffix(f".{os.getpid()}")
        subprocess.run([os.environ.get("CXX", "g++"), "-O3", "-march=native", "-pthread", str(source), "-o", str(aside)],
                       check=True)
        aside.replace(binary)
    return str(binary)


def cpu_name():
    """The CPU's name, and its instructions for bfloat16."""
    lines = [row.split(":") for row in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if ":" in row]
    about = {key.strip(): value.strip() for key, value in lines}
    has = [flag for flag in ("avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16") if flag in about.get("flags", "").split()]
    numbers = [f"{key} {about[key]}" for key in ("cpu family", "model", "stepping") if key in about]
    return f"{about.get('model name', platform.machine())} ({', '.join(numbers + has) or 'nothing for bfloat16'})"


def machine(annulus, versions):
    return {"cpu": cpu_name(), "cpus": os.cpu_count(), "load": os.getloadavg(),
            "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "python": platform.python_version(), "versions": versions,
            "annulus": annulus.version()}


# A case gets at least this many seconds, so that it has rounds even if a worker starts slowly.
LEAST_SECONDS = 5


def measure_all(cases, bench, seconds, long, save):
    """Case by case, each with its share of the time that is left; prints and saves its numbers as soon as it is done."""
    records, end = [], time.monotonic() + seconds
    print(report.long_line(report.LONG_HEADER) if long else report.line(report.HEADER), flush=True)
    for index, case in enumerate(cases):
        later = cases[index:]
        bench.annulus.forget_inputs(later)
        bench.workers.keep_only({(peer, c.threads, c.ranks) for c in later for peer in c.peers})
        weights = [(c.rounds + 2) * c.expected_seconds() for c in later]
        share = max(LEAST_SECONDS, (end - time.monotonic()) * weights[0] / sum(weights))
        say(f"{index + 1} of {len(cases)}: {case.name}, up to {share:.0f} s")
        try:
            records.append(bench.case(case, share))
            for row in [report.long_row(records[-1])] if long else report.rows(records[-1]):
                print(row, flush=True)
        except Failed as failure:
            records.append({"case": case.description(), "failed": str(failure)})
            say(f"{case.name} failed: {failure}")
        save(records)
    return records


def write_json(path, about, records):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(about | {"cases": records}, indent=1), encoding="utf-8")


def compare_field(options, cases, annulus, workers, about, versions, limit):
    """The tables of --field; returns 0 also if peers are wrong, 1 if annulus is wrong or could not be measured."""
    if "torch" not in versions:
        raise SystemExit("peers: --field needs PyTorch, which could not be installed")
    folder = Path(os.environ["PEERS_CACHE"]).parent / "field"
    versions = versions | install_field(folder)
    if options.torchscale and not (Path(options.torchscale) / "torchscale/component/dilated_attention.py").is_file():
        raise SystemExit(f"peers: {options.torchscale}: no torchscale/component/dilated_attention.py in this folder")
    paths = [str(folder)] + ([str(Path(options.torchscale).resolve())] if options.torchscale else [])
    versions |= {"torchscale": "of " + paths[1]} if options.torchscale else {}
    variables = {"PYTHONPATH": os.pathsep.join(paths), "TORCH_EXTENSIONS_DIR": str(folder / "built")}  # for DeepSpeed
    SETTINGS.update({peer: variables for peer in field.PACKAGES})
    rounds = {case.name: case.rounds for case in cases}
    chosen = []
    for table in field.tables(options.quick):
        table.cases = [replace(case, rounds=rounds[case.name]) for case in table.cases if case.name in rounds]
        chosen += [table] if table.cases else []
    bench = field.Field(annulus, workers, versions, limit)
    seconds = options.seconds or (120 if options.quick else 900)
    found = field.measure_all(bench, chosen, seconds, lambda so_far: write_json(options.json, about, so_far))
    print(f"{bench.facts()}\n\n{field.LEGEND}\n{about['machine']['cpu']}, load {os.getloadavg()[0]:.1f}; "
          + ", ".join(f"{name} {version}" for name, version in versions.items()))
    ours = [record for one in found for name, record in one["records"].items() if name.startswith("annulus")]
    return 0 if all("left out" not in record and field.verdict(record)[1] == "right" for record in ours) else 1


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the clean-up below runs
    if options.training:
        return training.main(options, machine, write_json)
    cases = chosen_cases(options)
    if options.list or not cases:
        print("\n".join(case.name for case in cases) or "peers: no case has such a name; --list shows all names")
        return 0 if cases else 2
    wanted = {"torch"} if options.field else {PACKAGES[peer] for case in cases for peer in case.peers}
    cache = os.environ["PEERS_CACHE"]
    python, versions = install(wanted) if wanted else (None, {})
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    workspace = folder / f"work-{os.getpid()}"
    workspace.mkdir()
    workers = Workers(python, workspace)
    started = time.monotonic()
    try:
        limit = options.limit or (120 if options.quick else 300)
        annulus = Annulus(options.program, os.environ.get("PEERS_LAUNCHER", "mpirun"), workspace.resolve(), limit)
        about = {"machine": machine(annulus, versions), "arguments": sys.argv[1:]}
        if options.field:
            return compare_field(options, cases, annulus, workers, about, versions, limit)
        peaks = {name: build_peak(name, cache) for name in ("peak", "peak_bfloat16")}
        bench = Bench(annulus, workers, peaks, versions, limit)
        seconds = options.seconds or (170 if options.quick else 1800 if options.types else 700)
        records = measure_all(cases, bench, seconds, options.long, lambda so_far: write_json(options.json, about, so_far))
    finally:
        workers.keep_only([])
        shutil.rmtree(workspace, ignore_errors=True)
    if not options.long:
        print(f"\n{report.LEGEND}{report.about(about['machine'], records)}", end="")
    say(f"{time.monotonic() - started:.0f} s; raw numbers in {options.json}")
    wrong = [r["case"]["name"] for r in records if "failed" in r
             or not all(check["equal"] for peer in r["checks"].values() for check in peer.values())]
    if wrong:
        say(f"failed, or not the same result: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
