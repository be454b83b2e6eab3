"""What a call's mask means: dense, causal, or something that annulus has no word for."""
import torch


def meaning(rows, mask, is_causal):
    """"dense", "causal", or "other" where the mask is neither: of `rows` rows, a bool or additive mask or None."""
    if is_causal:
        return "causal" if mask is None else "other"
    if mask is None:
        return "dense"
    allowed = mask if mask.dtype == torch.bool else _allowed(mask)
    if allowed is None or allowed.shape[-2:] not in ((rows, rows), (1, rows)):
        return "other"
    if bool(allowed.all()):
        return "dense"
    lower = torch.ones(rows, rows, dtype=torch.bool, device=mask.device).tril()
    return "causal" if allowed.shape[-2] == rows and bool((allowed == lower).all()) else "other"


def _allowed(mask):
    """Of an additive mask: where it adds 0. None where it adds anything but 0 and very large negative numbers."""
    zero = mask == 0
    hidden = mask <= torch.finfo(mask.dtype).min / 2  # -inf, or the least number there is
    return zero if bool((zero | hidden).all()) else None
