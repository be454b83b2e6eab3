"""What a mask of PyTorch means, found from its numbers: a window, a causal mask, or which rows exist."""
import numpy as np

from annulus.errors import AnnulusError
from annulus.options import Window, lengths_of_mask

SAID = ("expected a mask of padding at both ends of queries and keys, or of keys alone, or a causal mask, or a "
        "window")


def _limits(there, where):
    """(left, right): how far rows see before and after themselves in a band mask (n, n); each is at most n - 1."""
    n = len(there)
    steps = np.arange(n)[:, None] - np.arange(n)
    left, right = (int(steps[there].max(initial=0)), int(-steps[there].min(initial=0)))
    if not np.array_equal(there, (-right <= steps) & (steps <= left)):
        raise AnnulusError(f"attn_mask{where} is no band of keys around each query, {SAID}")
    return left, right


def _entry(mask, number, where):
    """((first row, end), (left, right, n)) of a mask (S, S): rows that see anything, and how far these n rows see."""
    rows, = lengths_of_mask(mask.any(axis=1)[None], "attn_mask", "queries", number)
    keys, = lengths_of_mask(mask.any(axis=0)[None], "attn_mask", "keys", number)
    if rows != keys:
        raise AnnulusError(f"attn_mask{where} has queries {rows[0]} to {rows[1]} and keys {keys[0]} to {keys[1]}, {SAID}")
    begin, end = rows
    return rows, (*_limits(mask[begin:end, begin:end], where), end - begin)


def _common(limits, name):
    """The limit that all entries share, from the (limit, rows) of each. An entry whose own limit is rows - 1 may be too
    short to show the common limit. None: no entry shows one."""
    narrow = {limit for limit, rows in limits if limit < rows - 1}
    wide = max((rows - 1 for limit, rows in limits if limit == rows - 1), default=-1)
    if not narrow:
        return None
    if len(narrow) > 1 or wide > max(narrow):
        raise AnnulusError(f"attn_mask lets rows of some entries see farther {name} than those of others, expected the same")
    return narrow.pop()


def asked_by(mask, settings, batch):
    """The settings that a bool mask (1 or B, 1 or H, 1 or Sq, S) means."""
    if mask.all():
        return settings
    if not (mask == mask[:, :1]).all():
        raise AnnulusError("attn_mask differs from head to head, expected one mask for all heads")
    if (mask == mask[:, :, :1]).all():  # all queries see the same keys
        if settings.bias:
            raise AnnulusError("attn_mask hides keys from all queries, and bias is given, for which queries need row numbers; "
                               "expected lengths=, or a mask that hides the queries of these rows, too")
        lengths = lengths_of_mask(mask[:, 0, 0], "attn_mask", "keys") * (1 if len(mask) == batch else batch)
        return settings._replace(lengths=lengths, query_offset="none")
    if mask.shape[2] != mask.shape[3]:
        raise AnnulusError(f"attn_mask has {mask.shape[2]} rows of queries and {mask.shape[3]} of keys, and queries see "
                           "different keys; expected as many rows, or a mask of keys alone")
    entries = [_entry(one, b, f" of entry {b}" if len(mask) > 1 else "") for b, one in enumerate(mask[:, 0])]
    left = _common([(left, rows) for _, (left, _, rows) in entries if rows], "back")
    right = _common([(right, rows) for _, (_, right, rows) in entries if rows], "ahead")
    lengths = tuple(rows for rows, _ in entries) * (1 if len(entries) == batch else batch)
    settings = settings._replace(lengths=lengths, causal=right == 0)
    if left is None and right in (None, 0):
        return settings
    most = mask.shape[3]
    return settings._replace(segments=(Window(most if left is None else left, most if right is None else right),))
