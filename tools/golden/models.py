"""The miniature models of the golden cases: shapes, configurations in transformers' words, random weights, files.

Weights are rounded to bfloat16 before anything is computed with them, so whoever loads the stored tensors and computes in
float32 has exactly the reference's weights.  Hidden sizes are perfect squares, so sqrt(hidden_size) needs no rounding.
"""
import dataclasses
import math
import os

import numpy as np
import torch
import transformers as T
from safetensors.torch import save_file

HIDDEN = 64
FIRST_WORD = 16  # ids below are control tokens; prompts are drawn from those above
BOS, BOI, EOI, IMAGE, VIDEO, BOA, EOA, AUDIO = 2, 5, 6, 7, 8, 9, 10, 11
CONTROL_IDS = dict(boi_token_id=BOI, eoi_token_id=EOI, image_token_id=IMAGE, video_token_id=VIDEO, boa_token_id=BOA,
                   eoa_token_index=EOA, audio_token_id=AUDIO)


@dataclasses.dataclass(frozen=True)
class Shape:
    vocab: int
    window: int
    layers: int
    period: int  # every period-th layer is full attention, and the last one
    prompt: int  # tokens
    shared: int = 0  # the last so many layers read the cache of an earlier one
    patches: int = 64  # of a side, in the position table


def bf16(values):
    return values.to(torch.bfloat16).to(torch.float32)


def text_settings(shape):
    return dict(vocab_size=shape.vocab, hidden_size=HIDDEN, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                global_head_dim=32, sliding_window=shape.window, final_logit_softcapping=30.0, max_position_embeddings=4096,
                rms_norm_eps=1e-6, pad_token_id=0, bos_token_id=BOS, eos_token_id=1, attn_implementation="eager")


def target_layers(shape):
    full = lambda i: (i + 1) % shape.period == 0 or i == shape.layers - 1
    return dict(num_hidden_layers=shape.layers,
                layer_types=["full_attention" if full(i) else "sliding_attention" for i in range(shape.layers)])


def assistant_settings(shape):
    return dict(text_settings(shape), hidden_size=36, num_hidden_layers=4, intermediate_size=80, final_logit_softcapping=None,
                layer_types=["sliding_attention"] * 3 + ["full_attention"])


# K = V on full layers, and pictures that see both ways: everything but E2B and E4B.
K_IS_V = dict(attention_k_eq_v=True, num_global_key_value_heads=1)
LARGE = dict(K_IS_V, use_bidirectional_attention="vision")
OF_KIND = {
    "e2b": lambda shape: dict(hidden_size_per_layer_input=16, vocab_size_per_layer_input=shape.vocab, use_double_wide_mlp=True,
                              num_kv_shared_layers=shape.shared, intermediate_size=96, num_key_value_heads=1),
    "dense": lambda shape: dict(LARGE, intermediate_size=160),
    "moe": lambda shape: dict(LARGE, intermediate_size=96, enable_moe_block=True, num_experts=8, top_k_experts=2,
                              moe_intermediate_size=64),
}


def build(name, shape):
    """Target and assistant of a kind (e2b, dense, moe, unified), with weights that are still to be drawn."""
    return build_unified(shape) if name == "unified" else build_gemma4(name, shape)


def build_unified(shape):
    """The 12B kind: no encoders."""
    text = T.Gemma4UnifiedTextConfig(**text_settings(shape), **target_layers(shape), **LARGE, intermediate_size=128)
    config = T.Gemma4UnifiedConfig(
        text_config=text.to_dict(), audio_config=dict(audio_embed_dim=640),
        vision_config=dict(mm_embed_dim=HIDDEN, mm_posemb_size=shape.patches, output_proj_dims=HIDDEN), **CONTROL_IDS)
    config._attn_implementation = "eager"
    assistant = T.Gemma4UnifiedTextConfig(**assistant_settings(shape), **K_IS_V)
    return (T.Gemma4UnifiedForConditionalGeneration(config), T.Gemma4UnifiedAssistantForCausalLM(
        T.Gemma4UnifiedAssistantConfig(text_config=assistant.to_dict(), backbone_hidden_size=HIDDEN)))


