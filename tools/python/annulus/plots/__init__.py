"""Pictures. Every function returns a matplotlib Figure; `save` writes it, the suffix says as what (.png .svg .pdf).

    scaling(cases, "strong")  weak             cases: annulus.cases(["sweep.h5", "result.h5", ...])
    memory(cases)             strategies(cases)
    timeline(result)  traffic(result)  lse(result)    result: annulus.open_result("result.h5")
    loss(result)                                      of a training
    pattern(Pattern(...), rows)
"""
from annulus.plots.compared import strategies
from annulus.plots.maps import lse, pattern
from annulus.plots.measured import memory, scaling
from annulus.plots.ranks import timeline, traffic
from annulus.plots.style import save
from annulus.plots.training import loss

__all__ = ["loss", "lse", "memory", "pattern", "save", "scaling", "strategies", "timeline", "traffic"]
