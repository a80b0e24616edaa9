"""Records traces of `torch.profiler` for the models of core/model/examples, with random weights.

    pip install torch transformers torchvision
    python tools/torch/traces.py FOLDER [--device cuda] [--dtype bf16]
    parallax run --from FOLDER/siglip2.json --target cuda

Each file holds one forward pass after several others. `parallax run --from` measures its operations and sets PyTorch's kernel times beside
them. Sizes are those of the examples; `--small` takes one layer and short inputs, to try the script on a processor.
"""

import argparse
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

EXAMPLES = Path(__file__).resolve().parents[2] / "core/model/examples"
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def siglip2(small):
    """The tower of images, without its pooling head."""
    from transformers import SiglipVisionConfig, SiglipVisionModel

    given = json.loads((EXAMPLES / "siglip2-so400m.json").read_text())["vision_config"]
    given |= {"model_type": "siglip_vision_model", "vision_use_head": False}
    given |= {"num_hidden_layers": 1, "image_size": 32} if small else {}
    config = SiglipVisionConfig(**given)
    images = torch.randn(1 if small else 8, 3, config.image_size, config.image_size)
    return SiglipVisionModel(config), lambda model: model(images.to(model.device, model.dtype))


def llama(small):
    from transformers import LlamaConfig, LlamaForCausalLM

    given = json.loads((EXAMPLES / "llama-3.2-1b.json").read_text())
    given |= {"num_hidden_layers": 1, "vocab_size": 1000} if small else {}
    return LlamaForCausalLM(LlamaConfig(**given))


def prefill(small):
    tokens = torch.randint(0, 1000, (1, 16 if small else 2048))
    return llama(small), lambda model: model(tokens.to(model.device), use_cache=False)


def decode(small):
    """One token of each sequence, behind a cache of earlier tokens."""
    model, batch, kept = llama(small), 1 if small else 8, 16 if small else 2047
    tokens, state = torch.randint(0, 1000, (batch, kept + 1)), {}

    def step(model):
        own = tokens.to(model.device)
        if not state:
            state["cache"] = model(own[:, :kept], use_cache=True).past_key_values
        model(own[:, kept:], past_key_values=state["cache"], use_cache=True)
        state["cache"].crop(-1)

    return model, step


def mobilenet(small):
    from torchvision.models import mobilenet_v2

    images = torch.randn(1 if small else 32, 3, 224, 224)
    model = mobilenet_v2()
    return model, lambda model: model(images.to(next(model.parameters()).device, next(model.parameters()).dtype))


class UNet3d(nn.Module):
    """The graph of `unet3d.onnx`."""

    def __init__(self, widths=(16, 32, 64, 128)):
        super().__init__()
        two = lambda channels, filters: nn.ModuleList(
            nn.Conv3d(channels if i == 0 else filters, filters, 3, padding=1) for i in range(2)
        )
        self.down = nn.ModuleList(two(a, b) for a, b in zip((1, *widths), widths))
        turned = widths[::-1]
        self.up = nn.ModuleList(nn.ConvTranspose3d(a, b, 2, stride=2) for a, b in zip(turned, turned[1:]))
        self.joined = nn.ModuleList(two(2 * filters, filters) for filters in turned[1:])
        self.head = nn.Conv3d(widths[0], 4, 1)

    def forward(self, x):
        kept = []
        for i, pair in enumerate(self.down):
            x = F.max_pool3d(x, 2) if i > 0 else x
            for conv in pair:
                x = F.relu(conv(x))
            kept.append(x)
        kept.pop()
        for up, pair in zip(self.up, self.joined):
            x = torch.cat([kept.pop(), up(x)], 1)
            for conv in pair:
                x = F.relu(conv(x))
        return self.head(x)


def unet3d(small):
    volumes = torch.randn(1 if small else 4, 1, *[16 if small else 64] * 3)
    model = UNet3d()
    return model, lambda model: model(volumes.to(model.head.weight.device, model.head.weight.dtype))


MODELS = [siglip2, prefill, decode, mobilenet, unet3d]


def record(make, args):
    model, call = make(args.small)
    model = model.to(args.device, TYPES[args.dtype]).eval()
    activities = [torch.profiler.ProfilerActivity.CPU]
    activities += [torch.profiler.ProfilerActivity.CUDA] if args.device == "cuda" else []
    with torch.no_grad():
        for _ in range(3):
            call(model)
        with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
            call(model)
            if args.device == "cuda":
                torch.cuda.synchronize()
    profile.export_chrome_trace(str(args.folder / f"{make.__name__}.json"))


def main():
    settings = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    settings.add_argument("folder", type=Path)
    settings.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    settings.add_argument("--dtype", choices=TYPES, default="bf16")
    settings.add_argument("--only", nargs="+", choices=[make.__name__ for make in MODELS])
    settings.add_argument("--small", action="store_true")
    args = settings.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(42)
    for make in MODELS:
        if not args.only or make.__name__ in args.only:
            record(make, args)


if __name__ == "__main__":
    main()
