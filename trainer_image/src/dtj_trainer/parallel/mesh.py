"""The mesh of ranks: how torch is told what layout.py has decided, and how long its groups wait."""

from datetime import timedelta

import torch
import torch.distributed as dist
from dtj_api.layout import Layout
from torch.distributed import distributed_c10d
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

DATA = ("replicate", "shard")


def mesh_of(layout: Layout, device: torch.device) -> DeviceMesh:
    """All dimensions that are more than one rank, in the order of ranks; `shard` always beside `replicate`, since
    fully_shard takes a single dimension to be shards."""
    needed = {"shard"} if layout.replicate > 1 else set()
    sizes = {name: size for name, size in layout.sizes().items() if size > 1 or name in needed}
    return init_device_mesh(device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def data_mesh(mesh: DeviceMesh) -> DeviceMesh | None:
    """What fully_shard takes: `shard`, or `replicate` and `shard`. None where there is but one data rank."""
    assert mesh.mesh_dim_names is not None
    names = tuple(name for name in DATA if name in mesh.mesh_dim_names)
    return mesh[names] if names else None


def set_timeouts(timeout: timedelta) -> None:
    """Of every group there is: those that meshes make, and each resharded block its own, have torch's half an hour."""
    # torch 2.10 has it under its old name
    set_timeout = getattr(dist, "set_timeout", None) or distributed_c10d._set_pg_timeout
    for group in list(distributed_c10d._world.pg_map):
        set_timeout(timeout, group)
