"""What transformers computes with a model: logits, a greedy continuation, a round of the assistant."""
import torch
import torch.nn.functional as F
from transformers.models.gemma4_unified import modeling_gemma4_unified as unified


def span_masks(model, ids, kind):
    """Arguments that make the spans of `kind` (1 a picture, 2 a clip) see both ways on sliding layers only.

    The unified model's forward() lays spans over every layer, its generate() does not; so it gets generate()'s masks."""
    if not type(model).__name__.startswith("Gemma4Unified"):
        return {"mm_token_type_ids": kind}
    text = model.config.get_text_config()
    return {"attention_mask": unified.create_masks_for_vision_model(
        config=text, inputs_embeds=torch.zeros(1, ids.shape[1], text.hidden_size), attention_mask=None, past_key_values=None,
        position_ids=torch.arange(ids.shape[1])[None],
        block_sequence_ids=unified.get_block_sequence_ids_for_mask(kind, device="cpu"))}


def inputs(model, ids, kind, media):
    """The arguments of forward() but for the cache; `kind` may be shorter than `ids`, the rest is text."""
    if kind is None:
        return dict(media, input_ids=ids)
    return dict(media, input_ids=ids, **span_masks(model, ids, F.pad(kind, (0, ids.shape[1] - kind.shape[1]))))


@torch.no_grad()
def run(model, ids, kind=None, **media):
    return model(use_cache=False, **inputs(model, ids, kind, media)).logits[0].float()


@torch.no_grad()
def hidden_states(model, ids):
    """The embedding, then the output of each layer, of which the last one is after the final norm."""
    return model(input_ids=ids, use_cache=False, output_hidden_states=True).hidden_states


def greedy(model, ids, count, kind=None, **media):
    """Continuation without a cache, and the smallest gap between the best two logits on the way."""
    out, margin = ids, 1e9
    for _ in range(count):
        best = run(model, out, kind, **media)[-1].topk(2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        out = torch.cat([out, best.indices[:1].view(1, 1)], 1)
    return out[0, ids.shape[1]:].tolist(), margin


@torch.no_grad()
def draft_round(model, assistant, ids, count, kind=None, **media):
    """One round as transformers drafts: ids[:-1] is in the cache, the last id has just been chosen, and every query stands
    at its position.  Tokens, logits, and hidden states, of which the first is the target's."""
    seen = inputs(model, ids[:, :-1], None if kind is None else kind[:, :ids.shape[1] - 1], media)
    out = model(use_cache=True, output_hidden_states=True, return_shared_kv_states=True, **seen)
    shared = {name: (k[:, :, :ids.shape[1]], v[:, :, :ids.shape[1]]) for name, (k, v) in out.shared_kv_states.items()}
    hidden, token, place = out.hidden_states[-1][:, -1:], ids[:, -1:], torch.tensor([[ids.shape[1] - 1]])
    embed = model.get_input_embeddings()
    tokens, logits, hiddens = [], [], [hidden[0]]
    for _ in range(count):
        step = assistant(inputs_embeds=torch.cat([embed(token), hidden], -1), position_ids=place, shared_kv_states=shared,
                         use_cache=False)
        token, hidden = step.logits.argmax(-1), step.last_hidden_state
        tokens.append(int(token))
        logits.append(step.logits[0])
        hiddens.append(hidden[0])
    return tokens, torch.cat(logits).float(), torch.cat(hiddens).float()


@torch.no_grad()
def assisted(model, assistant, ids, count, depth):
    """generate() with the assistant, which must give the greedy continuation."""
    assistant.generation_config.num_assistant_tokens = depth
    assistant.generation_config.num_assistant_tokens_schedule = "constant"
    out = model.generate(input_ids=ids, assistant_model=assistant, do_sample=False, max_new_tokens=count, eos_token_id=[],
                         pad_token_id=0)
    return out[0, ids.shape[1]:].tolist()


@torch.no_grad()
def picture_features(model, pixels, places):
    out = model.model.get_image_features(pixels, places, return_dict=True).pooler_output
    return torch.cat(list(out)).float() if isinstance(out, (list, tuple)) else out.reshape(-1, out.shape[-1]).float()


@torch.no_grad()
def sound_features(model, mel, mask):
    out = model.model.get_audio_features(mel, mask, return_dict=True)
    kept = getattr(out, "attention_mask", None)
    rows = out.pooler_output if kept is None else out.pooler_output[kept.bool()]
    return rows.reshape(-1, rows.shape[-1]).float()
