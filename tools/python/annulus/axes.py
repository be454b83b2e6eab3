"""The order of a tensor's axes: (batch, sequence, head, dim), or PyTorch's (batch, head, sequence, dim)."""
from annulus import elements, tensors
from annulus.errors import AnnulusError

NAMES = {"bshd": ("batch", "sequence", "head", "dim"), "bhsd": ("batch", "head", "sequence", "dim")}
ROWS = ("s", "t", "l", "time", "row", "rows", "tokens", "position", "length", "query")
HEADS = ("h", "hkv", "nh", "head", "heads", "num_heads", "n_heads", "kv_heads", "kv_head", "num_kv_heads")
OUTER = {"batch": "batch", "d": "dim", "dim": "dim", "head_dim": "dim"}  # {name: meaning} of the outer axes
HEAD_DIM_MOST = 576
OF_KEYS = ("k", "v", "dk", "dv")
OF_VALUES = ("v", "dout", "out", "dv")


def _meaning(name):
    name = name.lower()
    if name.startswith("seq") or name in ROWS:
        return "sequence"
    return "head" if name in HEADS else OUTER.get(name)


def order_of(axes, where):
    """"bshd" or "bhsd" if `axes`, three or four names of which the first is the batch's, say so; otherwise None. The
    program follows the same rules. Raises AnnulusError, which begins with `where`, if the names mean neither order."""
    meant = None
    for axis, meaning in enumerate(map(_meaning, axes)):
        if meaning is None or (meaning, axis) in (("batch", 0), ("dim", len(axes) - 1)):
            continue
        order = "bshd" if (axis == 1) == (meaning == "sequence") else "bhsd"
        if meaning in ("batch", "dim") or axis not in (1, 2) or meant not in (None, order):
            raise AnnulusError(f"{where}: names its axes ({', '.join(axes)}); expected (batch, sequence, head, dim) or "
                               "(batch, head, sequence, dim)")
        meant = order
    return meant


def named(tensor, order):
    """Returns the tensor with the axis names of `order`; a tensor without the axis D gets the first three names."""
    return tensor._replace(axes=NAMES[order][:len(tensor.shape)])


def reordered(tensor, order):
    """Returns the tensor in `order`. It is (B, S, H, D), (B, H, S, D) or one of these without D, and has axis names."""
    if tensor.axes[1] == NAMES[order][1]:
        return tensor
    return tensors.transposed(tensor, (0, 2, 1, 3)[:len(tensor.shape)])


def distinct_axis_names(name, found):
    """Axis names of the tensor `name` as they are written to a file: `kv_head` if k has fewer heads than q, `query` if
    q has other rows than k, `value_dim` if v has another head size than k.

    `found` has all tensors of the file, by name. With these names, all axes that have the same name have the same
    length in the whole file, which xarray requires.
    """
    axes, q = found[name].axes, found.get("q", found.get("dq", found.get("out")))
    k = found.get("k", found.get("dk", found.get("received")))  # without dk only `received` has rows of keys
    if not axes or not q or not k:
        return axes if axes and all(axes) else None  # a file names all axes of a tensor, or none
    own, role = sizes(found[name]), name.rpartition("/")[2]
    changed = ("head", "kv_head") if role in OF_KEYS else ("sequence", "query")
    other = sizes(q if role in OF_KEYS else k)
    names = {changed[0]: changed[1]} if changed[0] in axes and own[changed[0]] != other.get(changed[0]) else {}
    if role in OF_VALUES and own.get("dim") != sizes(k).get("dim", own.get("dim")):
        names["dim"] = "value_dim"
    return tuple(names.get(axis, axis) for axis in axes)


def sizes(tensor):
    """{axis name: extent}."""
    return dict(zip(tensor.axes, tensor.shape))


def row_axis(axes):
    """Name of the axis of rows: "query" if q has other rows than k, otherwise "sequence"."""
    return "query" if "query" in axes else "sequence"


def has_rows(axes):
    """Whether batch, rows and heads are among the axes."""
    return set(NAMES["bshd"][:3]) <= {"sequence" if axis == "query" else axis for axis in axes}


def refuse_unnamed(tensor, heads, rows, option="axes="):
    """Raises AnnulusError for k or v (B, S, heads, D) without axis names if it has more heads than rows, because such a
    tensor almost always has PyTorch's order (B, H, S, D). q is not checked, as it may have fewer rows than heads."""
    if heads > rows:
        raise AnnulusError(f"{tensor} has {heads} key/value heads and {rows} rows: are the axes in another order? "
                           f"({option} says which)")


def lse_element(element):
    """The type in which annulus computes the LSE, and reads its gradient dlse, of tensors of this type."""
    return element if element.name == "float64" else elements.FLOAT32


def check_input(found):
    """Raises AnnulusError unless annulus can read q, k, v (and dout, dlse, if given) together. All have axis names."""
    for name in ("q", "k", "v"):
        if name not in found:
            raise AnnulusError(f"no tensor {name}")
    q = found["q"]
    for tensor in (q, found["v"]):
        if tensor.shape[3] > HEAD_DIM_MOST:
            raise AnnulusError(f"{tensor.where}: has head size {tensor.shape[3]}; expected 1 to {HEAD_DIM_MOST}")
    for name, tensor in found.items():
        expected = sizes(q)
        if name in ("k", "v"):
            expected.update({axis: sizes(found["k"]).get(axis, 0) for axis in ("head", "sequence")})
        if name in ("v", "dout"):
            expected["dim"] = sizes(found["v"]).get("dim", 0)
        if name == "dlse":
            del expected["dim"]
        if len(tensor.shape) != len(expected) or sizes(tensor) != expected:
            raise AnnulusError(f"{tensor.where}: has shape {tensor.shape}; expected {tuple(expected.values())} "
                               f"to fit q {q.shape}")
        if tensor.axes[1] != q.axes[1]:
            raise AnnulusError(f"{tensor.where}: has axes ({', '.join(tensor.axes)}); expected the order of q, "
                               f"({', '.join(q.axes)}) (--to-axes reorders all of them)")
        expected = lse_element(q.element) if name == "dlse" else q.element
        if tensor.element != expected:
            like = f"the lse of {q.element.name} tensors" if name == "dlse" else "q"
            raise AnnulusError(f"{tensor.where}: has type {tensor.element.name}; expected {expected.name} as {like} "
                               "(--type converts all of them)")
    heads, kv_heads = sizes(q)["head"], sizes(found["k"])["head"]
    if heads % kv_heads != 0:
        raise AnnulusError(f"{found['k'].where}: has {kv_heads} heads; expected a divisor of the {heads} of q")
