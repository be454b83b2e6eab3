"""Tests how tools/peers/run --field makes its tables, without the other codes' packages."""
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import torch

from annulus.pattern import Pattern
from definition import composed, often

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools/peers"))

import exact  # noqa: E402
import field  # noqa: E402
import standins  # noqa: E402
from cases import Case  # noqa: E402
from program import Failed  # noqa: E402
from worker import compared  # noqa: E402

PATTERNS = [(["all"], [1], "longnet"), ([8, 12, "all"], [1, 2, 4], "longnet"), ([8, 12, 24], [1, 2, 4], "grouped"),
            ([5, 7], [2, 3], "longnet")]


def random_case(tmp_path, segments, dilations, semantics, causal, rows=24):
    case = Case("test", rows, heads=4, head_dim=8, causal=causal, segments=segments, dilations=dilations,
                semantics=semantics)
    tensors = dict(zip(("q", "k", "v", "dout"), np.random.default_rng(3).normal(size=(4, 1, rows, 4, 8))))
    with h5py.File(tmp_path / "input.h5", "w") as file:
        file.update(tensors)
    return case, tensors


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_definition_in_numpy_is_that_of_autograd(tmp_path, pattern, causal):
    case, tensors = random_case(tmp_path, *pattern, causal)
    exact.make(asdict(case), tmp_path / "input.h5", tmp_path / "exact.h5")
    counts = often(case.sequence, 4, Pattern(tuple(pattern[0]), tuple(pattern[1]), causal, pattern[2]).checked())
    q, k, v = (torch.from_numpy(tensors[name]).requires_grad_() for name in ("q", "k", "v"))
    counts[counts.sum(-1) == 0] = torch.nan  # marks rows without a key, for which autograd does not give 0
    out, _ = composed(q, k, v, counts)
    seen = ~out.detach().isnan()
    with h5py.File(tmp_path / "exact.h5") as found:
        assert np.all(found["out"][()][~seen.numpy()] == 0)
        np.testing.assert_allclose(found["out"][()][seen.numpy()], out.detach()[seen], atol=1e-13)
        if seen.all():
            gradients = torch.autograd.grad(out, (q, k, v), torch.from_numpy(tensors["dout"]))
            for name, gradient in zip(("dq", "dk", "dv"), gradients):
                np.testing.assert_allclose(found[name][()], gradient, atol=1e-13)


def test_many_rows_are_sampled_and_the_others_not_compared(tmp_path, monkeypatch):
    case, _ = random_case(tmp_path, [8, 12], [1, 2], "longnet", True)
    exact.make(asdict(case), tmp_path / "input.h5", tmp_path / "whole.h5")
    monkeypatch.setattr(exact, "SAMPLED_ABOVE", 20)
    monkeypatch.setattr(exact, "SAMPLE", 6)
    exact.make(asdict(case), tmp_path / "input.h5", tmp_path / "sampled.h5")
    with h5py.File(tmp_path / "whole.h5") as whole, h5py.File(tmp_path / "sampled.h5") as sampled:
        assert set(sampled) == {"out", "dq"}
        for name in sampled:
            known = ~np.isnan(sampled[name][()])
            assert known.sum() == 6 * 4 * 8
            assert compared(whole[name][()], sampled[name][()])["difference"] < 1e-6
    broken = np.full((1, 2), np.nan)
    assert np.isnan(compared(broken, np.ones((1, 2)))["difference"]), "NaN of a peer must not look right"


@pytest.mark.parametrize("causal", [False, True])
def test_the_stand_in_for_flash_attn_is_attention(causal):
    torch.manual_seed(5)
    q, k, v, dout = (torch.randn(2, 48, 3, 16, requires_grad=True) for _ in range(4))
    out, lse, _ = standins.flash_attn_func(q, k, v, causal=causal, return_attn_probs=True)
    mask = torch.ones(48, 48).tril() if causal else torch.ones(48, 48)
    ours, our_lse = composed(q.double(), k.double(), v.double(), mask.expand(3, 48, 48))
    torch.testing.assert_close(out.double(), ours, atol=1e-5, rtol=0)
    torch.testing.assert_close(lse.transpose(1, 2).double(), our_lse, atol=1e-5, rtol=0)
    theirs = torch.autograd.grad(ours, (q, k, v), dout.double())
    for mine, other in zip(torch.autograd.grad(out, (q, k, v), dout), theirs):
        torch.testing.assert_close(mine.double(), other.double(), atol=2e-5, rtol=0)
    with pytest.raises(NotImplementedError):
        standins.flash_attn_func(q, k, v, window_size=(4, 0))


