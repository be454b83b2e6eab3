"""Compares the script of docs/fsdp.md on ranks with one process that uses the definition, and no fully_shard."""
import re
import sys

import pytest
import torch
from conftest import LAUNCHER, ROOT, run
from definition import composed, often, pattern_of

PAGE = (ROOT / "docs/fsdp.md").read_text(encoding="utf-8")
SCRIPT = ROOT / "tools/python/tests/fsdp_example.py"
PATTERN = ((64, 256, "all"), (1, 2, 4), True)


def expected(example, bfloat16):
    """(losses, norms of gradients) of the script's model with plain attention, on all rows at once."""
    counts = often(example.ROWS, example.HEADS, pattern_of(*PATTERN))

    class Plain(example.Layer):
        def forward(self, x):
            return self.compute(x)

        def attention(self, q, k, v):
            return composed(q, k, v, counts)[0]

    torch.manual_seed(0)
    model = example.Model()
    for layer in model.layers:
        layer.__class__ = Plain
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses, norms, rows = [], [], torch.arange(example.ROWS)
    for step in range(example.STEPS):
        text = torch.cat([example.texts(step * example.ACCUMULATED + turn) for turn in range(example.ACCUMULATED)])
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            scores = model(text[:, :-1], rows)
        loss = torch.nn.functional.cross_entropy(scores.float().flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def rounded(text):
    """The text, with numbers that have a point rounded to three decimals."""
    return re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.3f}", text)


@pytest.fixture(scope="module")
def one_process():
    """{whether with autocast to bfloat16: (losses, norms)}"""
    import fsdp_example
    return {bfloat16: expected(fsdp_example, bfloat16) for bfloat16 in (False, True)}


@pytest.mark.parametrize("ranks, bfloat16", [(1, False), (1, True), (2, False), (2, True), (3, False)])
def test_losses_and_gradients_are_those_of_one_process(ranks, bfloat16, one_process):
    told, _ = run(*LAUNCHER, "-n", ranks, sys.executable, "-P", SCRIPT, *["bfloat16"] * bfloat16)
    found = [tuple(map(float, numbers)) for numbers in re.findall(r"^step \d+  loss (\S+)  gradient (\S+)$", told, re.MULTILINE)]
    losses, norms = zip(*found)
    tolerance = 4e-3 if bfloat16 else 1e-5
    assert losses == pytest.approx(one_process[bfloat16][0], rel=tolerance, abs=0)
    assert norms == pytest.approx(one_process[bfloat16][1], rel=10 * tolerance, abs=0)
    assert losses[-1] < losses[0] - 1  # the model learns
    if bfloat16:  # autocast changes the losses
        assert losses != pytest.approx(one_process[False][0], rel=1e-6, abs=0)
    here, everywhere = map(int, re.search(rf"^rank 0 of {ranks} keeps (\d+) of (\d+) weights$", told, re.MULTILINE).groups())
    assert everywhere / ranks <= here < 1.05 * everywhere / ranks if ranks > 1 else here == everywhere
    if ranks == 2 and not bfloat16:
        printed = re.search(r"^```\n(step 0 .*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)[1]
        for quoted, line in zip(printed.split("\n...\n"), (told.splitlines()[0], "\n".join(told.splitlines()[-2:]))):
            assert rounded(quoted) == rounded(line)


def test_the_page_quotes_the_script():
    assert set(re.findall(r"^<!-- (tools/python/tests/\S+) -->$", PAGE, re.MULTILINE)) == {"tools/python/tests/fsdp_example.py"}
