"""The DFlash drafter in PyTorch: Qwen3-like layers over the target's tapped states, that guess a whole block in one pass.

Parameters have the names of z-lab's files.  A layer's keys and values come from the context (the target's states) and from the
block itself; queries come from the block alone.
"""
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

import tiny

CONFIG = tiny.dflash_config()
TAPS = CONFIG["dflash_config"]["target_layer_ids"]
BLOCK, HEAD = CONFIG["block_size"], CONFIG["head_dim"]
HEADS, KV_HEADS = CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"]


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * self.weight).to(x.dtype)


def linear(inputs, outputs):
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=inputs ** -0.5)
    return layer


def rotate(x, position):
    """x [b, heads, n, head], position [b, n]; halves are paired."""
    frequency = CONFIG["rope_parameters"]["rope_theta"] ** (-torch.arange(0, HEAD, 2, device=x.device).float() / HEAD)
    angle = position[:, None, :, None].float() * frequency
    cos, sin = angle.cos(), angle.sin()
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


def split(x, heads):
    return x.unflatten(-1, (heads, HEAD)).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = linear(h, HEADS * HEAD), linear(h, KV_HEADS * HEAD), linear(h, KV_HEADS * HEAD)
        self.o_proj = linear(HEADS * HEAD, h)
        self.q_norm, self.k_norm = Norm(HEAD), Norm(HEAD)

    def forward(self, x, position, context, context_position, mask):
        both, places = torch.cat([context, x], 1), torch.cat([context_position, position], 1)
        q = rotate(self.q_norm(split(self.q_proj(x), HEADS)), position)
        k = rotate(self.k_norm(split(self.k_proj(both), KV_HEADS)), places)
        v = split(self.v_proj(both), KV_HEADS)
        out = flex_attention(q.to(v.dtype), k.to(v.dtype), v, block_mask=mask, enable_gqa=True)
        return self.o_proj(out.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, h, wide):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = linear(h, wide), linear(h, wide), linear(wide, h)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, h, wide):
        super().__init__()
        self.input_layernorm, self.self_attn = Norm(h), Attention(h)
        self.post_attention_layernorm, self.mlp = Norm(h), Mlp(h, wide)

    def forward(self, x, position, context, context_position, mask):
        x = x + self.self_attn(self.input_layernorm(x), position, context, context_position, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Dflash(nn.Module):
    def __init__(self):
        super().__init__()
        h = CONFIG["hidden_size"]
        self.fc, self.hidden_norm, self.norm = linear(h * len(TAPS), h), Norm(h), Norm(h)
        self.layers = nn.ModuleList(Layer(h, CONFIG["intermediate_size"]) for _ in range(CONFIG["num_hidden_layers"]))

    def forward(self, x, position, taps, context_position, mask):
        """x [b, anchors * BLOCK, h] embedded and scaled; taps: the target's states, [b, length, h] each."""
        context = self.hidden_norm(self.fc(torch.cat(taps, -1)))
        for layer in self.layers:
            x = layer(x, position, context, context_position, mask)
        return self.norm(x)