def passes(forward, backward):
    return {"forward": {"cpu": forward, "wall": 2 * forward}, "backward": {"cpu": backward, "wall": 2 * backward}}


class Peers:
    """Stands for the workers: one peer is wrong, one fails, others are right. `order` lists the peers as measured."""

    python, order = None, []

    def get(self, peer, case):
        def ask(command, limit):
            if peer == "ring-attention":
                raise Failed("it broke | so it is not there")
            error = 1.0 if peer == "yunchang" else 1e-7
            return [{"check": {name: {"difference": error, "largest": 2.0} for name in ("out", "dq", "dk", "dv")}}] * 2

        def measure(memory, limit):
            self.order.append(peer)
            return passes(2.0, 4.0) | ({"forward extra": 1 << 20, "forward+backward extra": 3 << 20} if memory else {})

        return SimpleNamespace(ask=ask, measure=measure)


def test_wrong_and_missing_peers_stay_in_the_table(monkeypatch):
    everyone = [field.ALLGATHER, field.RING_ATTENTION, field.Who("a ring", "yunchang"), field.ULYSSES,
                *field.ours("ring")]
    table = field.Table("Two", [Case("two", 64, ranks=2, rounds=2)], everyone)
    annulus = SimpleNamespace(folder=Path("."), input_file=lambda case: "input.h5", run=lambda case, backward:
                              (passes(1.0, 2.0) if backward else {"forward": passes(1.0, 2.0)["forward"]}) |
                              {"forward+backward extra" if backward else "forward extra": 1 << 20})
    right = {name: {"difference": 1e-7, "largest": 1.0} for name in ("out", "dq", "dk", "dv")}
    monkeypatch.setattr(field, "launch", lambda *_: {"text": json.dumps(right)})
    peers = Peers()
    measured = field.Field(annulus, peers, {"torch": "2", "yunchang": "1", "ring-attention-pytorch": "1"}, 1)
    lines = field.printed(table, [(table.cases[0], measured.measure(table, table.cases[0], 60))])
    assert peers.order == ["allgather", "yunchang"] * 2, "rounds are interleaved, and who failed is not asked again"
    lines = {line.split("|")[1].strip(): line for line in lines if line.startswith("|")}
    assert lines["all-gather over gloo (PyTorch)"].endswith("| 4000; 12000 | 2000; 6000 | 1.00; 1.00 | 1.00; 1.00 "
                                                            "| 1; 3 | 5e-8; 5e-8 | right |")
    assert "0.5; 0.5 | **wrong: all**" in lines["a ring (s)"]
    assert "left out: it broke / so it is not there" in lines["ring-attention-pytorch"]
    assert "left out: not installed" in lines["DeepSpeed Ulysses"]
    assert lines["annulus, `ring`"].endswith("| 2000; 6000 | 1000; 3000 | 2.00; 2.00 | 2.00; 2.00 | 1; 1 | 1e-7; 1e-7 "
                                             "| right |")


def test_memory_has_a_column_for_each_number_of_ranks():
    cases = [Case("memory", 64, ranks=ranks) for ranks in (1, 2)]
    table = field.Table("Memory", cases, [field.ALLGATHER, *field.ours("ring")], "memory")
    annulus = {"extra": {"forward+backward extra": 7 << 20, "forward extra": 2 << 20}}  # not in the order of the table
    records = {field.ALLGATHER.name: {"left out": "not installed"}, "annulus, `ring`": annulus}
    lines = field.printed(table, [(case, records) for case in cases])
    assert "| annulus, `ring` | 2; 7 | 2; 7 |" in lines
    assert f"| {field.ALLGATHER.name} | left out | left out |" in lines


def test_not_a_number_is_wrong():
    assert field.verdict({"errors": {"out": float("nan")}})[1] == "**wrong: out**"
    errors = {"out": 1e-6, "dq": 1e-6, "dk": float("nan"), "dv": 1e-6}
    assert field.verdict({"errors": errors}) == ("1e-6; nan", "**wrong: dk**")
