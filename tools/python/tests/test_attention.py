"""annulus.attention on arrays of NumPy and JAX: results by definition, memory layouts, mistakes, threads, Ctrl-C."""
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import ml_dtypes
import numpy as np
import pytest
from definition import composed, often, pattern_of

import annulus
from annulus.errors import AnnulusError

SEGMENTS, DILATIONS = (8, "all"), (1, 3)
WORDS = {"segments": SEGMENTS, "dilations": DILATIONS, "causal": True}
TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 3e-3, "bfloat16": 2e-2}


def arrays(kind="float32", shape=(2, 37, 4, 8), kv_heads=2):
    """q, k and v (B, S, heads, D)."""
    generator = np.random.default_rng(5)
    kind = ml_dtypes.bfloat16 if kind == "bfloat16" else kind
    return [generator.standard_normal((*shape[:2], heads, shape[3])).astype(kind) for heads in (shape[2], kv_heads, kv_heads)]


def error(found, expected):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape
    return abs(found - expected).max() / max(1, abs(expected).max())


def by_composition(q, k, v, causal=True, documents=None, scale=None, segments=SEGMENTS, dilations=DILATIONS, sink=None,
                   **scores):
    """[out, lse] of annulus.attention, computed by PyTorch's own operations in float64."""
    import torch
    sink = None if sink is None else torch.from_numpy(np.asarray(sink, np.float64))
    counts = often(q.shape[1], q.shape[2], pattern_of(segments, dilations, causal), documents)
    return [x.numpy() for x in composed(*[torch.from_numpy(np.asarray(x, np.float64)) for x in (q, k, v)], counts, scale, sink,
                                         **scores)]


# In this pattern every row sees itself: the pair (8, 1) picks all rows.
@pytest.mark.parametrize("kind", TOLERANCE)
def test_every_type_gives_the_definition(kind):
    q, k, v = arrays(kind)
    out, lse = annulus.attention(q, k, v, **WORDS)
    expected = by_composition(q, k, v)
    assert out.dtype == q.dtype and lse.dtype == (np.float64 if kind == "float64" else np.float32)
    assert error(out, expected[0]) <= TOLERANCE[kind]
    # On CPUs with products of bfloat16 the LSE is a sum of rounded weights, so its error is larger. On CPUs with AMX
    # float16 has products of 3xbfloat16.
    assert error(lse, expected[1]) <= {"float64": 1e-12, "bfloat16": TOLERANCE["bfloat16"], "float16": 1e-4}.get(kind, 1e-5)


@pytest.mark.parametrize("words", [
    {"segments": ["all"], "dilations": [1], "causal": False},
    {"segments": [5], "dilations": [1], "causal": True},
    {"documents": [0, 4, 4, 20, 37], "segments": SEGMENTS, "dilations": DILATIONS, "causal": True},
    {"scale": 0.7, "segments": SEGMENTS, "dilations": DILATIONS, "causal": False},
    {"segments": [annulus.window(5)], "dilations": [1], "causal": True},
    {"segments": [{"window": [3, 2]}, 8], "dilations": [4, 1], "causal": False},
    {"segments": [annulus.window([2, 1], first=3), {"window": 4}], "dilations": [1, 2], "causal": False,
     "documents": [0, 4, 4, 20, 37]},
    {"segments": [{"window": [4, 0], "first": 2}], "dilations": [1], "causal": True},
])
def test_every_setting_gives_the_definition(words):
    q, k, v = arrays("float64")
    out, lse = annulus.attention(q, k, v, **words)
    expected = by_composition(q, k, v, **words)
    assert error(out, expected[0]) <= 1e-12 and error(lse, expected[1]) <= 1e-12
    reference = annulus.reference(q, k, v, **words)
    assert error(reference[0], expected[0]) <= 1e-13 and error(reference[1], expected[1]) <= 1e-13
    assert annulus.verify(q, k, v, out, lse, rows=37, **words)
    out[0, 3, 1, 2] += 1e-6
    assert not annulus.verify(q, k, v, out, lse, rows=37, **words)


def test_verify_knows_how_products_are_rounded():
    x = arrays("float64")[0]
    out, lse = annulus.attention(x, x, x, precision="float32")
    found = annulus.verify(x, x, x, out, lse, precision="float32")
    assert found and found.tolerance == TOLERANCE["float32"] and found.error_out > TOLERANCE["float64"]
    assert not annulus.verify(x, x, x, out, lse)
    for kind, precision, tolerance in (("float32", "3xbfloat16", 1e-4), ("float32", "6xbfloat16", 1e-5),
                                       ("float16", "3xbfloat16", TOLERANCE["float16"])):
        x = arrays(kind)[0]
        found = annulus.verify(x, x, x, *annulus.attention(x, x, x, precision=precision), precision=precision)
        assert found and found.tolerance == tolerance


