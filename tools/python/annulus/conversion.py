"""convert: copies tensors from one kind of file to another, piece by piece.

An .h5 target gets the form that `annulus run` reads: datasets q, k, v (and others of ROLES that the sources have), four
axes with names, heads in annulus' order.
"""
import contextlib
from typing import NamedTuple, Optional

from annulus import axes as axes_of_tensors
from annulus import arguments, elements, files, formats, tensors
from annulus.errors import AnnulusError, one_line

ROLES = ("q", "k", "v", "dout", "dlse", "documents", "lengths", "coordinates", "sink")
FOUR_AXES = ("q", "k", "v", "dout", "out", "dq", "dk", "dv")   # tensors with a head size
OF_KEYS = ("k", "v", "dk", "dv")                               # tensors that may have fewer heads than q
THREE_AXES = ("lse", "dlse", "entropy", "received")             # tensors without a head size
LISTS = ("top_rows", "top_weights")                             # tensors with a list of keys in place of a head size


_order = arguments.optional(arguments.choice("bshd", "bhsd"))


class Wishes(NamedTuple):
    """The form that tensors get in the target, from the arguments of convert()."""
    names: dict
    axes: Optional[str]
    to_axes: Optional[str]
    split_heads: Optional[tuple]
    heads: Optional[list]
    interleaved: bool
    element: Optional[elements.Element]


@arguments.checked(
    sources=arguments.paths, target=arguments.path, names=arguments.optional(arguments.texts),
    only=arguments.optional(arguments.listed(arguments.text(), "a list of names", ordered=False)), axes=_order, to_axes=_order,
    split_heads=arguments.optional(arguments.listed(arguments.whole(1), "one or two whole numbers", lengths=(1, 2))),
    heads=arguments.optional(arguments.listed(arguments.whole(), "a list of query heads")), interleaved=arguments.flag,
    type=arguments.optional(arguments.choice(*elements.FLOATS)), overwrite=arguments.flag,
    say=arguments.function("a function of one text"))
def convert(sources, target, *, names=None, only=None, axes=None, to_axes=None, split_heads=None, heads=None,
            interleaved=False, type=None, overwrite=False, say=lambda line: None):
    """Writes the tensors of `sources` (one path or several) to `target`. The kind of a file follows from its suffix.

    names        {"q": "query", ...}: the name of a tensor in the sources, if it differs from its name in the target
    only         names of the tensors to write; without it an .h5 target gets q, k, v, dout, dlse, documents, lengths,
                 coordinates and sink, any other target gets all tensors
    axes         "bshd" or "bhsd": order of axes in the sources, if the files do not name their axes
    to_axes      order of axes in the target; without it the same as in the sources
    split_heads  (H,) or (H, Hkv): the sources have shape (B, S, H * D), as a linear projection returns it
    heads        query heads to write, by number, in that order, with the K/V heads that they read
    interleaved  query head h of the sources reads K/V head h mod Hkv; in annulus it reads h div (H / Hkv)
    type         float64, float32, float16 or bfloat16: type in the target of all tensors of floats except coordinates;
                 dlse becomes float64 if type is float64, otherwise float32, as annulus reads it
    overwrite    replace an existing target
    say          a function of one text, called if the target's format must store another type (bfloat16 in .npz)

    Tensors of the same name in several sources are stacked to a batch; a tensor (S, H, D) is one batch entry. Returns
    the names that were written. If convert() raises AnnulusError, no target is made.
    """
    wishes = Wishes(names or {}, axes, to_axes, split_heads, heads, interleaved, type and elements.named(type))
    kind = formats.of(target)
    if not overwrite:
        files.refuse_existing(target)
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(formats.reading(source)) for source in sources]
        found = _chosen(_gathered(sources, opened, wishes), only, sources, kind.__name__.endswith("hdf5"))
        _refuse_rows_of_one(found, opened, wishes)
        found = _announced(found, opened, wishes)
        shaped = {name: _shaped(name, parts, wishes) for name, parts in found.items()}
        shaped = _with_heads(shaped, wishes)
        if kind.__name__.endswith("hdf5") and only is None:
            axes_of_tensors.check_input({name: shaped[name] for name in ROLES[:5] if name in shaped})
        _write(kind, target, shaped, overwrite, say)
    return list(shaped)


