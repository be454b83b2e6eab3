"""Training steps of one attention layer on ranks, as PyTorch's users do them; over gloo, one thread a rank.

    y = attention(x wq, x wk, x wv) wo        loss = 1/(2 N) sum (y - target)^2        weights -= rate * gradients

ddp       all weights on every rank, DistributedDataParallel; the rows are spread, attention is Ulysses'
fsdp2     fully_shard: 1/P of the weights on every rank; the rows are spread, attention is Ulysses'
dtensor   parallelize_module: heads and their weights are spread (column- and row-wise); x and y are spread by rows

Ulysses: one all-to-all of q, k and v gives a rank all rows of its heads, one of out gives it all heads of its rows.
"""
import os

import numpy
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, parallelize_module
from torch.nn.functional import scaled_dot_product_attention

from cases import ALL
from peer_composed import Composed
from worker import compare, read, resident, settle_memory, timed

WEIGHTS = ("wq", "wk", "wv", "wo")


class Exchange(torch.autograd.Function):
    """(P, ...) -> (P, ...): entry p goes to rank p, and rank p's entry replaces it. The backward pass does the same."""

    @staticmethod
    def forward(_, x):
        into = torch.empty_like(x, memory_format=torch.contiguous_format)
        dist.all_to_all_single(into, x.contiguous())
        return into

    @staticmethod
    def backward(_, dx):
        return Exchange.apply(dx)


class SomeHeads(Composed):
    """The heads from `first` on, in a layer of `heads`: which rows a head picks depends on its number in the layer."""

    def __init__(self, case, first, q, k, v):
        self.first, self.here, self.in_layer = first, q.shape[1], case["heads"]
        self.take({"q": q[None], "k": k[None], "v": v[None]}, case)

    def head_runs(self, index, semantics):
        self.heads = self.in_layer
        for offset, begin, end in super().head_runs(index, semantics):
            begin, end = max(begin - self.first, 0), min(end - self.first, self.here)
            if begin < end:
                yield offset, begin, end


class Dilated(torch.autograd.Function):
    """(q, k, v) (rows, heads, D) of the heads from `first` on -> out, with the exact gradients."""

    @staticmethod
    def forward(ctx, q, k, v, case, first):
        ctx.peer = SomeHeads(case, first, q, k, v)
        ctx.state = ctx.peer.forward()
        return ctx.state[0]

    @staticmethod
    def backward(ctx, dout):
        ctx.peer.tensors["dout"] = dout
        gradients = ctx.peer.backward(ctx.state)
        ctx.peer = ctx.state = None  # state has out, which refers to ctx: a cycle would keep all tensors
        return *gradients, None, None


def tiny(case):
    """The same case for a very small layer: two heads of head size 4, dense, and no change of the weights."""
    return case | {"heads": 2, "head_dim": 4, "segments": [ALL], "dilations": [1], "rate": 0.0}


class Layer(torch.nn.Module):
    """x (1, rows, E) -> y (1, rows, E); `attend` takes q, k, v (1, rows, columns) and returns the same shape."""

    def __init__(self, weights, attend):
        super().__init__()
        for name, weight in weights.items():  # (in, out) in the file, (out, in) here
            linear = torch.nn.Linear(*weight.shape, bias=False)
            linear.weight.data = weight.T.contiguous()
            self.add_module(name, linear)
        self.attend = attend

    def forward(self, x):
        return self.wo(self.attend(self.wq(x), self.wk(x), self.wv(x)))


