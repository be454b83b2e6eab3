"""Every public function refuses a wrong value of any argument, with an AnnulusError of one line."""
import inspect
import types

import h5py
import numpy as np
import pytest
import statistics_example
import torch

import annulus
import annulus.torch
from annulus import grid
from annulus.errors import AnnulusError
from annulus.plans import Plan
from annulus.results import statistics

ROWS = 12
FORTY = [(256 * (i % 8), 256 * (i // 8)) for i in range(40)]  # coordinates of tiles, one for each row of the result


class Anything:
    """A callable that takes any arguments."""

    def __init__(self, *_, **__):
        pass


class Strange:
    """An object that cannot be printed."""

    def __repr__(self):
        raise RuntimeError("no\nwords")


def quantized():
    return torch.quantize_per_tensor(torch.ones(1, ROWS, 2, 4), 0.1, 0, torch.quint8)


def nested():
    return torch.nested.nested_tensor([torch.ones(3, 2, 4), torch.ones(5, 2, 4)])


BAD = {
    "none": None, "true": True, "bool of numpy": np.bool_(True), "half": 2.5, "float": 2.0, "nan": float("nan"),
    "infinite": float("inf"), "complex": 1j, "negative": -1, "huge": 10**12, "more than 64 bits": 2**70,
    "more digits than are written": 10**5000, "digits": "8", "false as text": "false", "no text": "", "lines": "a\nb",
    "zero byte": "a\0b", "bytes": b"b", "empty": [], "nested": [[0, 5], [7]], "words": ["a", "b"],
    "bools": [np.bool_(True)],
    "halves": [1.5], "nothing listed": [None], "a dictionary": {"a": 1}, "a set": set(), "slice": slice(0, 3),
    "no end": range(10**12), "a function": lambda *_, **__: None, "a class": Anything, "an object": object(), "strange": Strange(),
    "masked": np.ma.array([1, 2], mask=[False, True]), "masked number": np.ma.masked, "texts": np.array(["a"]),
    "objects": np.array([{}, 1], dtype=object), "no bytes": np.empty(3, "V0"), "matrix": np.zeros((2, 2)),
    "scalar tensor": torch.tensor(1.5), "meta": torch.ones(1, ROWS, 2, 4, device="meta"),
    "sparse": torch.ones(1, ROWS, 2, 4).to_sparse(), "quantized": quantized(), "nested tensor": nested(),
}


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """{name: (function, correct arguments)} of all public functions."""
    folder = tmp_path_factory.mktemp("arguments")
    statistics_example.example(folder / "result.h5")
    made = annulus.open_result(folder / "result.h5").load()
    q = np.random.default_rng(0).standard_normal((1, ROWS, 2, 4)).astype("f4")
    np.savez(folder / "t.npz", q=q, k=q, v=q)
    annulus.convert(folder / "t.npz", folder / "input.h5")
    np.save(folder / "coords.npy", FORTY)
    with h5py.File(folder / "sweep.h5", "w") as file:
        for name, values in {"ranks": [1, 2], "sequence": [64] * 2, "strategy": ["ring"] * 2,
                             "attention_seconds_median": [1.0, 0.6], "peak_bytes": [1e6, 6e5]}.items():
            file[f"cases/{name}"] = values
    return of_arrays(q) | of_files(folder, made) | of_pictures(folder, made)


def of_arrays(q):
    plain = {"segments": [4, "all"], "dilations": [1, 2], "causal": True, "semantics": "longnet",
             "documents": [0, ROWS], "scale": 0.5, "group_scale": False, "strategy": "auto", "partition": "contiguous",
             "precision": "auto", "reproducible": False, "lengths": None}
    plain |= {"softcap": 5.0, "bias": {"alibi": "auto", "exempt": 1}, "coordinates": np.zeros((ROWS, 2))}
    pattern = plain | {"statistics": ["top"], "top_keys": 2}
    qkv = {"q": q, "k": q, "v": q}
    tensors = {name: torch.from_numpy(array) for name, array in qkv.items()}
    out, lse = annulus.attention(**qkv)
    plan = {"sequence": ROWS, "heads": 2, "head_dim": 4, "ranks": 2, "batch": 1, "kv_heads": 2, "type": "float32"}
    made = annulus.plan(**plan)
    alone = annulus.plan(**plan | {"ranks": 1})
    sdpa = {"query": torch.ones(1, 2, ROWS, 4), "key": torch.ones(1, 2, ROWS, 4), "value": torch.ones(1, 2, ROWS, 4)}
    more = {name: plain[name] for name in ("segments", "dilations", "semantics", "documents", "reproducible")}
    return {
        "attention": (annulus.attention, qkv | pattern | {"axes": "bshd", "comm": None, "progress": None, "threads": None}),
        "reference": (annulus.reference, qkv | pattern | {"rows": [0, 5], "axes": "bshd"}),
        "verify": (annulus.verify, qkv | {"out": out, "lse": lse, "rows": 3, "axes": "bshd"} | pattern),
        "plan": (annulus.plan, plan | pattern),
        "Plan.rows": (made.rows, {"rank": 1}), "Plan.row_numbers": (made.row_numbers, {"rank": 1}),
        "Plan.query_rows": (made.query_rows, {"rank": 1}), "Plan.query_row_numbers": (made.query_row_numbers, {"rank": 1}),
        "Plan.kept": (made.kept, {"rank": 1}), "Plan.received": (made.received, {"rank": 1}),
        "Plan.memory": (made.memory, {"rank": 1}),
        "set_threads": (annulus.set_threads, {"count": 1}), "threads": (annulus.threads, {}),
        "description": (annulus.description, {}), "info": (annulus.info, {}),
        "torch.dilated_attention": (annulus.torch.dilated_attention, tensors | plain | {
            "axes": "bshd", "comm": None, "return_lse": False, "progress": None, "threads": None}),
        "torch.scaled_dot_product_attention": (annulus.torch.scaled_dot_product_attention, sdpa | more | {
            "attn_mask": None, "dropout_p": 0.0, "is_causal": True, "scale": None, "enable_gqa": False}),
        "torch.communicator_name": (annulus.torch.communicator_name, {"comm": None, "name": None}),
        "window": (annulus.window, {"rows": [4, 0], "first": 1}),
        "torch.register": (annulus.torch.register, {"segments": [4], "dilations": [1], "name": "annulus"}),
        "redistribute": (annulus.redistribute, {"x": q, "from_plan": alone, "to_plan": alone, "comm": None, "axis": 1}),
    }


def of_files(folder, result):
    page = {"result_file": folder / "result.h5", "page_file": folder / "page.html", "overwrite": True}

    def captured(**words):
        with annulus.capture(**words) as recorder:
            words["model"](torch.ones(1, 6, 8))
        return recorder
    to_capture = {"model": torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True).eval(), "path": folder / "captured.h5",
                  "layer": 0, "dout": False, "overwrite": True}
    run_file = captured(**to_capture).run_file
    return {
        "capture": (captured, to_capture),
        "Recorder.run_file": (run_file, {"input_file": "in.h5", "output_file": "out.h5", "layer": 0,
                                         "segments": ["all"], "dilations": [1]}),
        "cases": (annulus.cases, {"paths": [folder / "sweep.h5"]}),
        "convert": (annulus.convert, {
            "sources": folder / "t.npz", "target": folder / "u.npz", "names": {"q": "q"}, "only": ["q", "k"],
            "axes": "bshd", "to_axes": "bhsd", "split_heads": None, "heads": [0], "interleaved": False,
            "type": "float64", "overwrite": True, "say": print}),
        "coordinates": (annulus.coordinates, {"path": folder / "coords.npy", "name": None}),
        "open_input": (annulus.open_input, {"path": folder / "input.h5"}),
        "open_result": (annulus.open_result, {"path": folder / "result.h5"}),
        "open_sweep": (annulus.open_sweep, {"path": folder / "sweep.h5"}),
        "report": (annulus.report, page),
        "token_page": (annulus.token_page, page | {"tokens": ["a"] * 40, "query": 3, "head": 1, "batch": 0,
                                                   "rows": (0, 9)}),
        "settings": (annulus.settings, {"result": result}),
        "statistics.of_rows": (statistics.of_rows, {"result": result, "name": "entropy", "batch": 0, "head": 1}),
        "statistics.listed": (statistics.listed, {"result": result, "query": 3, "batch": 0, "head": 1}),
        "grid.of": (grid.of, {"coords": FORTY, "tile": 256}), "grid.distance": (grid.distance, {"coords": FORTY}),
        "grid.coordinates": (grid.coordinates, {"path": folder / "coords.npy", "name": "coords"}),
        "Grid.image": (grid.of(FORTY).image, {"values": np.arange(40)}),
    }


def of_pictures(folder, result):
    plots, table = annulus.plots, annulus.cases(folder / "sweep.h5")
    pattern = annulus.Pattern((4, "all"), (1, 2))
    trained = result.assign(loss=("step", np.array([2.0, 1.0])))
    hops = ("rank", "hop"), np.ones((1, 2))
    ran = result.assign(hop_compute_seconds=hops, hop_wait_seconds=hops, bytes_from=(("rank", "sender"), [[0.0]]))
    return {
        "Pattern.checked": (lambda **words: annulus.Pattern(**words).checked(), {
            "segments": (4, "all"), "dilations": (1, 2), "causal": True, "semantics": "paper"}),
        "Pattern.of_settings": (annulus.Pattern.of_settings, {"settings": {"attention": {"causal": True}}}),
        "Pattern.of_result": (annulus.Pattern.of_result, {"settings": {"attention": {"causal": True}}}),
        "Pattern.offset": (pattern.offset, {"pair": 1, "head": 1, "heads": 2}),
        "Pattern.multiplicity": (pattern.multiplicity, {"queries": [3], "rows": 8, "head": 0, "heads": 2}),
        "plots.scaling": (plots.scaling, {"table": table, "kind": "weak"}),
        "plots.memory": (plots.memory, {"table": table}),
        "plots.strategies": (plots.strategies, {"table": table}),
        "plots.timeline": (plots.timeline, {"result": ran, "backward": False}),
        "plots.traffic": (plots.traffic, {"result": ran, "backward": False}),
        "plots.lse": (plots.lse, {"result": result, "batch": 1}),
        "plots.entropy": (plots.entropy, {"result": result, "batch": 1}),
        "plots.received": (plots.received, {"result": result, "batch": 1}),
        "plots.loss": (plots.loss, {"result": trained}),
        "plots.slide": (plots.slide, {"result": result, "coords": FORTY, "what": "received", "batch": 0, "head": 1,
                                      "query": None, "tile": 256, "first_row": 0}),
        "plots.pattern": (plots.pattern, {"chosen": pattern, "rows": 16, "head": 0, "heads": 2, "query": 3}),
        "plots.save": (plots.save, {"picture": plots.loss(trained), "path": folder / "p.svg", "overwrite": True}),
    }


def public():
    """Names of all functions and methods that the package offers."""
    def of(place, prefix, names):
        return {prefix + name for name in names if inspect.isroutine(getattr(place, name))}

    def methods(kind):
        return of(kind, f"{kind.__name__}.", {name for name in vars(kind) if not name.startswith("_")})

    def functions(module, prefix):
        return {prefix + name for name, one in vars(module).items() if isinstance(one, types.FunctionType)
                and one.__module__ == module.__name__ and not name.startswith("_")}
    helpers = {"statistics.statistic", "statistics.checked"}
    return (of(annulus, "", annulus.__all__) | of(annulus.plots, "plots.", annulus.plots.__all__) | methods(Plan)
            | methods(grid.Grid) | methods(annulus.Pattern) | {"Recorder.run_file"} | functions(grid, "grid.")
            | functions(annulus.torch, "torch.") | {"torch.register"} | functions(statistics, "statistics.") - helpers)


def outcome(function, words):
    """Empty if the call succeeds, otherwise the text of the AnnulusError. A text that begins with ! is a fault."""
    try:
        function(**words)
        return ""
    except AnnulusError as mistake:
        text = str(mistake)
        return text if text and "\n" not in text and len(text) < 1000 else f"!no line: {text!r}"
    except BaseException as problem:  # pylint: disable=broad-except
        return f"!no AnnulusError: {type(problem).__name__}: {problem}"


def test_nothing_public_is_left_out(calls):
    assert public() == set(calls)


def test_what_is_right_is_taken(calls):
    for name, (function, words) in calls.items():
        assert outcome(function, words) == "", name


def test_whatever_is_wrong_is_an_error_of_one_line(calls, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some values are names of files
    found = []
    for name, (function, words) in calls.items():
        for argument in words:
            for what, value in BAD.items():
                said = outcome(function, words | {argument: value})
                if said.startswith("!"):
                    found.append(f"{name}({argument}={what}): {said[:200]}")
    assert not found, f"{len(found)}:\n" + "\n".join(found)


def test_words_that_there_are_not(calls):
    for name, (function, words) in calls.items():
        if name not in ("capture", "Pattern.checked"):  # functions of this file, which take any argument
            said = outcome(function, words | {"casual": True})
            begin, _, listed = said.partition(": got an unexpected keyword argument 'casual', expected ")
            assert begin == name.rpartition(".")[2] and set(words) <= {*listed.split(", "), *listed.split(" or ")}, said


REFUSED = [
    ("attention", "causal", "false", "causal is 'false', expected True or False"),
    ("attention", "reproducible", "auto", "reproducible is 'auto', expected True or False"),
    ("attention", "group_scale", 1, "group_scale is 1, expected True or False"),
    ("attention", "documents", [[0, 5], [7]], "documents[0] is [0, 5], expected a whole number"),
    ("attention", "documents", [0, 12.0], "documents[1] is 12.0, expected a whole number"),
    ("attention", "documents", [], "documents is [], expected a list of whole numbers"),
    ("attention", "segments", {8}, "segments is {8}, expected a list of whole numbers"),
    ("attention", "documents", {0, 12}, "documents is {0, 12}, expected a list of whole numbers"),
    ("attention", "lengths", [[0, 5], [7]], "lengths is [[0, 5], [7]], expected whole numbers (B,), how many rows exist"),
    ("attention", "lengths", [True], "lengths is [True], expected whole numbers (B,)"),
    ("attention", "lengths", [], "lengths is [], expected whole numbers (B,)"),
    ("torch.dilated_attention", "lengths", "12", "lengths is '12', expected whole numbers (B,)"),
    ("attention", "statistics", None, "statistics is None, expected a list of some of entropy, received, top"),
    ("attention", "top_keys", "8", "top_keys is '8', expected a whole number, 1 to 1024"),
    ("attention", "top_keys", 1.5, "top_keys is 1.5, expected a whole number, 1 to 1024"),
    ("attention", "top_keys", 2000, "top_keys is 2000, expected a whole number, 1 to 1024"),
    ("attention", "top_keys", 10**12, "top_keys is 1000000000000, expected a whole number, 1 to 1024"),
    ("attention", "segments", [np.bool_(True), 4], "segments[0] is "),  # NumPy's version decides what follows
    ("attention", "segments", [True, 4], "segments[0] is True, expected a whole number"),
    ("attention", "scale", "0.5", "scale is '0.5', expected a finite number"),
    ("attention", "scale", -1, "scale is -1.0, expected a number above 0"),
    ("attention", "q", quantized(), "q has numbers of type quint8, expected float64, float32, float16, bfloat16"),
    ("attention", "k", nested(), "k is a nested tensor, expected one with all its entries of one shape"),
    ("torch.dilated_attention", "v", nested(), "v is a nested tensor"),
    ("torch.dilated_attention", "q", np.ones((1, 4, 2, 4)), "q is a ndarray, expected a tensor of PyTorch"),
    ("torch.scaled_dot_product_attention", "query", nested(), "query is a nested tensor"),
    ("torch.scaled_dot_product_attention", "value", quantized().transpose(1, 2), "v has numbers of type quint8"),
    ("torch.scaled_dot_product_attention", "return_lse", True, "return_lse is no argument here"),
    ("torch.scaled_dot_product_attention", "is_causal", "false", "is_causal is 'false', expected True or False"),
    ("set_threads", "count", 2.5, "count is 2.5, expected a whole number, 1 to 2147483647"),
    ("reference", "rows", slice(0, 3), "rows is slice(0, 3, None), expected a list of rows"),
    ("reference", "rows", [12], "reference: there is no row 12, expected 0 to 11"),
    ("verify", "rows", 0, "rows is 0, expected a whole number, 1 or more"),
    ("plan", "ranks", 10**12, "ranks is 1000000000000, expected a whole number, 1 to 2147483647"),
    ("convert", "overwrite", "no", "overwrite is 'no', expected True or False"),
    ("convert", "heads", ["0"], "heads[0] is '0', expected a whole number"),
    ("Plan.rows", "rank", 2, "plan: there is no rank 2"),
    ("plots.timeline", "backward", "no", "backward is 'no', expected True or False"),
    ("plots.memory", "table", [1], "table is [1], expected a table, which annulus.cases() makes"),
]


@pytest.mark.parametrize("name, argument, value, expected", REFUSED)
def test_what_is_said(calls, name, argument, value, expected):
    function, words = calls[name]
    assert outcome(function, words | {argument: value}).startswith(expected)


def test_numbers_of_any_type_are_numbers(calls):
    """Numbers of NumPy and PyTorch, and arrays without axes, work like Python's numbers."""
    function, words = calls["attention"]
    expected = function(**words)
    same = {"segments": np.array([4, 12]), "dilations": torch.tensor([1, 2]), "causal": np.bool_(True),
            "documents": (i for i in (0, np.int32(12))), "scale": torch.tensor(0.5), "statistics": "top",
            "top_keys": np.uint8(2), "reproducible": torch.tensor(False)}
    found = function(**words | same)
    assert np.array_equal(found[0], expected[0]) and np.array_equal(found[2]["top_rows"], expected[2]["top_rows"])


def test_arrays_that_have_no_numbers_yet():
    import jax
    x = jax.numpy.ones((1, ROWS, 2, 4))
    with pytest.raises(AnnulusError, match="^q is traced by JAX .*, expected an array"):
        jax.jit(lambda x: annulus.attention(x, x, x)[0])(x)
    with pytest.raises(AnnulusError, match="^q has no memory of its own .*, expected a plain tensor"):
        torch.func.vmap(lambda x: annulus.attention(x, x, x)[0])(torch.ones(2, 1, ROWS, 2, 4))