def _gathered(paths, opened, wishes):
    """{name in the target: [the tensor of each source that has it]}."""
    called = {}  # {name in a source: its names in the target}
    for target, source in wishes.names.items():
        called.setdefault(source, []).append(target)
    found = {}
    for tensors_here in opened:
        for name, tensor in tensors_here.items():
            # If another tensor is to be q, the tensor that the source calls q is left out. With names={"v": "k"} the
            # tensor k becomes v, and also stays k.
            shared = name in ROLES[:3] and set(called.get(name, ())) <= set(ROLES[:3])
            keeps = name not in wishes.names and (name not in called or shared)
            for target in called.get(name, []) + [name] * keeps:
                found.setdefault(target, []).append(tensor)
    for target, source in wishes.names.items():
        if target not in found:
            there = ", ".join(sorted({name for here in opened for name in here})) or "nothing"
            raise AnnulusError(f"{paths[0]}: has no tensor {source}; it has {there}")
    return found


def _refuse_rows_of_one(found, opened, wishes):
    entries = len(found.get("q", ()))
    for role in ("documents", "lengths", "coordinates"):
        q, of_rows = (wishes.names.get(name, name) for name in ("q", role))
        if len(found.get(role, range(entries))) < entries and any(q in here and of_rows in here for here in opened):
            raise AnnulusError(f"the sources become the entries of a batch, and {role} of one of them would count for all "
                               f"entries; expected sources without {role}, or {role} in a source of its own")


def _chosen(found, only, paths, is_input):
    if only:
        wanted = needed = list(only)
    elif is_input:
        wanted, needed = [name for name in ROLES if name in found], ROLES[:3]
    else:
        wanted, needed = list(found), ()
    missing = [name for name in needed if name not in found]
    if missing:
        there = ", ".join(found) or "no tensors of numbers"
        hint = "" if only else f" (--{missing[0]} NAME says which one it is; --only NAME,... takes others)"
        raise AnnulusError(f"{paths[0]}: has no tensor {missing[0]}; it has {there}{hint}")
    if not wanted:
        raise AnnulusError(f"{paths[0]}: has no tensors of numbers; expected q, k, v")
    return {name: found[name] for name in wanted}


def _order_named(role, tensor):
    """"bshd" or "bhsd" if the tensor's own axis names say so; otherwise None."""
    names, ndim = tensor.axes or (), 3 if role in THREE_AXES else 4
    if len(names) == len(tensor.shape) == ndim - 1 and names[0].lower() not in ("b", "batch"):
        names = ("batch", *names)
    return axes_of_tensors.order_of(names, tensor.where) if len(names) == len(tensor.shape) == ndim else None


def _announced(found, opened, wishes):
    """A tensor of attention that does not name its order gets the order of the tensors beside it in the same source, as
    in `annulus run`. Raises AnnulusError if these tensors have several orders."""
    if wishes.axes:
        return found
    roles = {name: name.rpartition("/")[2] for name in found}
    split = FOUR_AXES if wishes.split_heads else ()
    for here in opened:
        own = {id(tensor) for tensor in here.values()}
        orders, without = {}, []
        for name, parts in found.items():
            if roles[name] not in FOUR_AXES + THREE_AXES + LISTS or roles[name] in split:
                continue
            for i, part in enumerate(parts):
                if id(part) in own and (order := _order_named(roles[name], part)):
                    orders.setdefault(order, part)
                elif id(part) in own:
                    without.append((name, i))
        if without and len(orders) > 1:
            (one, other), (name, i) = orders.values(), without[0]
            raise AnnulusError(f"{other.where}: names its axes ({', '.join(other.axes)}), but {one.where} "
                               f"({', '.join(one.axes)}); expected one order, because {found[name][i].where} "
                               "names none")
        for name, i in without if orders else ():
            part, ndim = found[name][i], 3 if roles[name] in THREE_AXES else 4
            names = axes_of_tensors.NAMES[next(iter(orders))]
            found[name][i] = part._replace(axes=names[ndim - len(part.shape):ndim])
    return found


