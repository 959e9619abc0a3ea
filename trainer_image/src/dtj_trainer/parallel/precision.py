"""Number formats by the names that manifests use."""

import torch

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def dtype(name: str | None) -> torch.dtype | None:
    """None for fp32, which is what tensors are without being asked."""
    return _DTYPES.get(name or "fp32")
