"""Computes statistics by the definition in docs/semantics.md, with whole matrices in float64; writes result files."""
import h5py
import numpy as np

from annulus.pattern import Pattern

TENSORS = {"out": "batch sequence head dim", "lse": "batch sequence head", "entropy": "batch sequence head",
           "received": "batch sequence head", "top_rows": "batch sequence head top", "top_weights": "batch sequence head top"}


def filled_in(pattern, rows, head, heads):
    """(rows,): how many keys of score 0 torchscale's padding adds for each row (docs/semantics.md)."""
    row, count = np.arange(rows), np.zeros(rows)
    if pattern.semantics != "torchscale" or pattern.causal:
        return count
    for pair, (length, rate) in enumerate(zip(pattern.segments, pattern.dilations)):
        length = rows if length == "all" else min(length, rows)
        picked = row % length % rate == pattern.offset(pair, head, heads)
        there = np.array([picked[row // length == segment].sum() for segment in row // length])
        count += picked * (-(-length // rate) - there)
    return count


def probabilities(q, k, pattern, documents=None):
    """P (H, S, S), lse and entropy (S, H) of one batch entry: q (S, H, D), k (S, Hkv, D) in float64."""
    rows, heads, dim = q.shape
    P, lse, entropy = np.zeros((heads, rows, rows)), np.full((rows, heads), -np.inf), np.zeros((rows, heads))
    boundaries = [0, rows] if documents is None else documents
    for begin, end in zip(boundaries, boundaries[1:]):
        for head in range(heads):
            s = q[begin:end, head] @ k[begin:end, head // (heads // k.shape[1])].T / np.sqrt(dim)
            mult = pattern.multiplicity(np.arange(end - begin), end - begin, head, heads)
            total = (mult * np.exp(s)).sum(axis=1) + filled_in(pattern, end - begin, head, heads)
            seen = total > 0
            here = np.divide(mult * np.exp(s), total[:, None], where=seen[:, None], out=np.zeros(s.shape))
            P[head, begin:end, begin:end] = here
            lse[begin:end, head][seen] = np.log(total[seen])
            entropy[begin:end, head][seen] = np.log(total[seen]) - (here * s).sum(axis=1)[seen]
    return P, lse, entropy


def statistics(q, k, v, pattern, top_keys, documents=None):
    """{dataset: numbers} of batches q (B, S, H, D), k and v (B, S, Hkv, D)."""
    found = {name: [] for name in TENSORS}
    for entry in range(len(q)):
        P, lse, entropy = probabilities(q[entry], k[entry], pattern, documents)
        v_of_head = np.repeat(v[entry], q.shape[2] // k.shape[2], axis=1)
        order = np.argsort(-P, axis=2, kind="stable")[:, :, :top_keys]  # stable: of equal weights the smaller row first
        weights = np.take_along_axis(P, order, axis=2)
        for name, numbers in (("out", np.einsum("hxp,phd->xhd", P, v_of_head)), ("lse", lse), ("entropy", entropy),
                              ("received", P.sum(axis=1).T), ("top_rows", np.where(weights > 0, order, -1).swapaxes(0, 1)),
                              ("top_weights", weights.swapaxes(0, 1))):
            found[name].append(numbers)
    return {name: np.array(numbers) for name, numbers in found.items()}


def write_result(path, found, element="f4", leave_out=()):
    """Writes the numbers to a file like a result of `annulus run`; `element`: type of all but received and top_rows."""
    kinds = {"received": "f8", "top_rows": "i8"}
    with h5py.File(path, "w") as file:
        for name, numbers in found.items():
            if name not in leave_out:
                made = file.create_dataset(name, data=numbers.astype(kinds.get(name, element)))
                made.attrs["axes"] = TENSORS[name]
                made.attrs["units"] = "nats" if name in ("lse", "entropy") else "1"
        file["run/rows"] = [found["lse"].shape[1]]
        file["run/settings"] = "attention: {segments: [all], dilations: [1]}\n"
        file["provenance/x"] = [0]
    return path


def random_tensors(rows, heads, kv_heads, dim=8, batch=1, seed=0):
    """q, k, v in float64; scores large enough that some keys matter more than others."""
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((batch, rows, count, dim)) * 1.5 for count in (heads, kv_heads, kv_heads)]


def example(path, rows=40, heads=4, batch=2, top_keys=3, leave_out=(), **of_pattern):
    """(numbers, path) of a small result with GQA and two pairs, where rows see some keys in both pairs."""
    pattern = Pattern(**({"segments": (8, "all"), "dilations": (1, 2), "causal": False} | of_pattern))
    q, k, v = random_tensors(rows, heads, heads // 2, batch=batch)
    found = statistics(q, k, v, pattern, top_keys)
    return found, write_result(path, found, leave_out=leave_out)
