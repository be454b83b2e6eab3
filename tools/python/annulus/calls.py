"""Attention of arrays in memory: annulus.attention, annulus.plan, and what both share. The core is the module _core."""
import contextlib
import functools
from typing import NamedTuple

import numpy as np

from annulus.arguments import anything, checked, choice, function, optional, shown, whole
from annulus.arrays import TYPES, as_kind_of, as_numpy
from annulus.axes import refuse_unnamed
from annulus.communicators import core_communicator, gathered, mpi_of
from annulus.errors import AnnulusError
from annulus.options import WORDS, coordinate_list, lse_type_of, settings_of, sum_type_of, without_trivial_lengths
from annulus.plans import INT_MOST, Plan
from annulus.processors import THREADS, thread_arguments

try:
    from annulus import _core
except ImportError as problem:
    raise AnnulusError(
        f"this install of annulus has no compiled part ({problem}): it can read results and make inputs, but not "
        "compute. After ./tools/setup, which builds Kokkos, install it again from the repository: pip install .") from None

AXES = {None: (0, 1, 2, 3), "bshd": (0, 1, 2, 3), "bhsd": (0, 2, 1, 3)}
ORDER = optional(choice("bshd", "bhsd", expected="'bshd' (batch, rows, heads, numbers) or 'bhsd'"))
PROGRESS = optional(function("a function of (share, where)"))
OFFSETS = {"auto": -1, "none": -2}  # the core's numbers for these words
STATISTICS_OF_CORE = ("entropy", "received", "top_weights", "top_rows", "normalizers")
NOTHING = {"lse": -np.inf, "top_rows": -1}  # results of queries without a key; other results are 0


@functools.lru_cache(maxsize=64)
def core_plan(extents, kind, settings, ranks, gradients, sink=False):
    """The core's plan for extents (B, Sq, H, Hkv, D, S, Dv) of tensors of type `kind`, with sink logits or without.

    Batch entries with lengths become ranges of rows of one entry with B * S rows. On several ranks each rank has S / P
    rows of every entry, so the partition is block_cyclic with blocks of S / P rows."""
    batch, rows = extents[0], extents[5]
    partition, block = settings.partition, 0
    if settings.lengths and settings.query_offset != "none":
        if extents[1] != rows:
            raise AnnulusError(f"lengths are given with {extents[1]} rows of q and {rows} of k, expected as many")
        extents = (1, batch * rows, *extents[2:5], batch * rows, extents[6])
        if ranks > 1:
            if settings.strategy == "single":
                raise AnnulusError(f"strategy is 'single' with lengths on {ranks} ranks, expected another one, or one rank")
            if partition != "contiguous" or rows % ranks:
                raise AnnulusError(f"lengths are given for {rows} rows on {ranks} ranks, {partition}; expected a multiple of "
                                   f"{ranks} rows, and partition='contiguous'")
            if settings.reproducible:
                raise AnnulusError(f"reproducible is True with lengths on {ranks} ranks, expected False, or one rank")
            partition, block = "block_cyclic", rows // ranks
    elif partition == "auto":
        # attention() must expect the rows that plan() names. So both choose the partition from the same arguments.
        # Gradients, a sink, statistics, precision, type, batch, the heads of k, Dv and lengths are not among these.
        plain = settings._replace(statistics=(), top_keys=0, precision="auto", lengths=())
        alike = (1, extents[1], extents[2], extents[2], extents[4], rows, extents[4])
        try:  # if reproducible, the strategy must keep the order of sums also in gradients, and with a shared K/V head
            shared = (*alike[:3], 1, *alike[4:]) if settings.reproducible else alike
            made = _plan_with_partition(shared, "float32", plain, "auto", 0, ranks, settings.reproducible, False)
        except AnnulusError:  # the strategy keeps the order only in out, or only if no ranks share K/V heads
            made = _plan_with_partition(alike, "float32", plain, "auto", 0, ranks, False, False)
        partition = made.partition
    return _plan_with_partition(extents, kind, settings, partition, block, ranks, gradients, sink)


