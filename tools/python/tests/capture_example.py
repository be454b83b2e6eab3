"""A program of docs/python.md; test_docs.py runs it in the folder of the page's commands."""
from pathlib import Path

import torch

import annulus

layer = torch.nn.TransformerEncoderLayer(d_model=64, nhead=4, batch_first=True)
model = torch.nn.TransformerEncoder(layer, num_layers=2).eval()
text = torch.randn(1, 256, 64)

with annulus.capture(model, "layer.h5", layer=1) as captured:  # or layer="layers.1", or all of them
    model(text)
print(captured)
Path("model.yaml").write_text(captured.run_file("layer.h5", "model.h5"))
