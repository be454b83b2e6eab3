"""Runs every command of six pages of docs/, in the order of the page. What the pages quote is what the program
prints."""
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import ROOT
from pages import blocks, clone, play, shell

import annulus


@pytest.fixture
def folder(tmp_path):
    return clone(tmp_path)


def quoted(name):
    """Blocks without a language: what a program prints."""
    return [text for language, text in blocks(name) if language == ""]


def test_training(folder):
    played = play("training.md", folder)
    printed = "".join(text for *_, text in played)
    assert sum(language == "sh" for language, *_ in played) == 3
    assert "goes on from" in printed and "after step 50" in printed
    with h5py.File(folder / "build/train_layer.h5") as trained, h5py.File(folder / "build/layer_input.h5") as given, \
            h5py.File(folder / "build/layer_output.h5") as result:
        loss = trained["loss"][...]
        y, target = (np.array(file[name], "f8") for file, name in ((result, "y"), (given, "target")))
    assert (folder / "loss.png").stat().st_size > 10_000
    assert len(loss) == 61 and (np.diff(loss) < 0).all()
    # y was computed with the trained weights.
    assert 0.5 * np.mean((y - target) ** 2) == pytest.approx(loss[-1], rel=1e-5)
    for name in ("out", "lse", "dq", "dk", "dv"):
        assert re.search(rf"^  {name} .* ok", printed, re.MULTILINE), printed
    text, = quoted("training.md")
    for step, value in re.findall(r"^step (\d+)  loss (\S+)$", text, re.MULTILINE):
        assert loss[int(step)] == pytest.approx(float(value), rel=1e-6)


def test_windows(folder):
    played = play("windows.md", folder)
    printed = [text for language, _, text in played if language == "sh"]
    assert len(printed) == 3 and " ok, largest at " in printed[1] and "WRONG" not in printed[1]
    (header, steps), lines = quoted("windows.md"), [line.rstrip() for text in printed for line in text.splitlines()]
    for line in (header + steps).splitlines():
        assert any(found.startswith(line.rstrip()) for found in lines), line
    assert "2.0 MiB received by the busiest rank in 1 hop" in printed[1]


def test_scores(folder):
    """The slide encoder with ALiBi in the plane: the program, the Python call and the definition agree."""
    printed = [text for language, _, text in play("scores.md", folder) if language == "sh"]
    assert len(printed) == 1 and " ok, largest at " in printed[0] and "WRONG" not in printed[0]
    line, = quoted("scores.md")
    assert line.rstrip() in printed[0]


def test_padding(folder):
    played = play("padding.md", folder)
    printed = [text for language, _, text in played if language == "sh"]
    assert len(printed) == 2 and " ok, largest at " in printed[1] and "WRONG" not in printed[1]
    said, = quoted("padding.md")
    for line in said.splitlines():
        assert line.rstrip() in printed[1], line
    with h5py.File(folder / "padded.h5") as result:
        exists = np.arange(2048) < np.array([2048, 1024, 512, 256])[:, None]
        assert np.array_equal(np.isfinite(result["lse"]).all(axis=-1), exists)
        for name in ("out", "dq", "dk", "dv"):
            assert np.array_equal(np.any(np.array(result[name]) != 0, axis=(2, 3)), exists), name


@pytest.fixture
def with_own_tensors(folder):
    """Makes tokens.h5 and my.yaml, which docs/strategies.md assumes."""
    (folder / "my.yaml").write_text("input: {file: tokens.h5}\nattention: {segments: [64, all], dilations: [1, 4]}\n"
                                    "output: {file: result.h5}\n")
    shell("annulus generate --output tokens.h5 --sequence 512 --heads 4 --head-dim 16", folder)
    return folder