def _plan_with_partition(extents, kind, settings, partition, block, ranks, gradients, sink):
    """core_plan() for a given partition and block size."""
    entries = len(settings.lengths) or 1  # with lengths, all entries lie end to end in one sequence
    rows = extents[5] // entries
    options = {key: getattr(settings, key) for key in ("strategy", "precision", "reproducible", "top_keys")}
    options |= {"partition": partition, "block_size": block,
                "ranges": [(b * rows + begin, b * rows + end) for b, (begin, end) in enumerate(settings.lengths)]}
    options |= {"gradients": gradients, "sink": sink, "entropy": "entropy" in settings.statistics,
                "received": "received" in settings.statistics, "softcap": settings.softcap, "bias": settings.bias,
                "coordinates": coordinate_list(settings) * entries,
                "query_offset": OFFSETS.get(settings.query_offset, settings.query_offset)}
    return _core.plan(extents, kind, settings.segments, settings.dilations, settings.causal, settings.semantics,
                      settings.documents, settings.scale, settings.group_scale, ranks, options)


def canonical_shape(shape, axes, name):
    """(B, S, heads, D) of an array that has this shape in the order `axes`."""
    if len(shape) != 4:
        raise AnnulusError(f"{name} is {tuple(shape)}, expected four axes, {', '.join(axes or 'bshd')}")
    return tuple(shape[axis] for axis in AXES[axes])


def extents_of(described, axes):
    """(B, Sq, H, Hkv, D, S, Dv) of {"q": (type, shape), "k": ..., "v": ...}; the numbers may be PyTorch's SymInts."""
    kind = described["q"][0]
    for name in "kv":
        if described[name][0] != kind:
            raise AnnulusError(f"{name} is {described[name][0]}, q is {kind}; expected the same")
    q, k, v = (canonical_shape(shape, axes, name) for name, (_, shape) in described.items())
    batch, rows, heads, dim = q
    for name, shape, numbers in (("k", k, dim), ("v", v, v[3])):
        if shape != (batch, k[1], k[2], numbers):
            raise AnnulusError(f"{name} is {shape} for q {q} in the order (B, S, heads, D), expected "
                               f"({batch}, {k[1]}, {k[2]}, {numbers})")
    return batch, rows, heads, k[2], dim, k[1], v[3]


def refuse_empty(extents):
    """Raises if one of (B, Sq, H, Hkv, D, S, Dv) is 0. Skips PyTorch's SymInts, because comparing fixes their value."""
    whats = ("q has no batch entry", "q has no rows", "q has no heads", "k has no heads", "q and k have heads of no numbers",
             "k has no rows", "v has heads of no numbers")
    for what, extent in zip(whats, extents):
        if type(extent) is int and extent == 0:
            raise AnnulusError(f"{what}, expected 1 or more")


def _exchanged(comm, problem, rest=None, rows=None):
    """Gathers (problem, rest, rows) of each rank. A mistake on one rank is raised on every rank."""
    said = gathered(comm, (problem, rest, rows))
    for rank, (found, _, _) in enumerate(said):
        if found:
            raise AnnulusError(f"rank {rank}: {found}")
    return said


@contextlib.contextmanager
def raised_on_all_ranks(comm):
    """A context for checks that a rank makes before it exchanges messages in class Call or in redistribute(). If a
    check fails, this rank sends the mistake to the other ranks, which wait for this rank in that exchange."""
    try:
        yield
    except AnnulusError as error:
        if comm is not None and core_communicator(comm).size > 1:
            _exchanged(mpi_of(comm), str(error))
        raise


def _difference(name, value, other):
    """Says how a value differs from rank 0's, `other`; for lists, how the first entry that differs does."""
    if isinstance(value, tuple) and isinstance(other, tuple) and len(value) == len(other):
        i = next(i for i, pair in enumerate(zip(value, other)) if pair[0] != pair[1])
        return _difference(f"{name}[{i}]", value[i], other[i])
    if name == "coordinates_hex":
        return "coordinates have other numbers"
    return f"{name} is {shown(value)}, there {shown(other)}"


