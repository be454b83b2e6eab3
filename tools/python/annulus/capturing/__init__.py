"""capture: writes Q, K, V of a PyTorch model's attention to a file that `annulus run` reads.

    with annulus.capture(model, "tokens.h5", layer=4) as captured:
        model(batch)
    print(captured)           # layer 4, encoder.layer.4.attention.self: q (1, 12, 512, 32), ... float32, dense
    print(captured.run_file("tokens.h5", "result.h5"))   # YAML for `annulus run`
"""
from annulus.capturing.recorder import capture

__all__ = ["capture"]
