"""What annulus.plan() returns."""
import numpy as np

from annulus.arguments import checked, whole

INT_MOST = 2**31 - 1  # the core counts ranks by a C int
RANK = whole(0, INT_MOST)


def _of_one_entry(rows, count):
    """The intervals in the first batch entry, which has `count` rows. With lengths a plan is for the rows of
    all entries, end to end, and a rank has the same rows of each entry."""
    return [(begin, min(end, count)) for begin, end in rows if begin < count]


class Plan:
    """Which rank holds which rows, and what ranks receive; annulus.plan() makes it."""

    def __init__(self, made, sequence, queries, has_lengths, made_by):
        self._made, self._sequence, self._queries, self._has_lengths = made, sequence, queries, has_lengths
        self._made_by = made_by  # (a function, its arguments), which make an equal Plan

    def __reduce__(self):
        """For copy and pickle, which cannot copy the core's object."""
        return self._made_by

    def _for_caller(self, text):
        """With lengths the rows of all entries lie end to end, and each rank has the same interval of each entry. The
        core calls this block_cyclic, the caller contiguous; so the text gets the caller's word."""
        return text.replace("block_cyclic", "contiguous") if self._has_lengths else text

    strategy = property(lambda self: self._made.strategy)
    partition = property(lambda self: self._for_caller(self._made.partition))
    reason = property(lambda self: self._for_caller(self._made.reason), doc="one line: which strategy was chosen, and why")
    ranks = property(lambda self: self._made.ranks)

    @checked(rank=RANK)
    def rows(self, rank):
        """[(first, last + 1), ...]: rows of k and v that the rank holds, in the order of its arrays."""
        return _of_one_entry(self._made.rows(rank), self._sequence)

    @checked(rank=RANK)
    def row_numbers(self, rank):
        """rows() as an array of row numbers: k[:, plan.row_numbers(rank)] are the rank's rows of a whole k."""
        return np.concatenate([np.arange(*part) for part in self.rows(rank)] or [np.arange(0)])

    @checked(rank=RANK)
    def query_rows(self, rank):
        """[(first, last + 1), ...]: rows of q that the rank holds; the same as rows() where q has as many rows as k."""
        return _of_one_entry(self._made.query_rows(rank), self._queries)

    @checked(rank=RANK)
    def query_row_numbers(self, rank):
        """query_rows() as an array of row numbers: q[:, plan.query_row_numbers(rank)]."""
        return np.concatenate([np.arange(*part) for part in self.query_rows(rank)] or [np.arange(0)])

    @checked(rank=RANK)
    def kept(self, rank):
        """Number of (query, key, head) triples of the rank's queries: its work, 2 (D + Dv) flops for each triple."""
        return self._made.kept(rank)

    @checked(rank=RANK)
    def received(self, rank):
        """Bytes that the rank receives in the forward pass."""
        return self._made.received(rank)

    @checked(rank=RANK)
    def memory(self, rank):
        """Peak bytes of the rank's arrays and buffers in the forward pass."""
        return self._made.memory(rank)

    def __repr__(self):
        lines = [f"{self.strategy}, {self.partition}, {self.ranks} ranks: {self.reason}",
                 "rank      rows     work share   receives MiB   memory MiB"]
        work = sum(self.kept(rank) for rank in range(self.ranks)) or 1
        for rank in range(min(self.ranks, 16)):
            rows = sum(end - begin for begin, end in self.rows(rank))
            lines.append(f"{rank:4} {rows:9} {self.kept(rank) / work:14.3f} {self.received(rank) / 2**20:14.2f} "
                         f"{self.memory(rank) / 2**20:12.2f}")
        return "\n".join(lines + ["..."] * (self.ranks > 16))
