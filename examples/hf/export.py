#!/usr/bin/env python3
"""Makes archives of torch.export from a model of transformers, for dgx-submit: net.pt2 in training mode, net_eval.pt2 in evaluation mode,
net.safetensors, the weights that both start from, and net.json, how the model was made (load.py reads it).

    python3 export.py gpt2 --set n_layer=2 --class GPT2LMHeadModel --input 'input_ids=i64[64]' -o FOLDER
    python3 export.py ./my-bert --class BertForSequenceClassification --input 'input_ids=i64[64]' --input 'attention_mask=i64[64]' -o FOLDER

MODEL is a local folder as save_pretrained writes it, with weights or with a config.json alone, or a type of model as transformers names it, whose
weights are then drawn from --seed. An input has a type, i64 or f32, and the shape of one sample; the batch is left open. The loss is left to
dgx-submit, unless --loss gives the labels' type and shape: then the model computes it, as its output "loss".
"""

import argparse
import inspect
import json
import os
import pathlib
import re
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers
from safetensors.torch import save_file

transformers.utils.logging.disable_progress_bar()

BATCH = torch.export.Dim("batch", min=1, max=65536)
TYPES = {"f32": torch.float32, "i64": torch.int64}


def parse_form(form):
    """Type and shape of a sample, of words such as i64[64]."""
    match = re.fullmatch(r"(f32|i64)\[(\d+(?:,\d+)*)?\]", form)
    if not match:
        raise ValueError(f"{form}: not a type and a shape such as i64[64] or f32[3,32,32]")
    return TYPES[match[1]], [int(size) for size in (match[2] or "").split(",") if size]


def example(form):
    """Two samples, of numbers that models take."""
    dtype, shape = parse_form(form)
    return torch.ones([2, *shape], dtype=dtype)


def make_model(source, kind, settings, seed):
    """The model of class `kind` in a local folder, or of a type's default config with `settings`."""
    folder = pathlib.Path(source).is_dir()
    config = transformers.AutoConfig.from_pretrained(source, **settings) if folder else transformers.AutoConfig.for_model(source, **settings)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    of_kind = getattr(transformers, kind)
    config._attn_implementation = "sdpa" if of_kind._supports_sdpa else "eager"
    config._experts_implementation = "batched_mm"
    torch.manual_seed(seed)
    weights = folder and any(pathlib.Path(source).glob("*.safetensors"))
    return of_kind.from_pretrained(source, config=config, dtype=torch.float32) if weights else of_kind(config).float()


def remake(source, kind, settings, seed, lora):
    """The model, with adapters of peft.LoraConfig(**lora), if it is given: then only these are trained."""
    model = make_model(source, kind, settings, seed)
    if lora is None:
        return model
    import peft

    return peft.inject_adapter_in_model(peft.LoraConfig(**lora), model)


def export(model, inputs, folder, name="net"):
    """Writes the model's archives and weights; `inputs` are examples of its arguments by name."""
    taken = inspect.signature(model.forward).parameters
    for key in inputs:
        if key not in taken:
            raise ValueError(f"{type(model).__name__} takes no input {key}, but {', '.join(taken)}")
    shapes = {key: {0: BATCH} for key in inputs}
    programs = {suffix: torch.export.export(model.train(not suffix), (), dict(inputs), dynamic_shapes=shapes) for suffix in ("", "_eval")}
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, program in programs.items():
        torch.export.save(program, folder / f"{name}{suffix}.pt2")
    kept = {id(tensor) for tensor in model.state_dict(keep_vars=True).values()}
    named = [*model.named_parameters(), *model.named_buffers()]  # tied ones once, by their first name
    save_file({key: tensor.detach().contiguous() for key, tensor in named if id(tensor) in kept}, folder / f"{name}.safetensors")


def pairs(words):
    """What NAME=VALUE, repeated, gives."""
    for word in words:
        if "=" not in word:
            raise ValueError(f"{word}: not NAME=VALUE")
    return dict(word.split("=", 1) for word in words)


def main():
    parser = argparse.ArgumentParser(prog="export.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="a local folder, or a type of model such as gpt2")
    parser.add_argument("--class", required=True, dest="kind", metavar="CLASS", help="as transformers names it, such as GPT2LMHeadModel")
    parser.add_argument("--input", required=True, action="append", default=[], metavar="NAME=FORM", help="type and shape of one sample: input_ids=i64[64]")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=JSON", help="a field of the config: n_layer=2")
    parser.add_argument("--loss", metavar="FORM", help="the model computes the loss from labels of this type and shape: i64[64]")
    parser.add_argument("--lora", metavar="JSON", help='adapters, settings of peft.LoraConfig: {"r": 4, "target_modules": ["c_attn"]}')
    parser.add_argument("--seed", type=int, default=0, help="of weights that the folder does not have")
    parser.add_argument("-o", "--output", required=True, type=pathlib.Path, metavar="FOLDER", help="where the files go")
    options = parser.parse_args()
    try:
        inputs = {name: example(form) for name, form in pairs(options.input).items()}
        if options.loss:
            inputs["labels"] = example(options.loss)
        settings = {name: json.loads(value) for name, value in pairs(options.set).items()}
        lora = json.loads(options.lora) if options.lora else None
        made = {"source": options.model, "kind": options.kind, "settings": settings, "seed": options.seed, "lora": lora}
        export(remake(**made), inputs, options.output)
        (options.output / "net.json").write_text(json.dumps(made) + "\n")
    except (ValueError, AttributeError, OSError, ImportError, KeyError, TypeError) as error:
        sys.exit(f"export.py: error: {str(error).splitlines()[0][:300]}")


if __name__ == "__main__":
    main()
