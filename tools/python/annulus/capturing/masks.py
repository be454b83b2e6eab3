"""What a call's mask means: dense, causal, a window, or something that annulus cannot express."""
import torch


def placed(queries, keys, mask, is_causal):
    """(meaning, query_offset) of a mask for these numbers of rows of q and k. If both numbers are equal, the offset is
    None. Otherwise it is the row of k at which q begins, or "none" if every query sees every key,
    or None if the meaning is "other".

    Where the numbers differ, the mask of a window does not say where q begins, so its meaning is "other"."""
    if queries == keys:
        return meaning(keys, mask, is_causal), None
    if is_causal:  # PyTorch's causal mask begins at the first rows
        return ("causal", 0) if mask is None and queries <= keys else ("other", None)
    allowed = mask if mask is None or mask.dtype == torch.bool else _allowed(mask)
    if mask is None or (allowed is not None and bool(allowed.all())):
        return "dense", "none"
    if allowed is None or allowed.shape[-2:] != (queries, keys):
        return "other", None
    offset = int(allowed.reshape(-1, queries, keys)[0, 0].sum()) - 1
    if not 0 <= offset <= keys - queries or not bool((allowed == torch.ones_like(allowed).tril(offset)).all()):
        return "other", None
    return "causal", offset


def meaning(rows, mask, is_causal):
    """"dense", "causal", "window [left, right]", or "other" for any other mask. The mask is for `rows` rows: bool,
    additive, or None. In a window each row sees `left` rows before it and `right` after it."""
    if is_causal:
        return "causal" if mask is None else "other"
    if mask is None:
        return "dense"
    allowed = mask if mask.dtype == torch.bool else _allowed(mask)
    if allowed is None or allowed.shape[-2:] not in ((rows, rows), (1, rows)):
        return "other"
    if bool(allowed.all()):
        return "dense"
    if allowed.shape[-2] != rows:
        return "other"
    one = allowed.reshape(-1, rows, rows)[0]
    left, right = int(one[:, 0].sum()) - 1, int(one[0].sum()) - 1  # last row that sees row 0; last row that row 0 sees
    band = torch.ones(rows, rows, dtype=torch.bool, device=mask.device).tril(right).triu(-left)
    if min(left, right) < 0 or not bool((allowed == band).all()):
        return "other"
    return "causal" if (left, right) == (rows - 1, 0) else f"window [{left}, {right}]"


def _allowed(mask):
    """Where an additive mask adds 0. None if it adds anything but 0 and very large negative numbers."""
    zero = mask == 0
    hidden = mask <= torch.finfo(mask.dtype).min / 2  # -inf, or close to the most negative number
    return zero if bool((zero | hidden).all()) else None
