"""How much a model computes, and what part of its devices' peak that is: MFU (Chowdhery et al. 2022, appendix B)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

# Of dense products in bf16 and fp16 in a second, by NVIDIA's data sheets; the first that is in the device's name
PEAKS = {
    "B200": 2250e12, "H200": 989e12, "H100 PCIe": 756e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12,
    "L4": 121e12, "V100": 125e12, "T4": 65e12,
}  # fmt: skip


@dataclass(frozen=True)
class Work:
    """Of a model.

    Attributes:
        per_sample: floating-point operations of its forward and backward pass, without any recomputation.
        peak: that all devices together could do in a second; None where that is not known.
    """

    per_sample: float
    peak: float | None

    def utilisation(self, samples_per_second: float) -> float | None:
        """MFU, from 0 to 1."""
        return None if self.peak is None else samples_per_second * self.per_sample / self.peak


def work(
    build: Callable[[], nn.Module], example: Tensor, device: torch.device, devices: int, compute: str
) -> Work | None:
    """Counted on a model without memory; None where the model cannot be called there.

    Args:
        example: inputs of at least one sample.
        compute: the format of products: peaks are known of halves.
    """
    try:
        with torch.device("meta"):
            model = build()
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(example[:1].to("meta"))
    except Exception:  # noqa: BLE001 a model of the user's own may read its values, which then are not there
        return None
    # a backward pass multiplies twice for each product: for its input, and for its weights
    return Work(3.0 * counter.get_total_flops(), _peak(device, devices, compute))


def _peak(device: torch.device, devices: int, compute: str) -> float | None:
    if device.type != "cuda" or compute == "fp32":
        return None
    name = torch.cuda.get_device_name(device)
    return next((peak * devices for part, peak in PEAKS.items() if part in name), None)
