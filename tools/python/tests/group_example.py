"""The second script of docs/process-groups.md; test_process_groups.py runs it on one to four ranks."""
import torch
import torch.distributed as dist
from mpi4py import MPI
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

import annulus
from annulus.torch import scaled_dot_product_attention

ROWS, HEADS, DIM = 3072, 8, 64
world, ranks = MPI.COMM_WORLD, MPI.COMM_WORLD.size             # mpirun or srun started them
store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False) if world.rank == 0 else None
host, port = world.bcast((MPI.Get_processor_name(), store.port) if store else None)
store = store or dist.TCPStore(host, port, is_master=False)
dist.init_process_group("gloo", store=store, rank=world.rank, world_size=ranks)
mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("cp",))
group = mesh.get_group("cp")

torch.manual_seed(0)
q, k, v = (distribute_tensor(torch.randn(1, HEADS, ROWS, DIM), mesh, [Shard(2)]) for _ in range(3))

how = {"causal": True, "strategy": "ring"}
rows, balanced = (annulus.plan(ROWS, HEADS, DIM, ranks=ranks, partition=one, **how) for one in ("contiguous", "zigzag"))
local = [annulus.redistribute(x.to_local(), rows, balanced, group, axis=2) for x in (q, k, v)]
out = scaled_dot_product_attention(*local, is_causal=True, comm=group, strategy="ring", partition="zigzag")
out = DTensor.from_local(annulus.redistribute(out, balanced, rows, group, axis=2), mesh, [Shard(2)])

expected = torch.nn.functional.scaled_dot_product_attention(*[x.full_tensor() for x in (q, k, v)], is_causal=True)
error = (out.full_tensor() - expected).abs().max()
if dist.get_rank() == 0:
    print(type(out).__name__, tuple(out.shape), bool(error < 1e-5))
dist.destroy_process_group()