class Part(NamedTuple):
    """The batch entries that one call of the core computes, and their plan."""
    plan: object
    entries: slice = slice(None)

    def of(self, arrays):
        """This part's entries of arrays (B, rows, ...), given by name; None stays None."""
        return {name: None if array is None else array[self.entries] for name, array in arrays.items()}


class Call:
    """One call of attention: its arrays in the order (B, S, heads, D), and the plan for them."""

    def __init__(self, q, k, v, settings, axes=None, comm=None, gradients=False, sink=None, mask_keys=None, **threads):
        self.comm = core_communicator(comm)
        self.settings, self.axes, self.model_array, self.gradients = settings, axes, q, gradients
        self.mask_keys = mask_keys  # number of keys in the mask, which has those of all ranks
        problem = extents = None
        try:
            self.threads, extents = thread_arguments(**threads), self._take(q, k, v)
            self._take_sink(sink, extents[2])
        except AnnulusError as error:
            if self.comm.size == 1:
                raise
            problem = str(error)
        if self.comm.size > 1:
            extents = self._of_all_ranks(mpi_of(comm), problem, extents)
            self.comm = core_communicator(comm)  # gathered() may have renewed it
        refuse_empty(extents)
        if axes is None:
            refuse_unnamed("k", heads=extents[3], rows=extents[5])
        self.rows = extents[5]  # of k, on all ranks together
        if mask_keys not in (None, self.rows):
            raise AnnulusError(f"attn_mask has {mask_keys} keys, and the ranks have {self.rows} together, expected as many")
        self.settings = without_trivial_lengths(settings, extents[0], self.rows)
        self.parts = self._parts(extents)
        self.core_q, self.core_k, self.core_v = map(self.for_core, (self.q, self.k, self.v))

    def _take(self, q, k, v):
        """Stores the arrays of this rank; returns (B, Sq, H, Hkv, D, S, Dv)."""
        self.given = {name: as_numpy(array, name) for name, array in (("q", q), ("k", k), ("v", v))}
        self.type = self.given["q"].type
        extents = extents_of({name: (array.type, array.numbers.shape) for name, array in self.given.items()}, self.axes)
        self.q, self.k, self.v = (array.numbers.transpose(AXES[self.axes]) for array in self.given.values())
        return extents

    def _parts(self, extents):
        """One part; or, if the lengths are of k only (query_offset="none"), a part for each entry that has keys."""
        settings = self.settings
        self.lies_end_to_end = bool(settings.lengths) and settings.query_offset != "none"
        if not settings.lengths or self.lies_end_to_end:
            return [Part(core_plan(extents, self.type, settings, self.comm.size, self.gradients, self.sink is not None))]
        return [Part(core_plan((1, *extents[1:]), self.type, settings._replace(lengths=(keys,)), self.comm.size,
                               self.gradients, self.sink is not None), slice(entry, entry + 1))
                for entry, keys in enumerate(settings.lengths) if keys[0] < keys[1]]

    def _take_sink(self, sink, heads):
        """Stores sink logits (H), as (1, 1, H) for the core."""
        self.sink = self.given_sink = None
        if sink is None:
            return
        self.given_sink = as_numpy(sink, "sink")
        if self.given_sink.numbers.shape != (heads,):
            raise AnnulusError(f"sink is {self.given_sink.numbers.shape}, expected ({heads},): a number for each head of q")
        self.sink = self.given_sink.numbers[None, None]

    def _of_all_ranks(self, comm, problem, extents):
        """The extents with the rows of all ranks together. A mistake on one rank is raised on every rank."""
        if problem:
            _exchanged(comm, problem)
        batch, queries, heads, kv_heads, dim, keys, value_dim = extents
        rest = {"number of batch entries": batch, "heads of q": heads, "heads of k": kv_heads, "head size": dim,
                "head size of v": value_dim, "type": self.type, "attn_mask's keys": self.mask_keys,
                "sink": "given" if self.sink is not None else None, "requires_grad": self.gradients}
        said = _exchanged(comm, None, rest | self.settings._asdict(), (queries, keys))
        for rank, (_, other, _) in enumerate(said):
            for name, value in other.items():
                if value != said[0][1][name]:
                    raise AnnulusError(f"rank {rank} calls with other arrays or settings than rank 0: "
                                       f"{_difference(name, value, said[0][1][name])}")
        queries, keys = (sum(rows) for rows in zip(*(rows for _, _, rows in said)))
        lengths = without_trivial_lengths(self.settings, batch, keys).lengths
        if lengths and self.settings.query_offset != "none" and len({rows for _, _, rows in said}) > 1:
            raise AnnulusError(f"ranks have {[keys for _, _, (_, keys) in said]} rows, expected as many on each: lengths are "
                               "given")
        return batch, queries, heads, kv_heads, dim, keys, value_dim

    def for_core(self, numbers):
        """An array (B, S, ...) for the core: entries that lie end to end become one entry, (1, B * S, ...)."""
        batch, rows, *rest = numbers.shape
        return numbers.reshape(1, batch * rows, *rest) if self.lies_end_to_end else numbers

    def empty(self, shape, kind=None):
        """A new result (B, S, heads, ...), as two arrays over the same memory, for the caller and for the core."""
        made, numbers = self.given["q"].empty(shape, kind or self.type)
        return made, self.for_core(numbers)

    def for_caller(self, array):
        """A result for the caller, in the caller's order of axes and kind of array."""
        if self.axes == "bhsd":
            array = array.swapaxes(1, 2)
        return as_kind_of(array, self.model_array)

    def forward(self, progress=None):
        """out and lse for the caller, statistics by name, and the normalizers (B, S, H, 2) that backward() needs."""
        lse_type = lse_type_of(self.type)
        out, core_out = self.empty((*self.q.shape[:3], self.v.shape[3]))
        lse, core_lse = self.empty(self.q.shape[:3], lse_type)
        kept, statistics, core = None, {}, dict.fromkeys(STATISTICS_OF_CORE)
        wanted = self.settings.statistics
        if "entropy" in wanted:
            statistics["entropy"], core["entropy"] = self.empty(self.q.shape[:3], lse_type)
        if "received" in wanted:
            statistics["received"], core["received"] = self.empty((*self.k.shape[:2], self.q.shape[2]), "float64")
        if "top" in wanted:
            lists = (*self.q.shape[:3], self.settings.top_keys)
            statistics["top_rows"], core["top_rows"] = self.empty(lists, "int64")
            statistics["top_weights"], core["top_weights"] = self.empty(lists, lse_type)
        if self.gradients:
            kept, core["normalizers"] = self.empty((*self.q.shape[:3], 2), sum_type_of(self.type, self.settings))
        made = {"out": core_out, "lse": core_lse} | core
        for part, arrays, shown in self.each(made, progress=progress):
            _core.forward(self.comm, part.plan, sink=self.sink, progress=shown, **arrays, **self.threads)
            if self.lies_end_to_end and "top_rows" in statistics:
                rows = arrays["top_rows"]
                rows[rows >= 0] %= self.rows
        statistics = {name: self.for_caller(array) for name, array in statistics.items()}
        return self.for_caller(out), self.for_caller(lse), statistics, kept

    def each(self, made, given=None, progress=None):
        """Yields (part, {name: its entries of an array}, progress function). First sets `made` where no keys exist."""
        if self.settings.lengths and not self.lies_end_to_end:
            for name, array in made.items():
                if array is not None:
                    array[...] = NOTHING.get(name, 0)
        arrays = {"q": self.core_q, "k": self.core_k, "v": self.core_v} | made | (given or {})
        for i, part in enumerate(self.parts):
            shown = progress and (lambda share, where, i=i: progress((i + share) / len(self.parts), where))
            yield part, part.of(arrays), shown

    def backward(self, kept, out, dout, dlse=None, progress=None):
        """dq, dk and dv for the caller, and dsink if the call has a sink; out, dout and dlse have the caller's axes."""
        def core(array, name):
            found = as_numpy(array, name)
            return self.for_core(found.numbers.swapaxes(1, 2) if self.axes == "bhsd" else found.numbers)
        made = [self.empty(array.shape) for array in (self.q, self.k, self.v)]
        dsink = None if self.sink is None else self.given_sink.empty(self.sink.shape[2:], lse_type_of(self.type))
        given = {"normalizers": self.for_core(as_numpy(kept, "normalizers").numbers), "out": core(out, "out"),
                   "dout": core(dout, "dout"), "dlse": None if dlse is None else core(dlse, "dlse")}
        of_parts, results = [], dict(zip(("dq", "dk", "dv"), (pair[1] for pair in made)))
        for part, arrays, shown in self.each(results, given, progress):
            of_parts.append(None if dsink is None else np.empty((1, 1, *dsink[1].shape), dsink[1].dtype))
            _core.backward(self.comm, part.plan, sink=self.sink, dsink=of_parts[-1], progress=shown, **arrays, **self.threads)
        if dsink is not None:
            dsink[1][...] = sum(part[0, 0] for part in of_parts)
        return [self.for_caller(pair[0]) for pair in made] + ([] if dsink is None else [dsink[0]])