@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize("sink_kind", ["float64", "float32", "bfloat16"])
def test_sink_logits(kind, sink_kind):
    q, k, v = arrays(kind)
    sink = np.array([0.5, -np.inf, 3, -2]).astype(ml_dtypes.bfloat16 if sink_kind == "bfloat16" else sink_kind)
    out, lse = annulus.attention(q, k, v, sink=sink, **WORDS)
    expected = by_composition(q, k, v, sink=sink)
    assert error(out, expected[0]) <= TOLERANCE[kind]
    assert error(lse, expected[1]) <= {"float64": 1e-12, "bfloat16": TOLERANCE["bfloat16"]}.get(kind, 1e-5)
    assert annulus.verify(q, k, v, out, lse, sink=sink, **WORDS)
    assert not annulus.verify(q, k, v, out, lse, **WORDS)
    without = annulus.attention(q, k, v, **WORDS)
    assert np.array_equal(out[:, :, 1], without[0][:, :, 1]) and not np.array_equal(out[:, :, 0], without[0][:, :, 0])


def test_sink_logits_of_rows_without_keys():
    q, k, v = arrays("float64")
    words = {"segments": [8], "dilations": [2]}
    out, lse = annulus.attention(q, k, v, sink=np.zeros(4), **words)
    keyless = np.isinf(annulus.attention(q, k, v, **words)[1])
    assert keyless.any() and np.array_equal(np.isinf(lse), keyless) and (out[keyless] == 0).all()


@pytest.mark.parametrize("sink, message", [
    (np.zeros(3), r"sink is \(3,\), expected \(4,\): a number for each head of q"),
    (np.zeros((1, 4)), r"sink is \(1, 4\), expected \(4,\)"),
    (np.array([0, 1, np.nan, 2]), r"sink\[2\] is nan, expected finite numbers, or -inf for a head without a sink"),
    (np.array([0, np.inf, 0, 2]), r"sink\[1\] is inf, expected finite numbers"),
    (np.zeros(4, int), "sink has numbers of type int64, expected float64"),
    ([0, 0, 0, 0], "sink is a list, expected an array"),
])
def test_sink_logits_that_are_none(sink, message):
    with pytest.raises(annulus.AnnulusError, match=message):
        annulus.attention(*arrays(), sink=sink)


def test_ways_to_write_a_window():
    q, k, v = arrays("float64")
    one = annulus.attention(q, k, v, segments=[annulus.window([4, 0], first=2)], dilations=[1], causal=True)
    for segments in (annulus.window(5, first=2), {"window": 5, "first": 2}, [{"window": (4, 9), "first": np.int64(2)}],
                     [annulus.window(np.array([4, 0]), first=2)]):
        for found, expected in zip(annulus.attention(q, k, v, segments=segments, dilations=1, causal=True), one):
            assert np.array_equal(found, expected)
    assert str(annulus.window([4, 0], first=2)) == "{window: [4, 0], first: 2}"
    alone = annulus.attention(q, k, v, segments=[{"window": 1}], dilations=[1], causal=True)[0]
    assert error(alone, v.repeat(2, axis=2)) <= 1e-14, "a row that sees itself alone is its value"


@pytest.mark.parametrize("segment, dilation, words, message", [
    ({"window": 0}, 1, {}, r"segments\[0\]: window is 0, expected a whole number, 1 or more, or \[left, right\]"),
    ({"window": [1, 2, 3]}, 1, {}, r"segments\[0\]: window is \[1, 2, 3\], expected a number of rows, or \[left, right\]"),
    ({"window": 3, "frist": 1}, 1, {}, r"segments\[0\] is .*, expected {'window': rows or \[left, right\], 'first': rows}"),
    ({"window": 3, "first": -1}, 1, {}, r"segments\[0\]: first is -1, expected a whole number, 0 or more"),
    ({"window": 3, "first": 1}, 2, {}, r"plan: segments: pair 1, {window: \[2, 2\], first: 1}: first needs dilation 1"),
    ({"window": [2**62, 0]}, 1, {}, r"plan: segments\[0\] is a window of left 4611686018427387904"),
    ({"window": 3}, 1, {"semantics": "torchscale"}, r"plan: segments: pair 1, .*: torchscale has no windows"),
])
def test_windows_that_are_refused(segment, dilation, words, message):
    with pytest.raises(AnnulusError, match=message):
        annulus.attention(*arrays(), segments=[segment], dilations=[dilation], **words)


