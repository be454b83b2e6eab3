"""Attention by its definition (docs/semantics.md), row by row in NumPy float64; it shares nothing with the program."""
import numpy as np


def slopes_of(heads):
    """ALiBi's slopes, as docs/semantics.md defines them."""
    if heads & (heads - 1) == 0:
        return [2.0 ** (-8 * i / heads) for i in range(1, heads + 1)]
    below = 1 << (heads.bit_length() - 1)
    return slopes_of(below) + slopes_of(2 * below)[0::2][:heads - below]


class Attention:
    """One batch entry's rows: settings are the section `attention` of a run file.

    begins, ends   of the documents: rows [begins[i], ends[i]) exist, all others do not
    first_query    row at which the queries begin; None: every query sees every key
    """

    def __init__(self, settings, heads, kv_heads, begins, ends, first_query=0, sink=None, coordinates=None):
        self.settings, self.heads, self.group = settings, heads, heads // kv_heads
        self.begins, self.ends, self.first_query, self.sink = begins, ends, first_query, sink
        self.coordinates = coordinates
        self.causal = settings.get("causal", True)
        self.semantics = settings.get("semantics", "longnet")
        self.pairs = list(zip(settings.get("segments", ["all"]), settings.get("dilations", [1])))

    def _own_pair(self, head):
        """The pair of a head under `grouped`: the first H mod G groups have one head more."""
        groups = len(self.pairs)
        sizes = [self.heads // groups + (i < self.heads % groups) for i in range(groups)]
        return int(np.searchsorted(np.cumsum(sizes), head, side="right"))

    def _met(self, head, x, rows):
        """(how often row x of a document of `rows` rows sees each of them, how many zeros of torchscale's padding)."""
        p, count, filled = np.arange(rows), np.zeros(rows), 0
        for i, (w, r) in enumerate(self.pairs):
            if self.semantics == "grouped" and self._own_pair(head) != i:
                continue
            if isinstance(w, dict):
                window = w["window"]
                left, right = window if isinstance(window, list) else (window - 1, 0 if self.causal else window - 1)
                near = ((x - p) % r == 0) & (x - p <= left * r) & (x - p >= -right * r)
                count += near | (p < w.get("first", 0))
                continue
            w = rows if w == "all" else w
            offset = head % r if self.semantics == "paper" else i % r if self.semantics == "grouped" else \
                head // -(-self.heads // r)
            if x % w % r != offset:
                continue
            seen = (p // w == x // w) & (p % w % r == offset)
            count += seen
            if self.semantics == "torchscale" and not self.causal:
                filled += -(-min(w, rows) // r) - int(seen.sum())
        return (count * (p <= x) if self.causal else count), filled

    def row(self, q, k, v, head, query):
        """(weights (S), lse, scores (S)) of one query; q, k, v (rows, heads, D) of one batch entry."""
        keys, kv = k.shape[0], head // self.group
        scale = self.settings.get("scale", "auto")
        product = k[:, kv] @ q[query, head] * (q.shape[-1] ** -0.5 if scale == "auto" else scale)
        count, filled, score = np.zeros(keys), 0, product
        cap, bias = self.settings.get("softcap", "none"), self.settings.get("bias", "none")
        if cap != "none":
            score = cap * np.tanh(product / cap)
        if self.first_query is None:
            count[:] = 1
        else:
            x = self.first_query + query
            for begin, end in zip(self.begins, self.ends):
                if not begin <= x < end:
                    continue
                count[begin:end], filled = self._met(head, x - begin, end - begin)
                if bias != "none":
                    score = score - self._bias(bias, head, x, begin, keys)
        if count.sum() + filled == 0:
            return np.zeros(keys), -np.inf, score
        terms = [np.where(count > 0, score, -np.inf), np.zeros(1)]
        factors = [count, np.array([float(filled)])]
        if self.sink is not None:
            terms.append(self.sink[head:head + 1])
            factors.append(np.ones(1))
        terms, factors = np.concatenate(terms), np.concatenate(factors)
        most = terms[factors > 0].max()
        lse = most + np.log((factors * np.exp(np.minimum(terms - most, 0))).sum())
        return count * np.exp(np.where(count > 0, score - lse, -np.inf)), lse, score

    def _bias(self, bias, head, x, begin, keys):
        slopes = slopes_of(self.heads) if bias["alibi"] == "auto" else bias["alibi"]
        p = np.arange(keys)
        far = np.abs(x - p).astype(float) if self.coordinates is None else \
            np.linalg.norm(self.coordinates[x] - self.coordinates, axis=1)
        exempt = bias.get("exempt", 0)
        return slopes[head] * far * ((x - begin >= exempt) & (p - begin >= exempt))

    def forward(self, q, k, v, head, queries):
        """out (rows, D), lse (rows) of some queries of one head."""
        found = [self.row(q, k, v, head, query) for query in queries]
        return np.array([w @ v[:, head // self.group] for w, _, _ in found]), np.array([lse for _, lse, _ in found])

    def backward(self, q, k, v, dout, dlse, heads):
        """dq, dk, dv of a K/V head's query heads `heads`, all of them; arrays (rows, H or 1, D)."""
        scale, cap = self.settings.get("scale", "auto"), self.settings.get("softcap", "none")
        scale = q.shape[-1] ** -0.5 if scale == "auto" else scale
        dq, kv = np.zeros((q.shape[0], len(heads), q.shape[-1])), heads[0] // self.group
        dk, dv = np.zeros((k.shape[0], k.shape[-1])), np.zeros((k.shape[0], k.shape[-1]))
        for i, head in enumerate(heads):
            for x in range(q.shape[0]):
                weight, lse, _ = self.row(q, k, v, head, x)
                if not np.isfinite(lse):
                    continue
                delta = dout[x, head] @ (weight @ v[:, kv]) - dlse[x, head]
                slope = weight * (v[:, kv] @ dout[x, head] - delta)
                if cap != "none":
                    slope = slope * (1 - np.tanh(k[:, kv] @ q[x, head] * scale / cap) ** 2)
                dq[x, i] = scale * (slope @ k[:, kv])
                dk += scale * np.outer(slope, q[x, head])
                dv += np.outer(weight, dout[x, head])
        return dq, dk, dv
