"""The optimizer of a run, and one step of it."""

import dtj_api.training as api
import torch
from torch import Tensor, nn


def build(model: nn.Module, config: api.Optimizer) -> torch.optim.Optimizer:
    """AdamW (Loshchilov and Hutter 2019) or SGD without momentum.

    Weight decay is for the matrices of linear layers: not for embeddings, norms and biases.
    """
    groups = _groups(model, config.weight_decay)
    if config.name == "sgd":
        return torch.optim.SGD(groups, lr=config.learning_rate)
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas, fused=True)


def configure(optimizer: torch.optim.Optimizer, config: api.Optimizer) -> None:
    """Set what the job asks for: a restored optimizer brings its old run's values."""
    for group, decay in zip(optimizer.param_groups, (config.weight_decay, 0.0), strict=True):
        group["lr"], group["weight_decay"] = config.learning_rate, decay
        if "betas" in group:
            group["betas"] = config.betas


def step(optimizer: torch.optim.Optimizer, grad_clip: float | None) -> Tensor:
    """Clip, update, clear. Returns the global gradient norm before clipping, on the device: reading it is a sync."""
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    if grad_clip is not None:
        nn.utils.clip_grads_with_norm_(parameters, grad_clip, norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return norm


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    decayed = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)}
    matrices = [p for p in model.parameters() if id(p) in decayed]
    others = [p for p in model.parameters() if id(p) not in decayed]
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
