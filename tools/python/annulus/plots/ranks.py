"""Pictures of what the ranks of one run did: the time of each hop, and how much each rank received from each other."""
import numpy as np

from annulus import arguments
from annulus.errors import AnnulusError
from annulus.plots import style
from annulus.results.dataset import settings

RANKS_SHOWN = 64


@arguments.checked(result=arguments.dataset, backward=arguments.flag)
def timeline(result, backward=False):
    """For each of the first 64 ranks, how long each hop took: waiting for the messages of the hop, then computing.

    A result has no times of day, only durations. So a rank's hops are drawn one after another, and all ranks begin at
    time 0.
    """
    prefix = "backward_" if backward else ""
    compute, wait = (_by_hop(result, f"{prefix}hop_{name}_seconds") for name in ("compute", "wait"))
    if compute.shape != wait.shape:
        raise AnnulusError(f"result has {prefix}hop_compute_seconds of shape {compute.shape} and {prefix}hop_wait_seconds of "
                           f"{wait.shape}; expected (ranks, hops) of both")
    shown = min(len(compute), RANKS_SHOWN)
    with style.look():
        figure = style.figure(9, max(2.8, 1.6 + 0.42 * shown))
        axes = figure.subplots()
        unit, unit_name = style.seconds_unit((compute + wait).sum(axis=1).max())
        begin = np.zeros(shown)
        shades = (style.COLOURS["blue"], style.COLOURS["sky"])
        for hop in range(compute.shape[1]):
            axes.barh(range(shown), wait[:shown, hop] / unit, 0.7, begin, color=style.COLOURS["orange"], hatch="////",
                      edgecolor="white", label="waiting for messages" if hop == 0 else None)
            begin += wait[:shown, hop] / unit
            axes.barh(range(shown), compute[:shown, hop] / unit, 0.7, begin, color=shades[hop % 2], edgecolor="white",
                      label=("computing, even hops", "computing, odd hops")[hop] if hop < 2 else None)
            _number_hops(axes, begin, compute[:shown, hop] / unit, hop, (compute + wait)[:shown].sum(axis=1) / unit)
            begin += compute[:shown, hop] / unit
        axes.set_yticks(range(shown) if shown <= 16 else range(0, shown, 8))
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_ylabel("rank")
        axes.set_xlabel(f"time, hops 0, 1, ... laid end to end, {unit_name}")
        figure.legend(loc="outside upper left", ncols=3, frameon=False)
        return figure


def _number_hops(axes, begin, length, hop, total):
    """Writes the hop's number into bars that are long enough."""
    if len(begin) > 16:
        return
    for rank, (start, width) in enumerate(zip(begin, length)):
        if width > 0.04 * total.max():
            axes.text(start + width / 2, rank, str(hop), ha="center", va="center", fontsize=12,
                      color="white" if hop % 2 == 0 else "black")


def _by_hop(result, name):
    """An array (ranks, hops) of the result."""
    if name not in result:
        raise AnnulusError(f"result has no {name}; expected /run/{name.replace('backward_', 'backward/')} of annulus run")
    if result[name].ndim != 2:
        raise AnnulusError(f"result has {name} of shape {result[name].shape}; expected (ranks, hops)")
    return result[name].values


def traffic_of(result, backward=False):
    """(matrix, source) or (None, why not). matrix[p, s]: bytes that rank p received from rank s; source: a text.

    A result has them as /run/bytes_from. An older result has only the bytes of each hop. For `ring` and `rotation` the
    hop's number says who sent them: rank p receives from p - 1 in every hop of the ring, and from p - d in hop d of a
    rotation.
    """
    prefix = "backward_" if backward else ""
    if f"{prefix}bytes_from" in result:
        return result[f"{prefix}bytes_from"].values, result.attrs.get("strategy", "")
    if f"{prefix}hop_bytes_received" not in result:
        return None, f"this result has no /run/{prefix.replace('_', '/')}hop_bytes_received"
    received = _by_hop(result, f"{prefix}hop_bytes_received")
    ranks, hops = received.shape
    strategy = _strategy(result)
    matrix = np.zeros((ranks, ranks))
    if not received.any():
        return matrix, "nothing was sent"
    if backward or strategy not in ("ring", "ring_blocking", "rotation"):
        return None, f"who sent to whom is not in this result, and does not follow from {strategy or 'its'} strategy"
    rank = np.arange(ranks)
    for hop in range(1, hops):
        distance = hop if strategy == "rotation" else 1
        matrix[rank, (rank - distance) % ranks] += received[:, hop]
    return matrix, f"from the hops of {strategy}"


def _strategy(result):
    """The strategy that ran; for an older result the strategy in its run file."""
    run_settings = settings(result) if "settings" in result.attrs else {}
    return result.attrs.get("strategy") or (run_settings.get("distribution") or {}).get("strategy", "")


@arguments.checked(result=arguments.dataset, backward=arguments.flag)
def traffic(result, backward=False):
    """Communication matrix: bytes that each rank received from each other rank, in the forward or the backward pass."""
    matrix, source = traffic_of(result, backward)
    if matrix is not None and (matrix.ndim != 2 or len(set(matrix.shape)) != 1):
        raise AnnulusError(f"bytes_from has shape {matrix.shape}; expected (ranks, ranks)")
    if matrix is None:
        raise AnnulusError(f"communication matrix: {source}; expected /run/bytes_from of annulus run")
    with style.look():
        figure = style.figure(6.6, 5.6)
        axes = figure.subplots()
        unit, unit_name = style.bytes_unit(max(matrix.max(), 1))
        shown = np.where(matrix > 0, matrix / unit, np.nan)
        image = axes.imshow(shown, cmap=style.MAP, vmin=0, vmax=max(matrix.max() / unit, 1e-9))
        ranks = len(matrix)
        if ranks <= 8:
            for receiver, sender in zip(*np.nonzero(matrix)):
                value = matrix[receiver, sender] / unit
                axes.text(sender, receiver, f"{value:.3g}", ha="center", va="center",
                          color="white" if value < 0.6 * matrix.max() / unit else "black")
        ticks = np.arange(0, ranks, max(1, ranks // 8))
        axes.set_xticks(ticks)
        axes.set_yticks(ticks)
        axes.grid(visible=False)
        axes.set_xlabel("sending rank")
        axes.set_ylabel("receiving rank")
        what = "keys, values and sums moved, backward pass" if backward else "keys and values moved"
        axes.set_title(f"{what}, {source}" if source else what)
        figure.colorbar(image, ax=axes, label=f"received, {unit_name} (white: nothing)", shrink=0.85)
        return figure
