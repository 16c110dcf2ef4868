"""scripted.py FOLDER: writes the two TorchScript models of the step benchmark, with Debian's python3-torch: the decoder and the vision
transformer of tests/models in sizes at which arithmetic counts."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))

import torch  # noqa: E402
from llama import Llama  # noqa: E402
from vision_transformer import VisionTransformer  # noqa: E402

folder = pathlib.Path(sys.argv[1])
torch.manual_seed(1)
models = {
    "llama": Llama(vocab=256, width=256, layers=4, heads=8, groups=4, context=128),
    "vision_transformer": VisionTransformer(width=128, layers=4, heads=4),
}
for name, model in models.items():
    torch.jit.script(model).save(str(folder / f"{name}.pt"))
