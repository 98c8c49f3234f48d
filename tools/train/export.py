"""Writes checkpoints: bf16 safetensors in shards with an index, and MLX's affine 4-bit layout.

As a program: python3 export.py TARGET MODELS --tokenizer FILE --template FILE [--assistant FOLDER] [--dflash FOLDER]
puts all that is shipped into MODELS/tiny, tiny-mlx-4bit, tiny-assistant and tiny-dflash.
"""
import argparse
import json
import os
import shutil

import torch
from safetensors.torch import load_file, save_file

import tiny

SHARD_BYTES = 9_000_000
GROUP, BITS = 64, 4


def tensors_of(model):
    """bf16, tied tensors once."""
    state, seen = {}, set()
    for name, p in model.state_dict().items():
        if name == "lm_head.weight" or p.data_ptr() in seen and p.numel() > 1:
            continue
        seen.add(p.data_ptr())
        state[name] = p.detach().to("cpu", torch.bfloat16 if p.is_floating_point() else p.dtype).contiguous().clone()
    return state


def save_shards(state, folder, kind):
    os.makedirs(folder, exist_ok=True)
    shards, size = [{}], 0
    for name in sorted(state):
        bytes_ = state[name].numel() * state[name].element_size()
        if shards[-1] and size + bytes_ > SHARD_BYTES:
            shards.append({})
            size = 0
        shards[-1][name] = state[name]
        size += bytes_
    if len(shards) == 1:
        save_file(state, os.path.join(folder, "model.safetensors"), metadata={"format": kind})
        return
    where = {}
    for i, shard in enumerate(shards):
        name = "model-%05d-of-%05d.safetensors" % (i + 1, len(shards))
        save_file(shard, os.path.join(folder, name), metadata={"format": kind})
        where.update({tensor: name for tensor in shard})
    total = sum(t.numel() * t.element_size() for t in state.values())
    tiny.write_json(folder, "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": where})


def load_tensors(folder):
    state = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            state.update(load_file(os.path.join(folder, name)))
    return state


def save_target(model, folder):
    save_shards(tensors_of(model), folder, "pt")
    tiny.write_json(folder, "config.json", tiny.target_config())
    tiny.write_json(folder, "generation_config.json", tiny.generation_config())


def save_drafter(model, folder, config):
    save_shards(tensors_of(model), folder, "pt")
    tiny.write_json(folder, "config.json", config)


def quantise(weight):
    """MLX's layout: element 0 in the lowest bits of a uint32, value = q * scale + bias, a scale and a bias per group.

    Of several ranges, each a little narrower than the group's own, the one with the least squared error is kept."""
    levels = 2 ** BITS - 1
    g = weight.float().reshape(weight.shape[0], -1, GROUP)
    low, high = g.amin(-1, keepdim=True), g.amax(-1, keepdim=True)
    best = None
    for cut in torch.linspace(1.0, 0.8, 9):
        middle, half = (low + high) / 2, (high - low) / 2 * cut
        scale = (2 * half / levels).clamp(min=1e-8).bfloat16().float()
        bias = (middle - half).bfloat16().float()
        q = ((g - bias) / scale).round().clamp(0, levels)
        error = (q * scale + bias - g).square().sum(-1, keepdim=True)
        if best is None:
            best = [error, q, scale, bias]
        else:
            better = error < best[0]
            best = [torch.where(better, new, old) for new, old in zip((error, q, scale, bias), best)]
    _, q, scale, bias = best
    q = q.reshape(weight.shape[0], -1, 32 // BITS).to(torch.int64)
    packed = sum(q[..., i] << (BITS * i) for i in range(32 // BITS))
    return packed.to(torch.uint32), scale.squeeze(-1).bfloat16(), bias.squeeze(-1).bfloat16()


def save_mlx(source, folder):
    """Text matrices and the embedding in 4 bits, the rest as it is, under MLX's names."""
    state = {}
    for name, p in load_tensors(source).items():
        key = name.removeprefix("model.")
        if key.startswith("language_model."):
            key = "language_model.model." + key.removeprefix("language_model.")
        if key.startswith("language_model.") and p.ndim == 2:
            base = key.removesuffix(".weight")
            state[key], state[base + ".scales"], state[base + ".biases"] = quantise(p)
        else:
            state[key] = p
    save_shards(state, folder, "mlx")
    config = tiny.target_config()
    config["quantization"] = config["quantization_config"] = {"group_size": GROUP, "bits": BITS, "mode": "affine"}
    tiny.write_json(folder, "config.json", config)
    tiny.write_json(folder, "generation_config.json", tiny.generation_config())


def add_text_files(folder, tokenizer, template):
    with open(tokenizer, encoding="utf-8") as source, open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as out:
        json.dump(json.load(source), out, ensure_ascii=False, separators=(",", ":"))
        out.write("\n")
    tiny.write_json(folder, "tokenizer_config.json", tiny.tokenizer_config())
    tiny.write_json(folder, "processor_config.json", tiny.processor_config())
    if template:
        target = os.path.join(folder, "chat_template.jinja")
        if os.path.abspath(template) != os.path.abspath(target):
            shutil.copyfile(template, target)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("models")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--template")
    parser.add_argument("--assistant")
    parser.add_argument("--dflash")
    options = parser.parse_args()
    folder = lambda name: os.path.join(options.models, name)
    save_shards(load_tensors(options.target), folder("tiny"), "pt")
    tiny.write_json(folder("tiny"), "config.json", tiny.target_config())
    tiny.write_json(folder("tiny"), "generation_config.json", tiny.generation_config())
    save_mlx(options.target, folder("tiny-mlx-4bit"))
    for name in ("tiny", "tiny-mlx-4bit"):
        add_text_files(folder(name), options.tokenizer, options.template)
    for source, name, config in ((options.assistant, "tiny-assistant", tiny.assistant_config()), (options.dflash, "tiny-dflash", tiny.dflash_config())):
        if source:
            save_shards(load_tensors(source), folder(name), "pt")
            tiny.write_json(folder(name), "config.json", config)


if __name__ == "__main__":
    main()