def test_strategies(with_own_tensors, monkeypatch):
    folder = with_own_tensors
    if "amx_bf16" in Path("/proc/cpuinfo").read_text():
        # With AMX float16 tensors are multiplied in parts, which takes more memory than the page says.
        monkeypatch.setenv("ANNULUS_INSTRUCTION_SET", "avx512")
    played = play("strategies.md", folder)
    printed = [text for language, _, text in played if language == "sh"]
    assert len(printed) == 4
    with h5py.File(folder / "build/own_tensors.h5") as sweep:
        assert set(sweep["cases/status"].asstr()) == {"ok"} and len(sweep["cases/status"]) == 10
    assert (folder / "strategies.png").stat().st_size > 10_000 and (folder / "auto.h5").is_file()
    assert re.search(r"^  strategy +rotation on 2 ranks", printed[0], re.MULTILINE)
    assert re.search(r"^  auto +\w+.*: predicted", printed[0], re.MULTILINE)
    assert annulus.settings(annulus.open_result(folder / "auto.h5"))["distribution"]["machine"].endswith("/this_machine.yaml")
    dry_run, schedule, plan = quoted("strategies.md")
    for line in dry_run.splitlines():
        assert line in printed[1] or line.startswith("# memory for a rank"), line  # depends on the machine
    for line in schedule.splitlines():
        assert line in printed[2], line
    heading, *rows = re.findall(r"^[* ] .*$", plan, re.MULTILINE)
    assert heading in printed[3] and len(rows) == 7
    for row in rows:  # times depend on the machine's calibration; memory and bytes are counted
        strategy, partition = row[2:].split()[:2]
        counts = row.split()[-5:]
        assert any(line[2:].split()[:2] == [strategy, partition] and line.split()[-5:] == counts
                   for line in printed[3].splitlines()), f"{row}\n{printed[3]}"


def test_memory_and_bytes_of_strategies_are_those_of_the_table(folder):
    """Every number of the table is what `--dry-run` prints, up to rounding."""
    text, = (text for language, text in blocks("strategies.md") if text.startswith("# far.yaml"))
    (folder / "far.yaml").write_text(text)

    def planned(strategy, ranks, more=""):
        """(memory of the fullest rank, received by the busiest) in MiB."""
        last = shell(f"annulus run --dry-run --ranks {ranks} far.yaml --set distribution.strategy={strategy} {more}",
                     folder).splitlines()[-1]
        numbers = re.search(r"at most (\S+) (\w+) of memory, \S+ \w+ sent, (\S+) (\w+) received", last)
        return [float(numbers[i]) * {"B": 2**-20, "KiB": 2**-10, "MiB": 1, "GiB": 1024}[numbers[i + 1]] for i in (1, 3)]

    page = (ROOT / "docs/strategies.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|[^|]*\| (\S+) \| (\d+), (\d+) \|$", page, re.MULTILINE)
    assert [row[0] for row in rows] == ["allgather", "ulysses", "ring", "rotation", "onesided"]
    for strategy, *numbers in rows:
        *by_ranks, received, memory_backward, received_backward = map(float, numbers)
        found = [planned(strategy, ranks) for ranks in (1, 2, 4, 8)]
        assert [memory for memory, _ in found] == pytest.approx(by_ranks, abs=0.6), strategy
        assert found[2][1] == pytest.approx(received, abs=0.06), strategy
        found = planned(strategy, 4, "--set compute.backward=true")
        assert found == pytest.approx([memory_backward, received_backward], abs=0.6), strategy


def test_sweeps(folder):
    """Runs the page's sweep, made smaller."""
    deck = folder / "input/bench/two_ranks.yaml"
    assert "[4096, 8192]" in deck.read_text()
    deck.write_text(deck.read_text().replace("[4096, 8192]", "[256, 512]").replace("segments: [2048,", "segments: [128,"))
    played = play("sweeps.md", folder)
    (_, commands, listed), = [one for one in played if one[0] == "sh" and "annulus bench" in one[1]]
    assert "--dry-run" in commands and "case 19 (" in listed and "20 of 20 cases are measured" in listed
    (_, _, shown), = [one for one in played if "annulus-tools show" in one[1]]
    assert len(re.findall(r"^ *\w+ +2 +(?:256|512) ", shown, re.MULTILINE)) == 20
    assert (folder / "two_ranks.png").stat().st_size > 10_000
    (_, _, table), = [one for one in played if one[0] == "python"]
    assert len(re.findall(r"^[a-z_]+ +[\d.]+ ms$", table, re.MULTILINE)) == 20