def _shaped(name, parts, wishes):
    """Joins one tensor's parts from all sources. Tensors of attention get axis names and the wanted order of axes."""
    role = name.rpartition("/")[2]
    if role not in FOUR_AXES + THREE_AXES:
        is_batch = all(part.shape for part in parts) and len({(part.shape[1:], part.element) for part in parts}) == 1
        if role == "lengths" and is_batch:
            parts = [tensors.stacked(parts)] if len(parts) > 1 else parts
        if len(parts) > 1:
            raise AnnulusError(f"{parts[1].where}: is there twice; only tensors of attention can be stacked to a batch "
                               "(--only leaves tensors out)")
        if role in LISTS and len(parts[0].shape) == 4:
            order = _order_named(role, parts[0]) or wishes.axes or "bshd"
            part = parts[0]._replace(axes=(*axes_of_tensors.NAMES[order][:3], "top"))
            parts = [axes_of_tensors.reordered(part, wishes.to_axes or order)]
        wanted = wishes.element if parts[0].element.is_float and role != "coordinates" else None
        return tensors.cast(parts[0], wanted) if wanted not in (None, parts[0].element) else parts[0]
    parts = [_entry(role, part, wishes) for part in parts]
    for part in parts[1:]:
        if part.shape[1:] != parts[0].shape[1:] or part.element != parts[0].element or part.axes != parts[0].axes:
            raise AnnulusError(f"{part.where}: has shape {part.shape} of {part.element.name}; expected "
                               f"{parts[0].shape} of {parts[0].element.name} as {parts[0].where}")
    tensor = tensors.stacked(parts) if len(parts) > 1 else parts[0]
    return axes_of_tensors.reordered(tensor, wishes.to_axes) if wishes.to_axes else tensor


def _entry(role, tensor, wishes):
    """One source's tensor with axis names: (B, S, H, D) or (B, H, S, D), for THREE_AXES without D."""
    if not tensor.element.is_float:
        raise AnnulusError(f"{tensor.where}: has type {tensor.element.name}; expected {', '.join(elements.FLOATS)}")
    wanted = axes_of_tensors.lse_element(wishes.element) if wishes.element and role == "dlse" else wishes.element
    if wanted and tensor.element != wanted:
        tensor = tensors.cast(tensor, wanted)
    ndim = 4 if role in FOUR_AXES else 3
    own = tensor.axes if len(tensor.axes or ()) == len(tensor.shape) else None
    if wishes.split_heads and role in FOUR_AXES:
        tensor, own = _split(role, tensor, wishes.split_heads), axes_of_tensors.NAMES["bshd"]
    if len(tensor.shape) == ndim - 1:
        if own and len(own) == ndim - 1 and own[0].lower() in ("b", "batch"):
            raise AnnulusError(f"{tensor.where}: names its axes ({', '.join(own)}), of which one is missing; expected "
                               "--split-heads, or an axis of heads")
        tensor = tensors.with_batch(tensor)
        own = ("batch", *own) if own and len(own) == ndim - 1 else own
    if len(tensor.shape) != ndim or 0 in tensor.shape:
        raise AnnulusError(f"{tensor.where}: has shape {tensor.shape}; expected (batch, sequence, head"
                           f"{', dim' if ndim == 4 else ''}), none of them 0")
    order = axes_of_tensors.order_of(own or (), tensor.where)
    if order and wishes.axes and order != wishes.axes:
        raise AnnulusError(f"{tensor.where}: names its axes ({', '.join(own)}), which is {order}; "
                           f"--axes says {wishes.axes}")
    order = order or wishes.axes
    if order is None and role in OF_KEYS:
        axes_of_tensors.refuse_unnamed(tensor.where, tensor.shape[2], tensor.shape[1], "--axes, or axes=,")
    return axes_of_tensors.named(tensor, order or "bshd")


