"""tools/gpu_check keeps all that a command has made, as soon as the command has ended."""
import json
import runpy
import shutil
import sys
import time

from conftest import ROOT


def test_the_cases_of_a_bench_are_kept_at_once(tmp_path):
    record = tmp_path / "found.json"
    record.write_text("")
    stages = runpy.run_path(str(ROOT / "tools/gpu_check"))["Stages"](tmp_path, record)
    stages.ends = time.monotonic() + 60
    table = stages.work / "dense.json"
    try:
        stages.call("timing", [sys.executable, "-c", f"open({str(table)!r}, 'w').write('[1, 2]')"], 30, cases=table)
    finally:
        shutil.rmtree(stages.work)
    (kept,) = json.loads(record.read_text())["timing"]
    assert kept["status"] == 0 and kept["cases"] == [1, 2]
