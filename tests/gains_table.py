"""What csdfgen gains on ten networks, at the default: README's table. `python -m tests.gains_table` writes it."""

from __future__ import annotations

import csdfgen
from benchmarks.pages import ROOT, write_between
from csdfgen.emission.account import account_memory

README, MARKER = ROOT / "README.md", "gains"

NETWORKS = (
    "mobilenet_v2@1024x1024", "super_resolution", "unet@1024x1024", "tiny_yolo_v2", "c3d", "squeezenet1_1", "mobilenet_v2",
    "resnet50", "alexnet", "lraspp_mobilenet_v3",
)  # fmt: skip

HEAD = (
    "| MiB | weights | feature maps, whole layers | feature maps, csdfgen | factor | all memory, of whole layers |",
    "|---|---:|---:|---:|---:|---:|",
)


def table() -> list[str]:
    """The lines of the table."""
    return [
        *HEAD,
        *map(_row, NETWORKS),
        "",
        "MiB = 2^20 bytes, planned for the native kernels of this machine.",
    ]


def _row(name: str) -> str:
    plan = csdfgen.plan(csdfgen.load(f"zoo:{name}"))
    account, whole = account_memory(plan), plan.figures["whole_layer_live"]
    maps = account.arena + account.outputs
    sizes = " | ".join(f"{size / 2**20:.1f}" for size in (account.parameters, whole, maps))
    return f"| {name} | {sizes} | {whole / maps:.1f} | {account.total / (account.parameters + whole):.2f} |"


if __name__ == "__main__":
    write_between(README, MARKER, table())
