"""A random case: an input file, a run file, and how the program is launched and ended."""
import json

import h5py
import numpy as np

from reference import Attention

FLOATS = {"float64": "f8", "float32": "f4", "float16": "f2"}


class Case:
    """One random case. `kind`: run, passes, stream or bench; `settings` is the run file."""

    def __init__(self, random, tables, folder):
        self.random, self.tables, self.folder = random, tables, folder
        self.kind = self.one_of("run", "run", "run", "passes", "stream", "bench")
        self.ranks, self.threads = self.one_of(1, 2, 2, 3, 4), self.one_of(1, 1, 2)
        self.is_long = self.kind in ("passes", "stream") and self.once_in(2)  # long enough to be killed
        self._shape()
        self._pattern()
        self._rows()
        self.settings = {"input": {"file": "in.h5"}, "attention": self.attention, "compute": {}, "distribution": {},
                         "output": {"file": "out.h5"}}
        self._input_settings()
        self._other_settings()

    def one_of(self, *values):
        return values[self.random.integers(len(values))]

    def once_in(self, count):
        return self.random.integers(count) == 0

    def upto(self, most, least=1):
        return int(self.random.integers(least, most + 1))

    def _shape(self):
        self.batch = self.upto(2)
        self.rows = self.upto(4000, 1500) if self.is_long else self.one_of(self.upto(9), self.upto(60), self.upto(150))
        self.heads = self.one_of(1, 2, 3, 4, 6, 8)
        self.kv_heads = self.one_of(*(n for n in range(1, self.heads + 1) if self.heads % n == 0))
        self.head_dim = self.one_of(1, 3, 8, 16, 17, 40, 64)
        self.type = self.one_of("float64", "float32", "float32", "float16")
        self.backward = self.once_in(2)
        self.axes = self.one_of("bshd", "bshd", "bhsd")

    def _pattern(self):
        self.attention = {"semantics": self.one_of("longnet", *self.tables.semantics), "causal": not self.once_in(3)}
        if not self.once_in(4):
            most = self.heads if self.attention["semantics"] == "grouped" else 3
            pairs = [self._pair() for _ in range(self.upto(min(3, most)))]
            self.attention |= {"segments": [pair[0] for pair in pairs], "dilations": [pair[1] for pair in pairs]}
        if self.once_in(4):
            self.attention["scale"] = self.one_of(0.01, 0.3, 1.0)
        if self.once_in(4):
            self.attention["softcap"] = self.one_of(0.5, 2.0, 30.0)
        if self.once_in(4) and self.attention["semantics"] != "torchscale":
            slopes = self.one_of("auto", [0.25 * (1 + i) for i in range(self.heads)])
            self.attention["bias"] = {"alibi": slopes, "exempt": self.one_of(0, 0, 1, 3)}

    def _pair(self):
        dilation = self.one_of(1, 2, 3, 4, 7)
        if self.once_in(4) and self.attention["semantics"] != "torchscale":
            window = self.one_of(self.upto(40), [self.upto(20, 0), self.upto(20, 0)])
            if self.attention["causal"] and isinstance(window, list):
                window[1] = 0
            segment = {"window": window}
            if self.once_in(2):
                segment["first"], dilation = self.upto(5), 1
            return segment, dilation
        segment = self.one_of("all", self.upto(40), 8 * self.upto(12), self.rows)
        if self.attention["semantics"] == "torchscale" and segment != "all":
            segment *= dilation
        return segment, dilation

    def _rows(self):
        """Draws which rows exist, and at which rows the queries are."""
        self.documents = self.lengths = self.sink = self.coordinates = None
        self.queries, self.offset = self.rows, None
        way = self.one_of("all", "all", "documents", "lengths", "queries")
        if way == "documents":
            inner = sorted(self.upto(self.rows, 0) for _ in range(self.upto(4, 0)))
            self.documents = [0, *inner, self.one_of(self.rows, self.upto(self.rows, max([0, *inner])))]
        if way == "lengths":
            pairs = [sorted((self.upto(self.rows, 0), self.upto(self.rows, 0))) for _ in range(self.batch)]
            self.lengths = self.one_of(pairs, [end for _, end in pairs])
        if way == "queries" and self.kind != "stream":
            self.queries = self.upto(self.rows)
            self.offset = self.one_of("auto", self.upto(self.rows - self.queries, 0), "none")
            if self.offset == "none":
                self.attention = {key: value for key, value in self.attention.items()
                                  if key in ("scale", "softcap")} | {"causal": False}
        if self.once_in(4):
            self.sink = self.random.standard_normal(self.heads)
            self.sink[self.random.random(self.heads) < 0.2] = -np.inf
        if "bias" in self.attention and self.once_in(2):
            self.coordinates = self.random.standard_normal((self.rows, 2)) * 5

    def _input_settings(self):
        given = self.settings["input"]
        given |= {name: name for name in ("documents", "lengths", "sink", "coordinates") if getattr(self, name) is not None}
        if self.axes == "bhsd" or self.heads >= self.rows or self.once_in(8):  # needed in the first two cases
            given["axes"] = self.axes
        if self.offset is not None:
            given["query_offset"] = self.offset
        self.has_dlse = self.backward and self.once_in(2)
        if self.has_dlse:
            given["dlse"] = "dlse"

    def _other_settings(self):
        compute, distribution, output = (self.settings[name] for name in ("compute", "distribution", "output"))
        compute["backward"] = bool(self.backward)
        compute["reproducible"] = bool(self.once_in(4))
        distribution["strategy"] = "stream" if self.kind == "stream" else self.one_of(*self.strategies())
        if self.once_in(2) and self.kind != "stream":
            distribution["partition"] = self.one_of(*self.tables.partitions)
        if self.kind == "stream" or (distribution.get("partition") == "block_cyclic" and self.once_in(2)):
            distribution["block_size"] = self.upto(600, 100) if self.is_long else self.upto(40)
        if distribution["strategy"] == "hybrid" and self.once_in(2):
            distribution["ulysses_ranks"] = self.one_of(1, 2, self.ranks)
        if self.once_in(4):
            distribution["local_below"] = self.one_of(0, 100)
        if self.once_in(4):
            output["type"] = self.one_of("float32", "float64")
        if self.once_in(4):
            output["statistics"] = [name for name in ("entropy", "received", "top") if self.once_in(2)
                                    and (name == "entropy" or self.kind != "stream")]
            if "top" in output["statistics"]:
                output["top_keys"] = self.upto(9)
        if self.kind == "passes":
            compute["memory_limit"] = self._small_limit()
        if self.once_in(8):
            output |= {"report": "report.json", "trace": "trace.json"}
        for key, words in self.tables.choices.items():
            section, name = key.split(".")
            if section in self.settings and self.once_in(12):
                self.settings[section][name] = self.one_of(*(word for word in words if word != "auto"))
        if self.type != "float64" and self.once_in(6):
            split = ["3xbfloat16"] + ["6xbfloat16"] * (self.type == "float32")
            compute["precision"] = self.one_of(*split)

    def strategies(self):
        """The strategies that should support the case. Sometimes also others, which the program may refuse."""
        if self.settings["compute"]["reproducible"] and not self.once_in(8):
            return self.tables.reproducible[self.backward]
        return [name for name in self.tables.strategies if name != "stream" or self.once_in(8)]

    def _small_limit(self):
        """A memory limit in bytes: about what some heads with all rows need."""
        row = self.head_dim * (8 if self.type == "float64" else 4) * (10 if self.backward else 5)
        return int(row * self.rows * self.batch * self.one_of(1.5, 2.5, 4.0)) + 600_000

    def write(self):
        """Makes the input and the run file."""
        numbers = lambda *shape: self.random.standard_normal(shape)  # noqa: E731
        b, n, m, h, kv, d = self.batch, self.rows, self.queries, self.heads, self.kv_heads, self.head_dim
        self.tensors = {"q": numbers(b, m, h, d), "k": numbers(b, n, kv, d), "v": numbers(b, n, kv, d)}
        if self.backward:
            self.tensors["dout"] = numbers(b, m, h, d)
        with h5py.File(self.folder / "in.h5", "w") as file:
            for name, tensor in self.tensors.items():
                tensor = tensor.astype(FLOATS[self.type])
                self.tensors[name] = tensor.astype("f8")
                self._add(file, name, tensor)
            if self.has_dlse:
                dlse = numbers(b, m, h).astype("f8" if self.type == "float64" else "f4")
                self.tensors["dlse"] = dlse.astype("f8")
                self._add(file, "dlse", dlse)
            for name in ("documents", "lengths", "sink", "coordinates"):
                if getattr(self, name) is not None:
                    file[name] = getattr(self, name)
        (self.folder / "run.yaml").write_text(json.dumps(self.settings, indent=1), encoding="utf-8")

    def _add(self, file, name, tensor):
        """Adds a dataset in one of the ways in which HDF5 files store it."""
        tensor = np.moveaxis(tensor, 2, 1) if self.axes == "bhsd" else tensor
        way = self.one_of("plain", "plain", "chunked", "packed", "big")
        if way == "big":
            file.create_dataset(name, data=tensor.astype(tensor.dtype.newbyteorder(">")))
        elif way == "plain":
            file[name] = tensor
        else:
            packed = {"compression": "gzip", "shuffle": True, "fletcher32": True} if way == "packed" else {}
            file.create_dataset(name, data=tensor, chunks=tuple(self.upto(extent) for extent in tensor.shape), **packed)

    def definition(self, entry):
        """The definition's Attention for one batch entry."""
        begins, ends = [0], [self.rows]
        if self.documents is not None:
            begins, ends = self.documents[:-1], self.documents[1:]
        if self.lengths is not None:
            pair = self.lengths[entry]
            begins, ends = ([pair[0]], [pair[1]]) if isinstance(pair, list) else ([0], [pair])
        first = {None: 0, "auto": self.rows - self.queries, "none": None}.get(self.offset, self.offset)
        return Attention(self.attention, self.heads, self.kv_heads, begins, ends, first, self.sink, self.coordinates)