class Training:
    """What the three peers have in common; they differ in spread() and in attend()."""

    gradients_are_means = True

    def __init__(self, rank, ranks, rendezvous):
        self.rank, self.ranks = rank, ranks
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)
        self.mesh = init_device_mesh("cpu", (ranks,))

    def load(self, command):
        """Trains as many steps as annulus did, and compares losses and weights with annulus' result."""
        self.case = command["case"]
        for name in ("sequence", "heads"):
            if self.case[name] % self.ranks:
                raise ValueError(f"{self.case[name]} ({name}) are not {self.ranks} equal shares")
        ones = torch.ones(1, self.ranks, 8)
        self.begin(ones, ones, {name: torch.ones(8, 8) for name in WEIGHTS}, tiny(self.case))
        self.step()  # the libraries now have their memory
        self.layer = self.optimizer = self.x = self.target = None
        self.bare = settle_memory()
        share = command["case"]["sequence"] // self.ranks
        own = slice(self.rank * share, (self.rank + 1) * share)
        self.begin(*(torch.from_numpy(read(command["input"], name)[:, own].copy()) for name in ("x", "target")),
                   {name: torch.from_numpy(read(command["input"], name)) for name in WEIGHTS}, command["case"])
        losses = [self.step() for _ in range(command["steps"])]
        checked = {"loss": compare(numpy.array(losses), read(command["result"], "loss")[:len(losses)])}
        trained = getattr(self.layer, "module", self.layer)
        for name in WEIGHTS:
            mine = getattr(trained, name).weight.detach()
            mine = mine.full_tensor() if isinstance(mine, DTensor) else mine
            start, reached = read(command["input"], name), read(command["result"], name)
            # relative to the change by training, not to the first weights
            checked[name] = compare(mine.T.numpy() - start, reached - start)
        return {"check": checked}

    def begin(self, x, target, weights, case):
        """Begins a training with these rows and weights."""
        self.case, self.x, self.target = case, x, target
        self.layer = self.spread(Layer(weights, self.attend))
        self.optimizer = torch.optim.SGD(self.layer.parameters(), lr=case["rate"])

    def measure(self, command):
        """The mean of some steps; with memory also the most bytes of a step beyond those after the tiny training."""
        if command["memory"]:
            self.optimizer.zero_grad()
            settle_memory()
        dist.barrier()
        _, seconds = timed(lambda: [self.step() for _ in range(self.case["steps"])])
        measured = {"step": {key: value / self.case["steps"] for key, value in seconds.items()}}
        return measured | ({"extra": resident("VmHWM") - self.bare} if command["memory"] else {})

    def step(self):
        """Does one step; returns the loss before it."""
        loss = (self.layer(self.x) - self.target).square().sum() / (2 * self.x.numel() * self.ranks)
        (loss * (self.ranks if self.gradients_are_means else 1)).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        total = loss.detach()
        dist.all_reduce(total)
        return total.item()

    def attend_heads(self, q, k, v):
        """All rows of this rank's heads, (heads, rows, D) each -> (heads, rows, D)."""
        if self.case["segments"] == [ALL]:
            return scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
        first = self.rank * self.case["heads"] // self.ranks
        return Dilated.apply(*(x.transpose(0, 1) for x in (q, k, v)), self.case, first).transpose(0, 1)

    def attend(self, q, k, v):
        """Ulysses': exchanges this rank's rows of all heads for all rows of its heads; exchanges the results back."""
        rows, dim = q.shape[1], self.case["head_dim"]
        by_rank = torch.stack([x.view(rows, self.ranks, -1, dim) for x in (q, k, v)]).permute(2, 0, 3, 1, 4)
        heads = Exchange.apply(by_rank).permute(1, 2, 0, 3, 4).flatten(2, 3)  # (3, heads, P rows, D)
        out = self.attend_heads(*heads.unbind(0))
        by_rank = out.unflatten(1, (self.ranks, rows)).transpose(0, 1)         # (P, heads, rows, D)
        return Exchange.apply(by_rank).permute(2, 0, 1, 3).reshape(1, rows, -1)


class Ddp(Training):
    def spread(self, layer):
        return torch.nn.parallel.DistributedDataParallel(layer, gradient_as_bucket_view=True)


class Fsdp2(Training):
    def spread(self, layer):
        return fully_shard(layer, mesh=self.mesh)


class Tensors(Training):
    gradients_are_means = False

    def spread(self, layer):
        taken = PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())
        columns = {name: ColwiseParallel() for name in ("wq", "wk", "wv")}
        rows = RowwiseParallel(output_layouts=Shard(1))
        return parallelize_module(layer, self.mesh, {"": taken, **columns, "wo": rows})

    def attend(self, q, k, v):
        """This rank's heads, all rows (1, rows, columns)."""
        split = [x[0].unflatten(-1, (-1, self.case["head_dim"])).transpose(0, 1) for x in (q, k, v)]
        return self.attend_heads(*split).transpose(0, 1).flatten(1)[None]
