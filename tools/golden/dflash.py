"""A random DFlash drafter and what it drafts.  Two Qwen3-like layers read the target's tapped states before an anchor token and
guess the seven tokens after it in one pass.  Parameters have the names, and the order, of its authors' code.
"""
import json
import os

import torch
import torch.nn.functional as F
import transformers as T
from safetensors.torch import save_file
from torch import nn

import models
import reference

SEED = 11  # of the weights, the same in every case
BLOCK, MASK_ID, LAYERS, HEADS, KV_HEADS, HEAD, WIDE, THETA, SOFTCAP = 8, 4, 2, 4, 2, 16, 96, 1e6, 30.0


def taps_of(layers):
    """The target's layers that the drafter reads."""
    return [1, layers // 2, layers - 2]


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


def split(x, heads):
    return x.unflatten(-1, (heads, HEAD)).transpose(1, 2)


def rotate(x, places):
    """x [1, heads, n, HEAD], places [n]; the two halves of a head are its pairs."""
    frequencies = THETA ** (-torch.arange(0, HEAD, 2).float() / HEAD)
    angles = places.float()[:, None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Attention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.q_proj, self.k_proj = linear(hidden, HEADS * HEAD), linear(hidden, KV_HEADS * HEAD)
        self.v_proj, self.o_proj = linear(hidden, KV_HEADS * HEAD), linear(HEADS * HEAD, hidden)
        self.q_norm, self.k_norm = Norm(HEAD), Norm(HEAD)

    def forward(self, x, context):
        """Queries of the block alone, keys and values of the context and the block; every row sees all of them."""
        both = torch.cat([context, x], 1)
        places = torch.arange(both.shape[1])
        q = rotate(self.q_norm(split(self.q_proj(x), HEADS)), places[context.shape[1]:])
        k = rotate(self.k_norm(split(self.k_proj(both), KV_HEADS)), places)
        v = split(self.v_proj(both), KV_HEADS)
        k, v = (each.repeat_interleave(HEADS // KV_HEADS, 1) for each in (k, v))
        return self.o_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = linear(hidden, WIDE), linear(hidden, WIDE), linear(WIDE, hidden)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.self_attn, self.mlp = Attention(hidden), Mlp(hidden)
        self.input_layernorm, self.post_attention_layernorm = Norm(hidden), Norm(hidden)

    def forward(self, x, context):
        x = x + self.self_attn(self.input_layernorm(x), context)
        return x + self.mlp(self.post_attention_layernorm(x))


class Drafter(nn.Module):
    def __init__(self, hidden, taps):
        super().__init__()
        self.taps = taps
        self.layers, self.norm = nn.ModuleList(Layer(hidden) for _ in range(LAYERS)), Norm(hidden)
        self.fc, self.hidden_norm = linear(hidden * len(taps), hidden), Norm(hidden)

    @torch.no_grad()
    def draft(self, target, text, start):
        """Logits of the rows after the anchor text[start]; the context is everything before it."""
        states = reference.hidden_states(target, torch.tensor([text[:start]]))
        context = self.hidden_norm(self.fc(torch.cat([states[tap + 1] for tap in self.taps], -1)))
        embed = target.get_input_embeddings()
        x = embed(torch.tensor([[text[start]] + [MASK_ID] * (BLOCK - 1)]))
        for layer in self.layers:
            x = layer(x, context)
        return SOFTCAP * torch.tanh(self.norm(x)[0, 1:] @ embed.weight.T / SOFTCAP)


def make(shape):
    drafter = Drafter(models.HIDDEN, taps_of(shape.layers)).eval().float()
    models.randomise(drafter, torch.Generator().manual_seed(SEED))
    return drafter


def save(drafter, shape, folder):
    os.makedirs(folder, exist_ok=True)
    config = T.Qwen3Config(
        vocab_size=shape.vocab, hidden_size=models.HIDDEN, intermediate_size=WIDE, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD, max_position_embeddings=4096,
        tie_word_embeddings=True, rope_parameters={"rope_theta": THETA, "rope_type": "default"}).to_dict()
    config.update(architectures=["DFlashDraftModel"], dtype="bfloat16", block_size=BLOCK, final_logit_softcapping=SOFTCAP,
                  num_target_layers=shape.layers, dflash_config={"mask_token_id": MASK_ID, "target_layer_ids": drafter.taps})
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=2, sort_keys=True)
        file.write("\n")
    save_file({name: values.to(torch.bfloat16).contiguous() for name, values in drafter.state_dict().items()},
              os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