def build_gemma4(name, shape):
    """The kinds with a vision tower; e2b has an audio tower and a centroid head too."""
    small = name == "e2b"
    no_table = dict(hidden_size_per_layer_input=0, vocab_size_per_layer_input=0)
    text = T.Gemma4TextConfig(**{**text_settings(shape), **target_layers(shape), **no_table, **OF_KIND[name](shape)})
    vision = T.Gemma4VisionConfig(
        hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=3, head_dim=16,
        position_embedding_size=shape.patches, use_clipped_linears=small, standardize=not small)
    audio = T.Gemma4AudioConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, output_proj_dims=48,
                                subsampling_conv_channels=[128, 4])
    config = T.Gemma4Config(text_config=text.to_dict(), vision_config=vision.to_dict(),
                            audio_config=audio.to_dict() if small else None, **CONTROL_IDS)
    config._attn_implementation = "eager"
    own = dict(num_key_value_heads=1) if small else K_IS_V
    assistant = T.Gemma4TextConfig(**{**assistant_settings(shape), **no_table, **own})
    return (T.Gemma4ForConditionalGeneration(config), T.Gemma4AssistantForCausalLM(T.Gemma4AssistantConfig(
        text_config=assistant.to_dict(), backbone_hidden_size=HIDDEN, use_ordered_embeddings=small, num_centroids=16,
        centroid_intermediate_top_k=4)))


# What a model computes for itself, and the ranges of clipped layers.
NOT_DRAWN = ("inv_freq", "embed_scale")
NOT_DRAWN_ENDS = ("input_min", "input_max", "output_min", "output_max")


def random_values(name, shape, generator):
    """Values with enough spread that logits differ clearly from token to token."""
    normal = lambda: torch.randn(shape, generator=generator)
    if name.endswith("layer_scalar"):
        return 0.6 + 0.4 * torch.rand(shape, generator=generator)
    if "norm" in name or name.endswith(("router.scale", "per_expert_scale")):
        return 1.0 + 0.2 * normal()
    if name.endswith("std_scale"):
        return 0.5 + torch.rand(shape, generator=generator)
    if "embed_tokens.weight" in name or "lm_head" in name:
        return 0.25 * normal()
    return normal() * (1.3 / math.sqrt(shape[-1] if len(shape) > 1 else 16))


def randomise(model, generator):
    """Draws every parameter, then every buffer, in the order of the module; tied ones once."""
    drawn = set()
    for name, values in list(model.named_parameters()) + list(model.named_buffers()):
        if values.data_ptr() in drawn or not values.is_floating_point():
            continue
        drawn.add(values.data_ptr())
        if not any(part in name for part in NOT_DRAWN) and not name.endswith(NOT_DRAWN_ENDS):
            values.data = bf16(random_values(name, values.shape, generator))


def draw(name, shape, seed):
    """A target, its assistant, the first tokens of a prompt, and the numbers that further inputs are drawn from."""
    generator, numbers = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    target, assistant = (model.eval().float() for model in build(name, shape))
    randomise(target, generator)
    randomise(assistant, generator)
    if getattr(assistant, "masked_embedding", None) is not None:
        assistant.masked_embedding.token_ordering.data = torch.from_numpy(numbers.permutation(shape.vocab))
    prompt = torch.cat([row(BOS), words(shape, numbers, shape.prompt - 1)], 1)
    return target, assistant, prompt, numbers


def row(*ids):
    return torch.tensor([ids])


def words(shape, numbers, count):
    return torch.from_numpy(numbers.integers(FIRST_WORD, shape.vocab, count)).view(1, -1)


def save_checkpoint(model, folder):
    """config.json with every field, and the weights in bfloat16; tied ones once."""
    os.makedirs(folder, exist_ok=True)
    model.config.architectures, model.config.dtype = [type(model).__name__], "bfloat16"
    model.config.to_json_file(os.path.join(folder, "config.json"), use_diff=False)
    state, seen = {}, set()
    for name, values in model.state_dict().items():
        if values.is_floating_point():
            if values.data_ptr() in seen and values.numel() > 1:
                continue
            seen.add(values.data_ptr())
            values = values.to(torch.bfloat16)
        state[name] = values.contiguous().clone()
    save_file(state, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
