"""The definition of docs/semantics.md in float64, head by head, in blocks of queries. Results are compared with this.

    exact.py make CASE-JSON INPUT OUTPUT      writes out (and dq, dk, dv); if there are many rows, only sampled ones
    exact.py compare RESULT EXACT             prints {"out": {"difference", "largest"}, ...} for tensors of both

Nothing here is shared with annulus or with a peer.
"""
import json
import sys

import h5py
import numpy

ALL = "all"
BLOCK = 256  # queries at once: scores are (256, n)
SAMPLED_ABOVE, SAMPLE = 1 << 16, 64  # above this, only 64 sampled rows of out and dq


def offset(case, index, head):
    """The offset of a head in pair `index`; None if the head does not use the pair."""
    heads, pairs, r = case["heads"], len(case["dilations"]), case["dilations"][index]
    if case["semantics"] == "longnet":
        return head // -(-heads // r)
    first = [g * (heads // pairs) + min(g, heads % pairs) for g in (index, index + 1)]
    return index % r if first[0] <= head < first[1] else None


def multiplicity(case, head, rows):
    """(rows, n): in how many pairs a query sees a key. For n = 4, pairs (2, 1), (4, 2), row 0, head 0: 2 1 1 0."""
    keys = numpy.arange(case["sequence"])
    count = numpy.zeros((len(rows), len(keys)))
    for index, (w, r) in enumerate(zip(case["segments"], case["dilations"])):
        w, o = case["sequence"] if w == ALL else w, offset(case, index, head)
        if o is not None:
            own, theirs = (numpy.where(at % w % r == o, at // w, none) for at, none in ((rows, -1), (keys, -2)))
            count += own[:, None] == theirs  # in the same segment, both picked
    return numpy.where(keys <= rows[:, None], count, 0) if case["causal"] else count


def of_head(case, head, tensors, rows):
    """{name: (rows or n, head size)} of one head; `rows` are the queries."""
    q, k, v, *dout = tensors
    scale, found = q.shape[1] ** -0.5, {name: [] for name in (["out", "dq"] if dout else ["out"])}
    dk, dv = numpy.zeros_like(k), numpy.zeros_like(v)
    for first in range(0, len(rows), BLOCK):
        x = rows[first:first + BLOCK]
        count = multiplicity(case, head, x)
        scores = numpy.where(count > 0, scale * (q[x] @ k.T), -numpy.inf)
        top = scores.max(1, keepdims=True)
        weights = count * numpy.exp(scores - numpy.where(numpy.isfinite(top), top, 0))
        total = weights.sum(1, keepdims=True)
        weights /= numpy.where(total > 0, total, 1)
        out = weights @ v
        found["out"].append(out)
        if dout:
            d = dout[0][x]
            dscores = weights * (d @ v.T - (d * out).sum(1, keepdims=True))
            found["dq"].append(scale * (dscores @ k))
            dk += scale * (dscores.T @ q[x])
            dv += weights.T @ d
    found = {name: numpy.concatenate(blocks) for name, blocks in found.items()}
    return found | ({"dk": dk, "dv": dv} if dout and len(rows) == len(k) else {})


def make(case, source, target):
    n, heads = case["sequence"], case["heads"]
    sampled = n > SAMPLED_ABOVE
    rows = numpy.sort(numpy.random.default_rng(1).choice(n, SAMPLE, False)) if sampled else numpy.arange(n)
    names = ["q", "k", "v"] + (["dout"] if case["backward"] else [])
    with h5py.File(source) as given, h5py.File(target, "w") as written:
        for head in range(heads):
            found = of_head(case, head, [given[name][0, :, head].astype(float) for name in names], rows)
            for name, values in found.items():
                if name not in written:  # rows that are not written stay NaN
                    written.create_dataset(name, (1, n, heads, values.shape[1]), "f4" if sampled else "f8",
                                           fillvalue=numpy.nan, chunks=(1, min(n, 512), 1, values.shape[1]))
                written[name][0, rows if values.shape[0] < n else slice(None), head] = values


def compare(mine, reference):
    """The largest difference, and the largest number of the reference. Rows of NaN in the reference are left out."""
    known = ~numpy.isnan(reference)
    return {"difference": float(numpy.max(numpy.abs(mine[known] - reference[known]))),
            "largest": float(numpy.max(numpy.abs(reference[known])))}


def main():
    if sys.argv[1] == "make":
        make(json.loads(sys.argv[2]), *sys.argv[3:])
        return
    with h5py.File(sys.argv[2]) as result, h5py.File(sys.argv[3]) as exact:
        print(json.dumps({name: compare(result[name][()].astype(float), exact[name][()])
                          for name in ("out", "dq", "dk", "dv") if name in exact and name in result}))


if __name__ == "__main__":
    main()
