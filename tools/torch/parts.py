"""Common parts of PyTorch's calls: names in shapes, tensors of random numbers, and ways to call a function."""

from functools import partial

import torch


def words_of(shape):
    return {part for part in shape.split(",") if part.isalpha()}


def normal(shape, dtype, device, scale=1.0):
    # Drawn on the processor: after a graph that could not be captured, the device's generator refuses to draw.
    return (torch.randn(shape) * scale).to(device).to(dtype)


def like(tensor):
    """Random numbers that lie in memory as the tensor does."""
    return torch.empty_like(tensor).copy_(torch.randn(tensor.shape))


def below(limit, count, device, dtype=torch.int32):
    return torch.randint(0, limit, (count,), dtype=dtype).to(device)


def compiled(function, *args):
    """The function by `torch.compile`, for these arguments alone."""
    return partial(torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False), *args)


def eager_and_compiled(function, *args):
    yield "eager", False, partial(function, *args)
    yield "compile", False, compiled(function, *args)


def with_cudnn(name, call):
    """By the algorithm that cuDNN's heuristic chooses, and by the fastest of all that it tries."""
    yield name, False, call
    yield f"{name}, benchmark", True, call