@checked(q=anything, k=anything, v=anything, sink=anything, axes=ORDER, comm=anything, progress=PROGRESS,
         threads=THREADS, **dict.fromkeys(WORDS, anything),  # settings_of() checks these
         around_checks=lambda given: raised_on_all_ranks(given.get("comm")))
def attention(q, k, v, *, segments=None, dilations=None, causal=False, semantics="longnet", documents=None, scale=None,
              group_scale=False, softcap=None, bias=None, coordinates=None, query_offset="auto", sink=None, statistics=(),
              top_keys=8, axes=None, comm=None, strategy="auto", partition="contiguous", precision="auto",
              reproducible=False, lengths=None, progress=None, threads=None):
    """Softmax attention of q to k and v, dense or in LongNet's dilated pattern; exact.

    Parameters
    ----------
    q : (B, S, H, D) array of NumPy, PyTorch or JAX in host memory, float64, float32, float16 or bfloat16. It is read in
        place if the D numbers of a row and head are contiguous, whatever the other strides are. D is at most 576.
    k, v : (B, S, Hkv, D) of the same kind. Hkv divides H: query head h reads key/value head h // (H / Hkv). Their
        number of rows may differ from that of q: see query_offset. v may have another head size, or be a view of k.
    segments, dilations : one entry of each per pair. A pair (w, r) cuts the rows into segments of w, in which every
        r-th row sees every r-th row; 'all' is one segment with all rows. annulus.window(...), or {'window': [left,
        right], 'first': f}, makes a pair a window: a row sees itself, `left` rows before it, `right` after it, and the
        first f rows. Without segments and dilations attention is dense.
    causal : row x sees no row after it.
    semantics : which rows of a segment each head picks: 'longnet', 'paper', 'grouped', 'torchscale' (`annulus list`).
    documents : offsets 0 ... S of packed documents: rows of different documents do not see each other (FlashAttention's
        cu_seqlens). If the last offset is below S, rows from this offset on do not exist.
    lengths : (B,): how many rows of each batch entry exist, counted from the first; or (B, 2): the first row and the
        last + 1. Other rows cost nothing: their out is 0, lse -inf, gradients 0, whatever they hold. Not together with
        documents. With query_offset='none' lengths count rows of k only, and all rows of q exist.
    scale : factor of q.k, above 0; default 1 / sqrt(D).
    group_scale : only for 'grouped': out is divided by the number of pairs.
    softcap : a number above 0: scores s become softcap * tanh(s / softcap).
    bias : {'alibi': 'auto' or one slope for each head of q, 'exempt': e}: subtracts slope * distance from the score of
        rows x and p; the distance is |x - p| (ALiBi), or 0 if x or p is among the first e rows of their document.
    coordinates : (S, 2) array of the whole sequence, on every rank: bias then takes distances between these points.
    query_offset : if k has more rows than q: the row of k at which q begins; 'auto': q ends at the last row of k;
        'none': queries have no row numbers and see every key (cross attention: dense, not causal, one document); then q
        may also have more rows than k.
    sink : (H,) array of any type that q may have: sink logits. A row that sees any key also sees one more key, whose
        value is 0 and whose score is sink[h]; -inf: no sink for this head.
    statistics : some of 'entropy', 'received', 'top' (docs/statistics.md); 'top': a query's top_keys largest weights.
    axes : order of the axes of arguments and results: 'bshd', the default, or 'bhsd', which is PyTorch's (B, H, S, D).
        Required if k has more heads than rows.
    comm : a communicator of mpi4py or a process group of torch.distributed; then the arrays have only this rank's rows.
        By default each rank has one interval, in the order of the ranks, and the first S mod P ranks have one row more.
        annulus.plan() says which rows of k and q a rank has, also for another `partition`. All ranks must call. None:
        this process alone.
    strategy, partition, precision, reproducible : as in a run file (docs/run-file.md).
    progress : called now and then with (share, where): the finished share, 0 to 1, and what is computed, a text.
    threads : number of threads; None: that of set_threads(), otherwise OMP_NUM_THREADS, otherwise one per processor.

    Returns
    -------
    out : with the shape of q, but the head size of v; of q's type and kind
    lse : (B, Sq, H) or (B, H, Sq): natural logarithm of the sum of exponentials, float32 or float64; -inf without keys
    statistics : only if some are asked for: a dict with 'entropy' (B, Sq, H), 'received' (B, S, H), 'top_rows' and
        'top_weights' (B, Sq, H, top_keys); with axes='bhsd' heads come before rows

    Raises AnnulusError with one line that names the argument. Ctrl-C ends the call. Calls from other threads wait until
    this call has ended.

    >>> x = np.random.default_rng(0).standard_normal((1, 4096, 8, 64), dtype="float32")
    >>> out, lse = attention(x, x, x, segments=[512, "all"], dilations=[1, 8], causal=True)
    >>> out.shape, lse.shape
    ((1, 4096, 8, 64), (1, 4096, 8))
    """
    with raised_on_all_ranks(comm):
        settings = settings_of(segments, dilations, causal, semantics, documents, scale, group_scale, softcap, bias,
                               coordinates, statistics, top_keys, strategy, partition, precision, reproducible, lengths,
                               query_offset)
    out, lse, found, _ = Call(q, k, v, settings, axes, comm, sink=sink, threads=threads).forward(progress)
    return (out, lse, found) if found else (out, lse)


