"""Opens results, makes inputs, draws pictures and computes attention, in notebooks and scripts.

    import annulus
    result = annulus.open_result("result.h5")                  # an xarray Dataset; its numbers are read when used
    annulus.convert("tensors.npz", "tokens.h5", axes="bhsd")   # also from and to .npy, safetensors, .pt, Zarr
    with annulus.capture(model, "tokens.h5", layer=4):         # writes Q, K, V of layer 4 of a PyTorch model
        model(batch)
    annulus.plots.strategies(annulus.cases(["sweep.h5"]))      # matplotlib figures
    annulus.plots.slide(result, coords)                        # a map: the attention that each tile receives
    annulus.token_page("result.h5", tokens, "text.html")       # a text, shaded by the attention that tokens receive
    annulus.report("result.h5", "result.html")                 # one HTML page about a result, with pictures

annulus.attention() takes arrays in memory. (annulus.torch.dilated_attention() also has gradients.)

    out, lse = annulus.attention(q, k, v, segments=[2048, "all"], dilations=[1, 16], causal=True)
    out, lse = annulus.attention(q, k, v, segments=[annulus.window(4096)], dilations=[1], causal=True)

annulus.redistribute(x, from_plan, to_plan, comm) moves rows from one partition of the sequence to another.

The tools for files can also be used from a shell: `python -m annulus --help`, or `annulus-tools --help`.
"""
import importlib

__version__ = "0.1.0"

# The module of each name is imported when the name is first used, because importing numpy takes longer than many
# commands of annulus-tools run.
_MODULES = {
    "AnnulusError": "errors",
    "Pattern": "pattern",
    "attention": "calls",
    "capture": "capturing",
    "cases": "results.cases",
    "convert": "conversion",
    "coordinates": "grid",
    "description": "processors",
    "open_input": "results.dataset",
    "open_result": "results.dataset",
    "open_sweep": "results.dataset",
    "grid": None,
    "info": "processors",
    "plan": "calls",
    "plots": None,
    "redistribute": "redistribution",
    "reference": "verification",
    "report": "html",
    "set_threads": "processors",
    "settings": "results.dataset",
    "threads": "processors",
    "token_page": "tokens",
    "torch": None,
    "verify": "verification",
    "window": "options",
}
__all__ = sorted(_MODULES)


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module 'annulus' has no attribute '{name}'")
    module = _MODULES[name]
    if module is None:
        return importlib.import_module(f"annulus.{name}")
    return getattr(importlib.import_module(f"annulus.{module}"), name)


def __dir__():
    return sorted([*globals(), *__all__])
