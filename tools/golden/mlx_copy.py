"""Copies of a target in MLX's affine layout: text matrices `bits` wide in groups of 32, the router always 8, the rest bfloat16.

(A file called mlx.py here would be taken for Apple's package by transformers.)
"""
import json
import os

import torch
from safetensors.torch import save_file

import models

GROUP = 32


def quantise(weight, bits):
    """Packed uint32 (element 0 in the lowest bits), a bfloat16 scale and bias per group, and the values they stand for."""
    levels, per_word = 2 ** bits - 1, 32 // bits
    groups = weight.float().reshape(*weight.shape[:-1], -1, GROUP)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scale, bias = models.bf16(((high - low) / levels).clamp(min=1e-7)), models.bf16(low)
    codes = ((groups - bias) / scale).round().clamp(0, levels)
    values = (codes * scale + bias).reshape(weight.shape)
    words = codes.reshape(*weight.shape[:-1], -1, per_word).to(torch.int64)
    packed = sum(words[..., i] << (bits * i) for i in range(per_word)).to(torch.uint32)
    return packed, scale.squeeze(-1).to(torch.bfloat16), bias.squeeze(-1).to(torch.bfloat16), values


def mlx_name(name):
    name = name.removeprefix("model.")
    return "language_model.model." + name.removeprefix("language_model.") if name.startswith("language_model.") else name


def modules_of(key, weight):
    """MLX's modules for a matrix: experts lie under switch_glu, gate and up apart."""
    if key.endswith("experts.gate_up_proj"):
        base, half = key.removesuffix("gate_up_proj") + "switch_glu.", weight.shape[1] // 2
        return [(base + "gate_proj", weight[:, :half]), (base + "up_proj", weight[:, half:])]
    if key.endswith("experts.down_proj"):
        return [(key.removesuffix("down_proj") + "switch_glu.down_proj", weight)]
    return [(key.removesuffix(".weight"), weight)]


@torch.no_grad()
def save_copy(model, folder, bits):
    """Writes the copy and gives the model its values.  A copy made after another one is made from that one's values."""
    os.makedirs(folder, exist_ok=True)
    table, state, parameters = {"group_size": GROUP, "bits": bits, "mode": "affine"}, {}, dict(model.named_parameters())
    for name, values in model.state_dict().items():
        if not name.startswith("model."):
            continue
        key = mlx_name(name)
        if not (key.startswith("language_model.") and values.ndim >= 2 and values.is_floating_point()):
            state[key] = values.to(torch.bfloat16) if values.is_floating_point() else values
            continue
        own_bits, back = 8 if "router.proj" in key else bits, []
        for module, weight in modules_of(key, values):
            packed, scales, biases, restored = quantise(weight, own_bits)
            state.update({module + ".weight": packed, module + ".scales": scales, module + ".biases": biases})
            if own_bits != bits:
                table[module] = {"group_size": GROUP, "bits": own_bits}
            back.append(restored)
        parameters[name].data = torch.cat(back, 1) if len(back) > 1 else back[0]
    config = dict(model.config.to_dict(), quantization=table, quantization_config=table)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1, default=str)
    save_file({key: values.contiguous().clone() for key, values in state.items()},
              os.path.join(folder, "model.safetensors"), metadata={"format": "mlx"})
    model.tie_weights()