def test_defaults_are_dense_attention():
    q, k, v = arrays("float64")
    assert error(annulus.attention(q, k, v)[0], by_composition(q, k, v, False, segments=["all"], dilations=[1])[0]) <= 1e-12


@pytest.mark.parametrize("lies", ["bhsd", "bhsd strided", "fused", "every second row", "reversed", "fortran", "swapped bytes"])
def test_arrays_lie_as_they_like(lies):
    q, k, v = arrays()
    expected = annulus.attention(q, k, v, **WORDS)
    axes = "bshd"
    if lies.startswith("bhsd"):
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        axes = "bhsd"
        if lies == "bhsd":
            q, k, v = (np.ascontiguousarray(x) for x in (q, k, v))
    elif lies == "fused":  # q, k and v side by side, as one projection makes them
        fused = np.concatenate([x.reshape(2, 37, -1) for x in (q, k, v)], axis=2)
        q, k, v = (x.reshape(2, 37, -1, 8) for x in np.split(fused, [32, 48], axis=2))
        assert q.base is not None and not q.flags.c_contiguous
    elif lies == "every second row":
        q, k, v = (np.repeat(x, 2, axis=1)[:, ::2] for x in (q, k, v))
    elif lies == "reversed":
        q, k, v = (x[:, ::-1].copy()[:, ::-1] for x in (q, k, v))
    elif lies == "fortran":
        q, k, v = (np.asfortranarray(x) for x in (q, k, v))
    elif lies == "swapped bytes":
        q, k, v = (x.astype(">f4") for x in (q, k, v))
    found = annulus.attention(q, k, v, axes=axes, **WORDS)
    if axes == "bhsd":
        found = [x.swapaxes(1, 2) for x in found]
    assert np.array_equal(found[0], expected[0]) and np.array_equal(found[1], expected[1])


def test_read_only_arrays_and_one_array_thrice():
    x = arrays("float64", kv_heads=4)[0]
    x.flags.writeable = False
    assert error(annulus.attention(x, x, x)[0], annulus.reference(x, x, x)[0]) <= 1e-12


def test_jax():
    import jax
    q, k, v = arrays()
    expected = annulus.attention(q, k, v, **WORDS)
    found = annulus.attention(*[jax.numpy.asarray(x) for x in (q, k, v)], **WORDS)
    assert all(isinstance(x, jax.Array) for x in found)
    assert np.array_equal(found[0], expected[0]) and np.array_equal(found[1], expected[1])
    half = annulus.attention(*[jax.numpy.asarray(x, jax.numpy.bfloat16) for x in (q, k, v)], **WORDS)
    assert half[0].dtype == jax.numpy.bfloat16 and error(half[0], expected[0]) <= 3e-2


def test_statistics():
    q, k, v = arrays("float64")
    out, lse, told = annulus.attention(q, k, v, statistics=["entropy", "received", "top"], top_keys=3, **WORDS)
    assert sorted(told) == ["entropy", "received", "top_rows", "top_weights"]
    counts = often(37, 4, pattern_of(SEGMENTS, DILATIONS, True)).numpy()
    scores = np.einsum("bxhd,bphd->bhxp", q, k.repeat(2, axis=2)) / np.sqrt(8)
    weights = counts * np.exp(scores - lse.swapaxes(1, 2)[..., None])
    assert error(told["received"], weights.sum(2).swapaxes(1, 2)) <= 1e-12
    terms = np.where(weights > 0, weights * np.log(np.where(counts > 0, weights / np.maximum(counts, 1), 1)), 0)
    assert error(told["entropy"], -terms.sum(-1).swapaxes(1, 2)) <= 1e-11
    best = np.take_along_axis(weights, np.maximum(told["top_rows"].swapaxes(1, 2), 0), axis=-1)
    assert error(told["top_weights"], (best * (told["top_rows"].swapaxes(1, 2) >= 0)).swapaxes(1, 2)) <= 1e-12
    assert told["top_weights"].shape == (2, 37, 4, 3) and np.all(np.diff(told["top_weights"]) <= 0)
    turned = annulus.attention(*[x.swapaxes(1, 2) for x in (q, k, v)], axes="bhsd", statistics="received", **WORDS)[2]
    assert np.array_equal(turned["received"].swapaxes(1, 2), told["received"])


