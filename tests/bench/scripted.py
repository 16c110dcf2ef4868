"""scripted.py FOLDER: writes the TorchScript models of the step benchmark, with Debian's python3-torch: the decoder and the vision
transformer of tests/models in sizes at which arithmetic counts, and a recurrence of so many small operations that what surrounds them
does."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from depthwise import Depthwise  # noqa: E402
from llama import Llama  # noqa: E402
from vision_transformer import VisionTransformer  # noqa: E402


class Recurrence(nn.Module):
    """Elman's network over the rows of a sample: five calls a row forward."""

    def __init__(self, inputs: int, width: int, classes: int):
        super().__init__()
        self.width = width
        self.take, self.keep = nn.Linear(inputs, width), nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        h = torch.zeros([rows.shape[0], self.width], dtype=rows.dtype)
        for t in range(rows.shape[1]):
            h = torch.tanh(self.take(rows[:, t]) + self.keep(h))
        return self.head(h)


MODELS = {
    "llama": lambda: Llama(vocab=256, width=256, layers=4, heads=8, groups=4, context=128),
    "vision_transformer": lambda: VisionTransformer(width=128, layers=4, heads=4),
    "depthwise": Depthwise,
    "recurrence": lambda: Recurrence(inputs=16, width=64, classes=10),
}

if __name__ == "__main__":
    torch.manual_seed(1)
    for name, model in MODELS.items():
        torch.jit.script(model()).save(str(pathlib.Path(sys.argv[1]) / f"{name}.pt"))