@checked(sequence=whole(1), heads=whole(1), head_dim=whole(1), ranks=whole(1, INT_MOST), batch=whole(1),
         kv_heads=optional(whole(1)), type=choice(*TYPES), queries=optional(whole(1)), value_dim=optional(whole(1)),
         more=WORDS)
def plan(sequence, heads, head_dim, *, ranks, batch=1, kv_heads=None, type="float32", queries=None, value_dim=None,
         **words):
    """Returns the Plan of attention(**words) on `ranks` ranks: each rank's rows, work, received bytes and memory.
    Computes no attention. With lengths and query_offset='none' the Plan counts all keys, as if all existed.

    sequence, heads, head_dim, batch : S, H, D and B; kv_heads: Hkv, None: H; type: that of q, k and v.
    words : arguments of attention(), but not sink, axes, comm, progress and threads.
    queries : number of rows of q; None: the same as `sequence`, the rows of k.
    value_dim : head size of v and out; None: head_dim.

    >>> print(plan(8192, 8, 64, ranks=2, causal=True, partition="zigzag", strategy="ring").rows(1))
    [(2048, 6144)]
    """
    settings = without_trivial_lengths(settings_of(**words), batch, sequence)
    if settings.query_offset == "none":  # which rank has which rows does not depend on lengths of k
        settings = settings._replace(lengths=())
    extents = (batch, queries or sequence, heads, kv_heads or heads, head_dim, sequence, value_dim or head_dim)
    return _plan_for_caller(extents, type, settings, ranks)


def _plan_for_caller(*made_of):
    """The Plan for `made_of`, arguments of core_plan(). A copied or unpickled Plan is made anew by this function."""
    extents, _, settings, _ = made_of
    return Plan(core_plan(*made_of, False), extents[5], extents[1], bool(settings.lengths), (_plan_for_caller, made_of))
