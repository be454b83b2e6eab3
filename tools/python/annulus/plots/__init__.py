"""Pictures. Every function returns a matplotlib Figure; `save` writes it as its suffix says (.png .svg .pdf).

    scaling(cases, "strong")  memory(cases)           cases: annulus.cases(["sweep.h5", "result.h5", ...])
    scaling(cases, "weak")    strategies(cases)
    timeline(result)  traffic(result)  lse(result)    result: annulus.open_result("result.h5")
    entropy(result)   received(result)                result of a run with output.statistics
    slide(result, coords)                             one of these on a slide: coords (N, 2) of its tiles
    loss(result)                                      result of a training
    pattern(Pattern(...), rows)
"""
from annulus.plots.compared import strategies
from annulus.plots.heads import entropy, lse, received
from annulus.plots.measured import memory, scaling
from annulus.plots.patterns import pattern
from annulus.plots.ranks import timeline, traffic
from annulus.plots.slides import slide
from annulus.plots.style import save
from annulus.plots.training import loss

__all__ = ["entropy", "loss", "lse", "memory", "pattern", "received", "save", "scaling", "slide", "strategies", "timeline",
           "traffic"]
