"""Holds the logits of `parallax model` against PyTorch with the same weights and inputs.

    pip install numpy safetensors torch
    python tools/torch/models.py PROGRAM --target cpu [--device cuda]

Prints a Markdown table. Exit code 1: a logit differs by more than 2^-10 of the largest, as `parallax model` judges against the processor.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open

from problems.encoder import passed

LIMIT = 2.0**-10
DATA = Path(__file__).resolve().parents[2] / "native-cli/data"
#: Model and data, with the shipped weights.
SHIPPED = {
    ("classify", "breast-cancer"): "breast-cancer",
    ("classify", "digits"): "digits",
    ("ner", "notes"): "notes",
    ("image", "digits"): "digits-image",
    ("image", "volumes"): "volumes",
}


def classifier(x, w, _):
    hidden = F.gelu(x @ w["1.weight"] + w["1.bias"], approximate="tanh")
    return hidden @ w["2.weight"] + w["2.bias"]


def convolutions(x, w, about):
    side, volume = int(about["side"]), int(about["dimensions"]) == 3
    x = x.unflatten(1, [1] + [side] * (3 if volume else 2))
    if volume:
        x = F.relu(F.conv3d(x, w["1.weight"], w["1.bias"], stride=2, padding=1))
        x = F.relu(F.conv3d(x, w["2.weight"], w["2.bias"], stride=2, padding=1))
    else:
        x = F.max_pool2d(F.relu(F.conv2d(x, w["1.weight"], w["1.bias"], padding=1)), 2)
        x = F.relu(F.conv2d(x, w["2.weight"], w["2.bias"], padding=1))
    return x.flatten(1) @ w["head.weight"] + w["head.bias"]


def tagger(features, w, _):
    tables, heads = w["tables"], 4
    features = features.long().unflatten(1, (-1, len(tables)))
    x = torch.cat([table[features[..., which]] for which, table in enumerate(tables)], -1)
    extents = {"h": heads, "d": x.shape[-1] // heads}
    for at in ("0", "1"):
        given = {name[2:]: value for name, value in w.items() if name.startswith(f"{at}.")}
        x, _ = passed(extents, x, lambda rows, _: rows, given)
    return (x @ w["head.weight"] + w["head.bias"]).flatten(0, 1)


NETWORKS = {"classify": classifier, "image": convolutions, "ner": tagger}


def held(program, model, data, weights, target, device):
    """Largest logit, largest difference from it, and the shares of equal classes."""
    with tempfile.TemporaryDirectory() as folder:
        line = [program, "model", model, "--data", data, "--weights", str(weights), "--target", target, "--arrays", folder]
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
        inputs, ours = (np.load(Path(folder) / f"{name}.npy") for name in ["inputs", "logits"])
    with safe_open(weights, "pt") as file, torch.no_grad():
        about = file.metadata()
        tensors = {name: file.get_tensor(name).to(device) for name in file.keys()}
        theirs = NETWORKS[model](torch.from_numpy(inputs.astype(np.int64) if model == "ner" else inputs).to(device), tensors, about)
    theirs = theirs.cpu().numpy()
    assert theirs.shape == ours.shape, (theirs.shape, ours.shape)
    largest = float(np.abs(theirs).max())
    return len(ours), largest, float(np.abs(theirs - ours).max()), float((theirs.argmax(1) == ours.argmax(1)).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(f"PyTorch {torch.__version__} on {given.device} against `parallax model --target {given.target}`:\n")
    print("| model | data | rows of logits | largest logit | largest difference | equal classes |\n| --- | --- | --: | --: | --: | --: |")
    wrong = False
    for (model, data), name in SHIPPED.items():
        weights = DATA / f"{name}.safetensors"
        rows, largest, difference, equal = held(given.program, model, data, weights, given.target, given.device)
        wrong |= not difference <= LIMIT * largest
        print(f"| {model} | {data} | {rows} | {largest:.4g} | {difference:.2g} | {equal:.2%} |")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