def test_plan():
    made = annulus.plan(8192, 8, 64, ranks=4, causal=True, partition="zigzag", strategy="ring")
    assert (made.strategy, made.partition, made.ranks) == ("ring", "zigzag", 4)
    assert sorted(row for rank in range(4) for row in made.row_numbers(rank)) == list(range(8192))
    assert made.rows(0) == [(0, 1024), (7168, 8192)]
    assert made.kept(0) == made.kept(3) == 8 * 8192 * 8193 / 2 / 4
    assert made.received(0) > 0 and made.memory(0) > 4 * 2048 * 8 * 64 * 4
    assert repr(made).count("\n") == 5 and "ring, zigzag, 4 ranks" in repr(made)
    cyclic = annulus.plan(64, 1, 8, ranks=2, partition="block_cyclic", strategy="ring")
    assert cyclic.partition == "block_cyclic" and len(cyclic.rows(0)) > 1


@pytest.mark.parametrize("words, message", [
    ({"q": [1.0]}, "q is a list, expected an array of NumPy, PyTorch or JAX"),
    ({"k": np.zeros((2, 37, 2, 8))}, "k is float64, q is float32; expected the same"),
    ({"q": np.zeros((2, 37, 4, 8), int)}, "q has numbers of type int64, expected float64, float32, float16, bfloat16"),
    ({"v": np.zeros((37, 2, 8), "f4")}, "v is (37, 2, 8), expected four axes, b, s, h, d"),
    ({"v": np.zeros((2, 36, 2, 8), "f4")}, "v is (2, 36, 2, 8) for q (2, 37, 4, 8) in the order (B, S, heads, D), expected "
                                           "(2, 37, 2, 8)"),
    ({"axes": "bsdh"}, "axes is 'bsdh', expected 'bshd' (batch, rows, heads, numbers) or 'bhsd'"),
    ({"segments": [8]}, "segments and dilations go together: one entry of each per pair"),
    ({"segments": [8], "dilations": [1, 2]}, "plan: there are 1 segments and 2 dilations, expected one of each per pair"),
    ({"segments": [0], "dilations": [1]}, "segments[0] is 0, expected a whole number, 1 or more, 'all' or a window"),
    ({"segments": [8.5], "dilations": [1]}, "segments[0] is 8.5, expected a whole number, 1 or more, 'all' or a window"),
    ({"segments": [-8], "dilations": [1]}, "segments[0] is -8, expected a whole number, 1 or more, 'all' or a window"),
    ({"semantics": "long"}, "plan: semantics is 'long', expected one of longnet, paper, grouped, torchscale"),
    ({"documents": [0, 40]}, "plan: documents go from 0 to 40 in 2 numbers, expected offsets from 0 to the sequence's "
                             "length, 37"),
    ({"semantics": "torchscale", "segments": [20], "dilations": [3]},
     "plan: segments: torchscale writes rows to wrong places in pair 1, segment 20 and dilation 3: the sequence of 37 rows "
     "has more than one segment, and 20 is no multiple of 3; expected a multiple or at least 37 rows"),
    ({"statistics": ["entropie"]}, "statistics[0] is 'entropie', expected one of entropy, received, top"),
    ({"scale": 1e-39}, "plan: scale: 1e-39, times log2(e), is no number of precision float32, expected 8.1e-39 to 2.4e+38"),
    ({"precision": "tf23"}, "plan: precision is 'tf23', expected one of auto, float32, float64, bfloat16, tf32, 3xtf32, "
                            "3xbfloat16, 6xbfloat16"),
    (dict(zip("qkv", arrays("float16"))) | {"precision": "6xbfloat16"},
     "plan: precision: products of 6xbfloat16 are made of tensors of float32 only, and these are float16; expected auto, "
     "float32 or float64"),
    (dict(zip("qkv", arrays("float64"))) | {"precision": "3xbfloat16"},
     "plan: precision: products of 3xbfloat16 are made of tensors of float32 or float16 only, and these are float64"),
    ({"precision": "bfloat16"}, "plan: precision: products of bfloat16 are made of tensors of bfloat16 only, and these "
                                "are float32; expected auto, float32 or float64"),
    ({"precision": "tf32"}, "plan: precision: products of tf32 are made by the matrix units of a GPU (NVIDIA, "
                            "sm_80 and later), and this build computes on the host; expected auto, float32 or float64"),
    ({"strategy": "rings"}, "plan: strategy is 'rings', expected one of auto, single, "),
    ({"semantics": None}, "semantics is None, expected its name, a text"),
    ({"scale": "x"}, "scale is 'x', expected a finite number"),
    ({"segments": [2**70], "dilations": [1]}, "segments[0] is 1180591620717411303424, expected a whole number, 1 to "
                                               "9223372036854775807, 'all' or a window"),
    ({"statistics": "top", "top_keys": 0}, "top_keys is 0, expected a whole number, 1 to 1024"),
    ({"progress": 5}, "progress is 5, expected a function of (share, where)"),
    ({"comm": 5}, "comm is a int, expected an intracommunicator of mpi4py, a process group of torch.distributed, "),
])
def test_mistakes_are_named(words, message):
    q, k, v = arrays()
    with pytest.raises(annulus.AnnulusError) as raised:
        annulus.attention(**{"q": q, "k": k, "v": v} | words)
    assert str(raised.value).startswith(message)