def _split(role, tensor, split_heads):
    heads = split_heads[-1] if role in OF_KEYS else split_heads[0]
    if len(tensor.shape) not in (2, 3) or tensor.shape[-1] % heads != 0:
        raise AnnulusError(f"{tensor.where}: has shape {tensor.shape}; expected (batch, sequence, {heads} heads x dim)")
    return tensors.split_heads(tensor, heads)


def _with_heads(shaped, wishes):
    """Picks query heads, and orders them as annulus does: H / Hkv neighbouring query heads share a K/V head."""
    if wishes.heads is None and not wishes.interleaved:
        return shaped
    if "q" not in shaped or "k" not in shaped:
        raise AnnulusError("heads are chosen by those of q and k; expected both among the tensors")
    total, kv_total = axes_of_tensors.sizes(shaped["q"])["head"], axes_of_tensors.sizes(shaped["k"])["head"]
    heads = wishes.heads if wishes.heads is not None else list(range(total))
    if not heads or not all(0 <= head < total for head in heads):
        raise AnnulusError(f"{shaped['q'].where}: has heads 0 to {total - 1}; found {heads}")
    if total % kv_total != 0:
        raise AnnulusError(f"{shaped['k'].where}: has {kv_total} heads; expected a divisor of the {total} of q")
    reads = {head: head % kv_total if wishes.interleaved else head * kv_total // total for head in heads}
    kv_heads = list(dict.fromkeys(reads[head] for head in heads))
    heads = sorted(heads, key=lambda head: kv_heads.index(reads[head]))  # a stable sort by K/V head
    counts = {sum(reads[head] == kv for head in heads) for kv in kv_heads}
    if len(counts) > 1:
        raise AnnulusError(f"heads {heads} read K/V heads {[reads[head] for head in heads]}; expected as many of each")
    picked = {}
    for name, tensor in shaped.items():
        role = name.rpartition("/")[2]
        if role in ("sink", "dsink") and tensor.shape == (total,):
            tensor = tensors.picked(tensor, 0, heads)
        elif tensor.axes and "head" in tensor.axes:
            numbers, there = (kv_heads, kv_total) if role in OF_KEYS else (heads, total)
            if (own := axes_of_tensors.sizes(tensor)["head"]) != there:
                raise AnnulusError(f"{tensor.where}: has {own} heads; expected {there}, as {'k' if role in OF_KEYS else 'q'} "
                                   "has, whose heads are chosen (--only leaves tensors out)")
            tensor = tensors.picked(tensor, tensor.axes.index("head"), numbers)
        picked[name] = tensor
    return picked


def _write(kind, target, shaped, overwrite, say):
    specs = [tensors.Spec(name, tensor.shape, tensor.element, axes_of_tensors.distinct_axis_names(name, shaped))
             for name, tensor in shaped.items()]
    if note := kind.note(target, specs):
        say(note)
    try:
        with files.new_path(target, overwrite) as path, kind.writing(path, specs) as write:
            for name, tensor in shaped.items():
                for index in tensors.pieces(tensor.shape, tensor.element.storage.itemsize, tensors.PIECE_BYTES):
                    write(name, index, tensor.read(index))
    except OSError as problem:  # such as a full disk; the libraries' texts name no file, or a temporary file
        raise OSError(f"{target}: is not made: {problem.strerror or one_line(problem)}") from None
