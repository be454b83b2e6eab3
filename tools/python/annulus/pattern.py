"""Which keys a query sees, computed from the definition in docs/semantics.md. It is slow, so only pictures use it.

Pair (w, r) picks row x, for a head with offset o, if (x mod w) mod r == o. A query that a pair picks sees the keys that
the pair picks in the same segment (causal: up to the query's row), once for every such pair. If a pair is a window, row
x sees the rows x - j r, -right <= j <= left.
"""
from typing import NamedTuple, Optional

import numpy as np

from annulus import arguments, options
from annulus.errors import AnnulusError

SEMANTICS = ("longnet", "paper", "grouped", "torchscale")
KINDS = {"segments": options.segments, "dilations": options.dilations, "causal": arguments.flag,
         "semantics": arguments.choice(*SEMANTICS)}
ROWS = arguments.array("an array of rows", "iu")
ROWS_MOST = 1 << 24  # of the sequence; every query needs memory for all rows
HEAD = {"head": arguments.whole(0), "heads": arguments.whole(1)}


class Pattern(NamedTuple):
    """`segments` and `dilations` have one entry per pair; a segment is a number of rows, "all" or a window()."""
    segments: tuple = ("all",)
    dilations: tuple = (1,)
    causal: bool = True
    semantics: str = "longnet"

    @classmethod
    @arguments.checked(settings=arguments.dictionary)
    def of_settings(cls, settings):
        """The pattern in the section `attention` of a run file; missing keys have their defaults."""
        section = arguments.dictionary(settings.get("attention") or {}, "attention")
        chosen = {key: section[key] for key in cls._fields if key in section}
        return cls(**chosen).checked()

    @classmethod
    @arguments.checked(settings=arguments.dictionary)
    def of_result(cls, settings):
        """The pattern of a result with these settings. Raises AnnulusError if the run has documents or lengths, because
        both are part of its pattern, and the result does not contain them."""
        for key in ("documents", "lengths"):
            if arguments.dictionary(settings.get("input") or {}, "input").get(key, "none") != "none":
                raise AnnulusError(f"input.{key} is part of the run's pattern, and the result does not contain it")
        return cls.of_settings(settings)

    def checked(self):
        """The same pattern, with tuples. Raises AnnulusError if it is not a valid pattern."""
        taken = Pattern(*(kind(value, name) for (name, kind), value in zip(KINDS.items(), self)))
        if len(taken.segments) != len(taken.dilations) or not taken.segments:
            raise AnnulusError(f"{len(taken.segments)} segments, {len(taken.dilations)} dilations; expected one of each "
                               "per pair")
        taken = taken._replace(segments=tuple(length or "all" for length in taken.segments))
        for i, (length, rate) in enumerate(zip(taken.segments, taken.dilations)):
            if isinstance(length, options.Window) and length.first and rate > 1:
                raise AnnulusError(f"segments[{i}] is {length}: first needs dilation 1, which is {rate}")
        return taken

    @arguments.checked(pair=arguments.whole(0), **HEAD)
    def offset(self, pair, head, heads) -> Optional[int]:
        """Offset of a head's combs in a pair; None if the head does not have this pair (`grouped`). A window leaves out
        no row for any head, so its offset is 0."""
        pairs = len(self.segments)
        if pair >= pairs or head >= heads:
            raise AnnulusError(f"pair {pair} of {pairs}, head {head} of {heads}: expected existing ones, counted from 0")
        rate = 1 if isinstance(self.segments[pair], options.Window) else self.dilations[pair]
        if self.semantics == "paper":
            return head % rate
        if self.semantics in ("longnet", "torchscale"):
            return head // -(-heads // rate)
        # heads are cut into one group per pair; the first (heads mod pairs) groups are one head larger
        small, larger = divmod(heads, pairs)
        begin = pair * small + min(pair, larger)
        return pair % rate if begin <= head < begin + small + (pair < larger) else None

    @arguments.checked(queries=ROWS, rows=arguments.whole(0, ROWS_MOST), **HEAD)
    def multiplicity(self, queries, rows, head=0, heads=1):
        """(len(queries), rows) int: how often each query row sees each of the `rows` keys.

        Worked example: 10 rows, 4 heads, pairs (4, 1) (8, 2): query 6 of head 0 sees [1 0 1 0 2 1 2 0 0 0].
        """
        query = queries.reshape(-1, 1)
        key = np.arange(rows)
        seen = np.zeros((len(query), rows), int)
        for pair, (length, rate) in enumerate(zip(self.segments, self.dilations)):
            if isinstance(length, options.Window):
                steps, rest = np.divmod(query - key, rate)
                near = (rest == 0) & (steps <= length.left) & (steps >= -length.right)
                seen += (near | (key < length.first)) & (self.offset(pair, head, heads) is not None)
                continue
            length = rows if length == "all" else min(length, rows)
            offset = self.offset(pair, head, heads)
            if offset is None:
                continue
            picked_query, picked_key = query % length % rate == offset, key % length % rate == offset
            seen += picked_query & picked_key & (query // length == key // length)
        return seen * (key <= query) if self.causal else seen

    def __str__(self):
        pairs = " ".join(f"({length}, {rate})" for length, rate in zip(self.segments, self.dilations))
        return f"{self.semantics}, {'causal' if self.causal else 'not causal'}, {pairs}"