def test_progress_is_told_and_may_end_it():
    x = np.ones((1, 3000, 4, 64), "f4")
    seen = []
    annulus.attention(x, x, x, progress=lambda share, where: seen.append((share, where)))
    assert seen[-1][0] == 1 and isinstance(seen[-1][1], str)

    def enough(_share, _where):
        raise ValueError("enough")
    with pytest.raises(ValueError, match="^enough$"):
        annulus.attention(x, x, x, progress=enough)
    assert np.allclose(annulus.attention(x, x, x)[0], 1)  # the next call works as if nothing had happened


def python(text, status=0, **environment):
    done = subprocess.run([sys.executable, "-P", "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=600,
                          env=os.environ | environment)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_threads_are_settable():
    told = python("""
        import annulus, numpy as np
        annulus.set_threads(2)
        x = np.ones((1, 64, 2, 8), "f4")
        annulus.attention(x, x, x)
        print(annulus.threads())
        annulus.set_threads(1)
        annulus.attention(x, x, x)
        print(annulus.threads())
        for count in (0, 3):
            try:
                annulus.set_threads(count)
            except annulus.AnnulusError as error:
                print(error)
        """)
    assert told.splitlines() == [
        "2", "1", "count is 0, expected a whole number, 1 to 2147483647",
        "set_threads: 3 threads; this process began to compute with 2, expected as many or fewer (set more before the first "
        "call, or OMP_NUM_THREADS)"]
    assert python("import annulus; print(annulus.threads())", OMP_NUM_THREADS="3") == "3\n"


def test_other_threads_wait_their_turn_and_python_goes_on():
    q, k, v = arrays("float64")
    expected = annulus.attention(q, k, v, **WORDS)[0]
    found, errors = [], []

    def work():
        try:
            for _ in range(20):
                found.append(annulus.attention(q, k, v, **WORDS)[0])
        except Exception as problem:  # an exception of the thread would be lost
            errors.append(problem)
    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(600)
    assert not errors and len(found) == 80 and all(np.array_equal(x, expected) for x in found)


def test_ctrl_c_ends_it():
    """Ctrl-C ends a call that would take minutes, and the next call works."""
    process = subprocess.Popen([sys.executable, "-P", "-c", textwrap.dedent("""
        import annulus, signal, numpy as np
        signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background jobs with SIGINT ignored
        x = np.ones((1, 1, 1, 1), "f4")
        annulus.attention(x, x, x)
        x = np.zeros((1, 400_000, 4, 64), "f4")
        try:
            print("begins", flush=True)
            annulus.attention(x, x, x)
        except KeyboardInterrupt:
            x = np.ones((1, 100, 1, 8), "f4")
            assert np.allclose(annulus.attention(x, x, x)[0], 1)
            print("ended")
        """)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begins\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    try:
        told = process.communicate(timeout=240)[0]
    except subprocess.TimeoutExpired as late:
        threads = [(task.name, (task / "comm").read_text(), (task / "wchan").read_text(), (task / "stat").read_text())
                   for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir()]
        process.kill()
        raise AssertionError(f"told {process.communicate()[0]!r} so far, threads {threads}") from late
    assert told == "ended\n" and process.returncode == 0


def test_a_forked_process_is_told_why_it_cannot():
    told = python("""
        import os, sys, annulus, numpy as np
        x = np.ones((1, 8, 1, 8), "f4")
        annulus.attention(x, x, x)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                annulus.attention(x, x, x)
            except annulus.AnnulusError as error:
                print(error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        """)
    assert told.startswith("this process was forked from one that had computed with annulus already")


def test_importing_it_starts_nothing():
    told = python("""
        import sys, threading, os, annulus
        annulus.attention
        print(len(os.listdir("/proc/self/task")), "torch" in sys.modules, "matplotlib" in sys.modules, "mpi4py" in sys.modules)
        """)
    assert told.split()[1:] == ["False", "False", "False"] and int(told.split()[0]) <= 3  # MPI may add some
