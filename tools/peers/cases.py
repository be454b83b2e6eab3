"""What is measured: the cases of the full, the quick and the long-sequence table."""
from dataclasses import asdict, dataclass, field

ALL = "all"  # a segment that holds the whole sequence
BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}

# LongNet's setting of the comparison: four pairs, so that a row reads at most 2048 keys of each.
LONGNET_SEGMENTS = [2048, 4096, 8192, 16384]
LONGNET_DILATIONS = [1, 2, 4, 8]
# The long-sequence table: a row sees all near rows (2048), and fewer and fewer of the far ones.
LONG_SEGMENTS = [2048, 8192, 32768, 131072, 524288, 2097152]
LONG_DILATIONS = [1, 4, 16, 64, 256, 1024, 4096]


@dataclass
class Case:
    """One input and one pattern, and the peers that are measured on it beside annulus."""

    group: str
    sequence: int
    peers: list = field(default_factory=list)
    heads: int = 8
    head_dim: int = 64
    dtype: str = "float32"
    causal: bool = False
    segments: list = field(default_factory=lambda: [ALL])
    dilations: list = field(default_factory=lambda: [1])
    semantics: str = "longnet"
    threads: int = 1
    ranks: int = 1
    backward: bool = True
    strategy: str = "auto"
    generated: bool = False  # annulus makes the input in the run: the whole process is measured
    rounds: int = 5

    @property
    def name(self):
        spread = f"-t{self.threads}" if self.threads > 1 else ""
        spread += f"-p{self.ranks}" if self.ranks > 1 else ""
        mask = "causal" if self.causal else "full"
        return f"{self.group}-{self.dtype}-d{self.head_dim}-{mask}-n{self.sequence}{spread}"

    @property
    def workers(self):
        """Threads or ranks that work at the same time."""
        return self.threads * self.ranks

    def expected_seconds(self):
        """A rough wall time of one round: only ratios matter, because they divide the available time among cases."""
        keys = sum(min(self.sequence, self.sequence if w == ALL else w) / r / (r if r > 1 else 1)
                   for w, r in zip(self.segments, self.dilations))
        if self.semantics == "grouped":
            keys /= len(self.segments)
        flops = 4.0 * self.head_dim * self.heads * self.sequence * keys * (0.5 if self.causal else 1)
        seconds = 0.0
        for rate in [80e9] + [30e9 if peer in ("jax", "onnxruntime") else 60e9 for peer in self.peers]:
            slow = 8 if self.dtype == "bfloat16" and rate == 60e9 else 1  # PyTorch's gradients where the CPU has no bfloat16 instructions
            seconds += flops / rate * (1 + (2.5 * slow if self.backward else 0))
        return seconds / self.workers + 0.4

    def description(self):
        return asdict(self) | {"name": self.name}


def dense(group, sequences, dims=(64, 128), masks=(False, True), **more):
    """Plain attention against PyTorch's fused kernel, over all combinations."""
    more = {"peers": ["torch"]} | more
    return [Case(group, n, head_dim=d, causal=causal, **more) for n in sequences for d in dims for causal in masks]


def dilated(group, sequence, **more):
    return Case(group, sequence, ["composed"], heads=4, causal=True, segments=LONGNET_SEGMENTS,
                dilations=LONGNET_DILATIONS, **more)


def full():
    """About twelve minutes on two cores."""
    cases = dense("dense", [2048, 4096])
    cases += [dilated("longnet", 262144, threads=2, rounds=3),
              dilated("grouped", 262144, threads=2, rounds=3, semantics="grouped")]
    cases += dense("dense", [1024], rounds=15)  # 20 ms each: more rounds instead of longer ones
    cases += dense("dense", [8192], dims=[64], backward=False, rounds=3)
    cases += dense("dense", [8192], dims=[128], masks=[True], backward=False, rounds=3)
    cases += dense("ranks", [8192], dims=[64], peers=["allgather"], ranks=2, strategy="ring", rounds=4)
    cases += dense("threads", [4096], dims=[64], threads=2)
    cases += dense("threads", [4096], dims=[128], threads=2, backward=False)
    cases += dense("types", [2048], dims=[64], dtype="float64")
    cases += dense("onnx", [1024, 4096], peers=["onnxruntime"], backward=False, rounds=3)
    cases += [dilated("longnet", 262144, backward=False, rounds=2)]
    cases += dense("jax", [2048, 4096], dims=[64], peers=["jax"], threads=2, rounds=3)
    cases += [Case("process", 16384, causal=True, generated=True, backward=False, rounds=3),
              Case("process-longnet", 262144, heads=4, causal=True, segments=LONGNET_SEGMENTS,
                   dilations=LONGNET_DILATIONS, generated=True, backward=False, rounds=3)]
    return cases


def sixteen_bits(sequences):
    """bfloat16 and float16 with gradients; in bfloat16 PyTorch is measured with AMX, if the CPU has it, and without."""
    cases = []
    for sequence in sequences:
        for dtype in ("bfloat16", "float16"):
            peers = ["torch", "torch-avx512"] if dtype == "bfloat16" and has_amx() else ["torch"]
            cases += dense("types", [sequence], dtype=dtype, peers=peers, rounds={1024: 9, 4096: 5}.get(sequence, 3))
    return cases


def has_amx():
    with open("/proc/cpuinfo", encoding="utf-8") as about:
        return " amx_bf16 " in about.read().replace("\n", " ")


def quick():
    """The same kinds of case, small enough for three minutes; two rounds."""
    cases = dense("dense", [2048], masks=[True]) + dense("dense", [2048], dims=[64], masks=[False])
    cases += [dilated("longnet", 32768, threads=2), dilated("grouped", 32768, threads=2, semantics="grouped")]
    cases += dense("ranks", [4096], dims=[64], peers=["allgather"], ranks=2, strategy="ring")
    cases += dense("threads", [2048], dims=[64], threads=2)
    cases += dense("types", [1024], dims=[64], masks=[True], dtype="bfloat16")
    cases += dense("types", [1024], dims=[64], masks=[True], dtype="float64")
    cases += dense("onnx", [1024], dims=[64], peers=["onnxruntime"], backward=False)
    cases += dense("jax", [2048], dims=[64], masks=[True], peers=["jax"], threads=2)
    cases += [Case("process", 4096, causal=True, generated=True, backward=False)]
    for case in cases:
        case.rounds = 2
    return cases


def long_sequences(threads, largest):
    """annulus alone, one head of 64, float16, causal; segments longer than the sequence are left out."""
    cases = []
    for sequence in (16384, 65536, 262144, 1048576, 4194304):
        if sequence > largest:
            break
        segments = [w for w in LONG_SEGMENTS if w < sequence] + [ALL]
        cases.append(Case("long", sequence, heads=1, dtype="float16", causal=True, segments=segments,
                          dilations=LONG_DILATIONS[:len(segments)], threads=threads, backward=False, rounds=3))
    return cases
