"""The script of docs/fsdp.md; test_fsdp.py runs it on one to three ranks: mpirun -n 2 python fsdp_example.py [bfloat16]"""
import sys

import torch
import torch.distributed as dist
from mpi4py import MPI
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import Embedding, GELU, LayerNorm, Linear, Module, ModuleList, Sequential
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

import annulus
from annulus.torch import dilated_attention

LETTERS, ROWS, WIDTH, HEADS, LAYERS, STEPS, ACCUMULATED = 64, 253, 64, 4, 4, 6, 2


class Layer(Module):
    """Attention and a multilayer perceptron on this rank's rows: x (B, rows of this rank, WIDTH) -> the same shape."""

    def __init__(self):
        super().__init__()
        self.norms = ModuleList(LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = Linear(WIDTH, 3 * WIDTH), Linear(WIDTH, WIDTH)
        self.mlp = Sequential(Linear(WIDTH, 4 * WIDTH), GELU(), Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        return checkpoint(self.compute, x, use_reentrant=False)    # all ranks compute it again in the backward pass

    def compute(self, x):
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).unbind(2)
        x = x + self.out(self.attention(q, k, v).flatten(2))
        return x + self.mlp(self.norms[1](x))

    def attention(self, q, k, v):
        """The only place where rows of other ranks are seen."""
        return dilated_attention(q, k, v, segments=[64, 256, "all"], dilations=[1, 2, 4], causal=True, strategy="ring",
                                 comm=dist.group.WORLD)


class Model(Module):
    """Letters (B, rows) and their row numbers (rows,) -> scores of the next letters (B, rows, LETTERS)."""

    def __init__(self):
        super().__init__()
        self.letters, self.places = Embedding(LETTERS, WIDTH), Embedding(ROWS, WIDTH)
        self.layers, self.scores = ModuleList(Layer() for _ in range(LAYERS)), Linear(WIDTH, LETTERS)

    def forward(self, letters, rows):
        x = self.letters(letters) + self.places(rows)
        for layer in self.layers:
            x = layer(x)
        return self.scores(x)


def texts(number):
    """Two texts (2, ROWS + 1), different for each number. Each letter is 0 to 2 letters after the letter before it."""
    generator = torch.Generator().manual_seed(number)
    return torch.randint(3, (2, ROWS + 1), generator=generator).cumsum(1) % LETTERS


def join(world):
    """Makes the ranks that mpirun or srun has started the ranks of torch.distributed, too: no torchrun."""
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False) if world.rank == 0 else None
    host, port = world.bcast((MPI.Get_processor_name(), store.port) if store else None)
    store = store or dist.TCPStore(host, port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=world.rank, world_size=world.size)


def main():
    world = MPI.COMM_WORLD
    join(world)
    mesh = init_device_mesh("cpu", (world.size,))
    torch.manual_seed(0)
    model = Model()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)                              # 1/P of its weights is here, the rest comes in use
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    plan = annulus.plan(ROWS, HEADS, WIDTH // HEADS, ranks=world.size, strategy="ring")
    rows = torch.from_numpy(plan.row_numbers(world.rank))          # of the sequence, this rank's
    for step in range(STEPS):
        total = 0.0
        for turn in range(ACCUMULATED):
            model.set_requires_gradient_sync(turn == ACCUMULATED - 1)    # messages once a step
            text = texts(step * ACCUMULATED + turn)
            with torch.autocast("cpu", torch.bfloat16, enabled="bfloat16" in sys.argv):
                scores = model(text[:, rows], rows)
            loss = cross_entropy(scores.float().flatten(0, 1), text[:, rows + 1].flatten(), reduction="sum")
            loss = loss / (2 * ROWS * ACCUMULATED)                 # this rank's share of the mean over all rows
            (loss * world.size).backward()                         # fully_shard takes the mean of the ranks' gradients
            total += loss.detach()
        dist.all_reduce(total)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
        optimizer.step()
        optimizer.zero_grad()
        if world.rank == 0:
            print(f"step {step}  loss {total.item():.7f}  gradient {norm.item():.7f}", flush=True)
    if world.rank == 0:
        here = sum(weight.to_local().numel() for weight in model.parameters())
        print(f"rank 0 of {world.size} keeps {here} of {sum(weight.numel() for weight in model.parameters())} weights")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
