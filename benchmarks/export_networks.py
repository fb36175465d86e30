"""Models of timm and torchvision as PyTorch exports them: python -m benchmarks.export_networks FOLDER [NAME ...]

Runs in an environment with torch, torchvision, timm, onnx and onnxscript. Weights are random and seeded; statistics of
batches are those of the network's own activations, so that these neither vanish nor grow. NAME is a model of timm, or
torchvision:NAME.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

NAMES = (
    "convnext_nano", "efficientnet_b0", "mobilenetv3_small_100", "mobilevitv2_050", "edgenext_xx_small", "regnety_002",
    "resnet10t", "seresnet18", "skresnet18", "vovnet39a", "repvgg_a0", "tinynet_e", "fbnetc_100", "spnasnet_100",
    "rexnet_100", "hardcorenas_a", "semnasnet_075", "selecsls42b", "nest_tiny", "crossvit_tiny_240", "deit_tiny_patch16_224",
    "cait_xxs24_224", "xcit_nano_12_p16_224", "gmixer_24_224", "resmlp_12_224", "twins_pcpvt_small", "starnet_s1",
    "torchvision:googlenet", "torchvision:regnet_x_400mf", "torchvision:squeezenet1_0",
)  # fmt: skip
"""None of them was looked at before it was measured."""


def export(name: str, folder: Path) -> Path:
    """Write the model of a name. Raises what torch raises."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    if name.startswith("torchvision:"):
        import torchvision

        model = getattr(torchvision.models, name.partition(":")[2])(weights=None)
        size = 224
    else:
        import timm

        model = timm.create_model(name, pretrained=False, exportable=True)
        size = model.pretrained_cfg.get("input_size", (3, 224, 224))[-1]
    x = torch.rand((1, 3, size, size), generator=torch.Generator().manual_seed(2)) * 2 - 1
    _settle(model, x)
    path = folder / f"{name.partition(':')[2] or name}.onnx"
    torch.onnx.export(
        model, (x,), str(path), input_names=["x"], dynamo=True, external_data=False, verbose=False
    )
    return path


def _settle(model: "torch.nn.Module", x: "torch.Tensor") -> None:  # type: ignore[name-defined] # noqa: F821, UP037
    """Give batch normalizations the statistics of what they read."""
    import torch

    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    with torch.no_grad():
        for norm in norms:
            norm.momentum = None
            norm.reset_running_stats()
            norm.train()
        model.eval()
        for norm in norms:
            norm.train()
        model(torch.cat([x, -x, x.flip(3) * 0.5]))
    model.eval()


def main() -> None:
    """Export the models that are named, or all of `NAMES`."""
    warnings.filterwarnings("ignore")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or NAMES:
        try:
            print(export(name, folder), flush=True)
        except Exception as error:  # a network that cannot be exported is left out
            print(f"{name}: not exported: {str(error).splitlines()[:1]}", file=sys.stderr)


if __name__ == "__main__":
    main()
