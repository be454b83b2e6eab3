"""annulus.capture in training: inside torch.autocast, and with dropout, which annulus does not have."""
import h5py
import numpy as np
import pytest
import torch
from conftest import program
from torch import nn
from torch.nn import functional as F

import annulus
from annulus.errors import AnnulusError

ROWS, WIDTH, HEADS = 24, 32, 4


class Model(nn.Module):
    """Casts the tensors in `upcast` to float32 before attention, as rotary embeddings do."""

    def __init__(self, upcast="", dropout=0.0):
        super().__init__()
        self.qkv, self.upcast, self.dropout = nn.Linear(WIDTH, 3 * WIDTH), upcast, dropout

    def forward(self, x):
        parts = [t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1)]
        q, k, v = (t.float() if name in self.upcast else t for name, t in zip("qkv", parts))
        self.out = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0)
        return self.out


class Capped(nn.Module):
    """Attention by hand, because its scores have a cap, with dropout of the weights."""

    def forward(self, q):
        weights = torch.softmax(torch.tanh(q @ q.mT / 8) * 8, dim=-1)
        return F.dropout(weights, 0.5, self.training) @ q


@pytest.mark.parametrize("upcast", ["", "qk", "qkv"])
def test_autocast(tmp_path, upcast):
    """PyTorch casts q, k and v to autocast's type, whatever they were; the file has what it computed with."""
    torch.manual_seed(0)
    model = Model(upcast)
    with torch.autocast("cpu", torch.bfloat16), annulus.capture(model, tmp_path / "t.h5", layer=0, dout=True) as captured:
        model(torch.randn(2, ROWS, WIDTH)).float().square().sum().backward()
    assert captured.layers[0].element == "bfloat16"
    (tmp_path / "run.yaml").write_text(captured.run_file("t.h5", "o.h5"))
    program("run", "run.yaml", folder=tmp_path)
    found = annulus.open_result(tmp_path / "o.h5").out.values
    np.testing.assert_allclose(found, model.out.detach().float().numpy(), atol=0.02, rtol=0.02)
    with h5py.File(tmp_path / "o.h5") as file:
        assert {"dq", "dk", "dv"} <= set(file)


def test_dropout(tmp_path):
    """Tensors can be captured, but no run computes what the model did."""
    model, x = Model(dropout=0.5), torch.randn(2, ROWS, WIDTH)
    with annulus.capture(model.train(), tmp_path / "t.h5", layer=0) as captured:
        model(x)
    assert str(captured).endswith("float32, dense, dropout 0.5")
    with pytest.raises(AnnulusError, match="layer 0 .the model itself.: its attention has dropout 0.5, and annulus has none"):
        captured.run_file("t.h5", "o.h5")
    with annulus.capture(model.eval(), tmp_path / "t.h5", layer=0, overwrite=True) as captured:
        model(x)
    assert captured.run_file("t.h5", "o.h5") and "dropout" not in str(captured)


def test_dropout_by_hand(tmp_path):
    model, q = Capped(), torch.randn(1, 2, 5, 4)
    with pytest.raises(AnnulusError, match="its scores have a cap and go through dropout"):
        with annulus.capture(model.train(), tmp_path / "t.h5", layer=0):
            model(q)
    assert list(tmp_path.iterdir()) == []
    with annulus.capture(model.eval(), tmp_path / "t.h5", layer=0) as captured:
        model(q)
    assert len(captured.layers) == 1
