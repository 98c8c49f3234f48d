"""The target for training: transformers' own Gemma4ForConditionalGeneration over rows of packed texts.

Attention is FlexAttention with masks that keep the texts of a row apart; the layers are compiled one by one.
"""
import queue
import threading

import torch
import torch.nn.functional as F
import transformers
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import drawing
import tiny

SOFT = (tiny.ID["<|image|>"], tiny.ID["<|video|>"])
make_mask = torch.compile(create_block_mask)


def packed_attention(module, query, key, value, attention_mask, scaling=None, **_):
    out = flex_attention(query.to(value.dtype), key.to(value.dtype), value, block_mask=attention_mask, scale=scaling,
                         enable_gqa=query.shape[1] != key.shape[1])
    return out.transpose(1, 2).contiguous(), None


ALL_ATTENTION_FUNCTIONS.register("packed", packed_attention)


def softcap(logits, cap=30.0):
    return cap * torch.tanh(logits / cap)


def new_target():
    """Fresh weights; attention has no 1/sqrt(head) here, so the norms of queries and keys begin with it."""
    model = transformers.Gemma4ForConditionalGeneration(transformers.Gemma4Config(**tiny.target_config()))
    for name, p in model.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            p.data.fill_(p.numel() ** -0.25)
        elif "post_" in name and name.endswith("layernorm.weight"):
            p.data.fill_((2 * tiny.LAYERS) ** -0.5)
        elif name.endswith("position_embedding_table"):
            p.data.normal_(std=0.02)
    return model.float()


def load_target(folder, dtype=torch.float32):
    return transformers.Gemma4ForConditionalGeneration.from_pretrained(folder, dtype=dtype)


def standardise(model, pictures):
    """Fixes the tower's output statistics at those of its first pictures, so that std_bias and std_scale do real work."""
    tower = model.model.vision_tower
    tower.std_bias.zero_()
    tower.std_scale.fill_(1)
    with torch.no_grad():
        out = tower(*drawing.patches(drawing.draw(pictures))).last_hidden_state.float()
    tower.std_bias.copy_(out.mean(0).bfloat16())
    tower.std_scale.copy_((1 / (out.std(0) + 1e-3)).bfloat16())


def compile_layers(model):
    for layer in [*model.model.language_model.layers, *model.model.vision_tower.encoder.layers]:
        layer.compile()
    model.model.language_model.config._attn_implementation = "packed"


class Batch:
    """Rows on the GPU with what follows from them: texts, positions, picture spans and the two masks."""

    def __init__(self, rows, device, most_pictures=None):
        self.tokens = torch.stack([torch.from_numpy(r[0].astype("int32")) for r in rows]).to(device, non_blocking=True).long()
        self.own = torch.stack([torch.from_numpy(r[1]) for r in rows]).to(device, non_blocking=True)
        pictures = [torch.from_numpy(r[2]) for r in rows if len(r[2])]
        self.picture_count = sum(map(len, pictures))
        self.pictures = torch.cat(pictures).to(device, non_blocking=True) if pictures else None
        if most_pictures and pictures:  # one shape for the compiler
            self.pictures = F.pad(self.pictures, (0, 0, 0, most_pictures - self.picture_count))
        t = self.tokens
        self.real = t != tiny.ID["<pad>"]
        start = t == tiny.ID["<bos>"]
        self.text = torch.where(self.real, start.int().cumsum(1), -1).int()
        index = torch.arange(t.shape[1], device=device)[None].expand_as(t)
        self.position = torch.where(self.real, index - torch.where(start, index, 0).cummax(1).values, 0)
        self.soft = (t == SOFT[0]) | (t == SOFT[1])
        first = self.soft & ~F.pad(self.soft, (1, 0))[:, :-1]
        self.span = torch.where(self.soft, first.int().cumsum(1), -1).int()

    def masks(self):
        text, span, (b, length) = self.text, self.span, self.tokens.shape

        def full(b, h, q, k):
            return (text[b, q] == text[b, k]) & (k <= q)

        def sliding(b, h, q, k):
            seen = (k <= q) | ((span[b, q] == span[b, k]) & (span[b, q] >= 0))
            return (text[b, q] == text[b, k]) & seen & (q - k < tiny.WINDOW)

        return {"full_attention": make_mask(full, b, None, length, length), "sliding_attention": make_mask(sliding, b, None, length, length)}


def prefetch(source, rows, pictures, device):
    """A function that gives the next batch; a few are made ahead, in a thread of their own."""
    ready = queue.Queue(maxsize=4)

    def feed():
        while True:
            ready.put(Batch(source.next_batch(rows, pictures), device, pictures))

    threading.Thread(target=feed, daemon=True).start()
    return ready.get


def embed(model, batch):
    """Token embeddings with the tower's soft tokens in their places."""
    out = model.model.language_model.embed_tokens(torch.where(batch.soft, 0, batch.tokens))
    if batch.pictures is None:
        return out
    tower = model.model.vision_tower(*drawing.patches(drawing.draw(batch.pictures))).last_hidden_state
    features = model.model.embed_vision(tower)[:batch.picture_count * tiny.SOFT_TOKENS]
    return out.masked_scatter(batch.soft[..., None], features.to(out.dtype))


def run(model, batch, masks, taps=()):
    """(hidden states after the final norm, keys and values of the last layer of each kind, outputs of the layers `taps`)."""
    text = model.model.language_model
    x, shared, tapped = embed(model, batch), {}, []
    rotary = {kind: text.rotary_emb(x, batch.position, kind) for kind in masks}
    for i, layer in enumerate(text.layers):
        kind = text.config.layer_types[i]
        x = layer(x, None, shared_kv_states=shared, position_embeddings=rotary[kind], attention_mask=masks[kind],
                  position_ids=batch.position, past_key_values=None)
        if i in taps:
            tapped.append(x)
    return text.norm(x), shared, tapped
