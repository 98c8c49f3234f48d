"""What transformers computes with the shipped files, for `slipstream verify`: python3 make_golden.py MODELS OUT

Reads MODELS/tiny, tiny-assistant, tiny-dflash and tiny-mlx-4bit in float32 and writes OUT/expected.json and expected.safetensors
(prompt, logits, greedy text, one round of the assistant, two blocks of the DFlash drafter, the MLX copy's logits, a picture and a clip), with
image.png and frame0.png ... beside them.  The models are reached through links OUT/target, assistant, dflash and target-mlx4.
"""
import argparse
import json
import os
import random

import torch
import torch.nn.functional as F
import transformers
from PIL import Image
from safetensors.torch import save_file

import dflash
import drawing
import export
import generation
import network
import scenes
import stream
import tiny

QUESTION = "<bos><|turn>user\nTell me a story about a fox and a lantern.<turn|>\n<|turn>model\n<|channel>thought\n<channel|>"
GREEDY, MLX_GREEDY, DEPTH = 96, 16, 6


@torch.no_grad()
def greedy(model, ids, count, **more):
    """Continuation without a cache, and the smallest gap between the best two logits on the way."""
    out, margin = ids.clone(), 1e9
    for _ in range(count):
        extra = dict(more)
        if "mm_token_type_ids" in extra:
            extra["mm_token_type_ids"] = F.pad(extra["mm_token_type_ids"], (0, out.shape[1] - ids.shape[1]))
        best = model(input_ids=out, use_cache=False, **extra).logits[0, -1].float().topk(2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        out = torch.cat([out, best.indices[:1].view(1, 1)], 1)
    return out[0, ids.shape[1]:].tolist(), margin


@torch.no_grad()
def draft_round(model, assistant, ids):
    """One round as transformers drafts: ids[:-1] is in the cache, the last id has just been chosen, queries at its position."""
    out = model(input_ids=ids[:, :-1], use_cache=True, output_hidden_states=True, return_shared_kv_states=True)
    shared = dict(out.shared_kv_states.items())
    state, token, place = out.hidden_states[-1][:, -1:], ids[:, -1:], torch.tensor([[ids.shape[1] - 1]])
    tokens, logits, states = [], [], [state[0]]
    for _ in range(DEPTH):
        embedded = model.get_input_embeddings()(token)
        step = assistant(inputs_embeds=torch.cat([embedded, state], -1), position_ids=place, shared_kv_states=shared, use_cache=False)
        token, state = step.logits.argmax(-1), step.last_hidden_state
        tokens.append(int(token))
        logits.append(step.logits[0])
        states.append(state[0])
    return tokens, torch.cat(logits), torch.cat(states)


class PlainDflash:
    """dflash.Dflash's weights without FlexAttention, one block at a time."""

    def __init__(self, folder, model):
        self.net = dflash.Dflash()
        self.net.load_state_dict(export.load_tensors(folder))
        self.net.float()
        self.model = model

    @torch.no_grad()
    def block(self, text, start):
        """Logits of the rows after the anchor text[start]; the context is everything before it."""
        out = self.model(input_ids=torch.tensor([text[:start]]), use_cache=False, output_hidden_states=True)
        taps = [out.hidden_states[i + 1] for i in dflash.TAPS]
        taps[-1] = self.last_layer(text[:start]) if dflash.TAPS[-1] == tiny.LAYERS - 1 else taps[-1]
        table = self.model.model.language_model.embed_tokens
        rows = [text[start]] + [tiny.ID["<mask>"]] * (dflash.BLOCK - 1)
        x = table(torch.tensor([rows]))
        places = torch.arange(start, start + len(rows))[None]
        context = self.net.hidden_norm(self.net.fc(torch.cat(taps, -1)))
        both_places = torch.cat([torch.arange(start)[None], places], 1)
        for layer in self.net.layers:
            a, y = layer.self_attn, layer.input_layernorm(x)
            both = torch.cat([context, y], 1)
            q = dflash.rotate(a.q_norm(dflash.split(a.q_proj(y), dflash.HEADS)), places)
            k = dflash.rotate(a.k_norm(dflash.split(a.k_proj(both), dflash.KV_HEADS)), both_places)
            v = dflash.split(a.v_proj(both), dflash.KV_HEADS)
            group = dflash.HEADS // dflash.KV_HEADS
            seen = F.scaled_dot_product_attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1))
            x = x + a.o_proj(seen.transpose(1, 2).flatten(2))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return network.softcap(self.net.norm(x)[0, 1:] @ table.weight.T)

    def last_layer(self, ids):
        """The last layer's output before the final norm, which the recorded states do not have."""
        kept = []
        hook = self.model.model.language_model.layers[-1].register_forward_hook(lambda m, i, o: kept.append(o if torch.is_tensor(o) else o[0]))
        self.model(input_ids=torch.tensor([ids]), use_cache=False)
        hook.remove()
        return kept[0].clone()


def dequantised(folder):
    """The MLX copy as a float model."""
    state = export.load_tensors(folder)
    out = {}
    for name, p in state.items():
        if name.endswith((".scales", ".biases")):
            continue
        if name.removesuffix(".weight") + ".scales" in state:
            base = name.removesuffix(".weight")
            codes = torch.stack([(p.to(torch.int64) >> (export.BITS * i)) & (2 ** export.BITS - 1) for i in range(32 // export.BITS)], -1)
            codes = codes.reshape(p.shape[0], -1, export.GROUP).float()
            p = (codes * state[base + ".scales"].float()[..., None] + state[base + ".biases"].float()[..., None]).reshape(p.shape[0], -1)
        out["model." + name.replace("language_model.model.", "language_model.")] = p.float()
    model = network.new_target().eval()
    missing = model.load_state_dict(out, strict=False)
    if missing.unexpected_keys or [k for k in missing.missing_keys if k != "lm_head.weight"]:
        raise SystemExit("the MLX copy does not fit: %s" % (missing,))
    model.tie_weights()
    return model


def pictures(model, tokenizer, folder, tensors, facts):
    """A picture and a clip through the image processor and the tower."""
    rng = random.Random(7)
    processor = transformers.Gemma4ImageProcessor(max_soft_tokens=tiny.BUDGET)

    def inputs(scene, names):
        images = []
        for frame, name in enumerate(names):
            pixels = drawing.draw(torch.tensor([stream.picture(scene, frame)]), 240)[0]
            images.append(Image.fromarray((pixels * 255).round().to(torch.uint8).numpy()))
            images[-1].save(os.path.join(folder, name))
        return processor(images=images, return_tensors="pt")

    still = scenes.still(rng, "eval", 3, 3)
    b = inputs(still, ["image.png"])
    ids, _ = stream.expand(tokenizer, "<bos><|turn>user\n<|image|>Describe the picture.<turn|>\n<|turn>model\n<|channel>thought\n<channel|>", [still])
    ids = torch.tensor([ids])
    kind = (ids == tiny.ID["<|image|>"]).long()
    more = dict(pixel_values=b["pixel_values"].float(), image_position_ids=b["image_position_ids"], mm_token_type_ids=kind)
    with torch.no_grad():
        tensors["image_logits"] = model(input_ids=ids, use_cache=False, **more).logits[0, -8:]
        tensors["image_features"] = torch.cat(list(model.model.get_image_features(more["pixel_values"], more["image_position_ids"], return_dict=True).pooler_output))
    tensors["image_prompt_ids"], facts["image_soft_tokens"] = ids[0], int(b["num_soft_tokens_per_image"][0])
    facts["image_greedy_tokens"], facts["image_greedy_margin"] = greedy(model, ids, 24, **more)
    facts["image_answer"] = tokenizer.decode(facts["image_greedy_tokens"])
    clip = scenes.clip(rng, "eval")
    clip["frames"] = 4
    b = inputs(clip, ["frame%d.png" % i for i in range(4)])
    ids, _ = stream.expand(tokenizer, "<bos><|turn>user\n<|video|>What happens in this clip?<turn|>\n<|turn>model\n<|channel>thought\n<channel|>", [clip])
    ids = torch.tensor([ids])
    with torch.no_grad():
        tensors["video_logits"] = model(input_ids=ids, use_cache=False, pixel_values_videos=b["pixel_values"][None].float(),
                                        video_position_ids=b["image_position_ids"][None],
                                        mm_token_type_ids=2 * (ids == tiny.ID["<|video|>"]).long()).logits[0, -8:]
    tensors["video_prompt_ids"], facts["video_soft_tokens_per_frame"] = ids[0], tiny.SOFT_TOKENS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models")
    parser.add_argument("out")
    options = parser.parse_args()
    path = lambda name: os.path.join(options.models, name)
    os.makedirs(options.out, exist_ok=True)
    model = transformers.Gemma4ForConditionalGeneration.from_pretrained(path("tiny"), dtype=torch.float32, attn_implementation="eager").eval()
    assistant = transformers.Gemma4AssistantForCausalLM.from_pretrained(path("tiny-assistant"), dtype=torch.float32, attn_implementation="eager").eval()
    hub = transformers.AutoTokenizer.from_pretrained(path("tiny"))
    tokenizer = generation.load_tokenizer(os.path.join(path("tiny"), "tokenizer.json"))
    rendered = hub.apply_chat_template([{"role": "user", "content": "Tell me a story about a fox and a lantern."}], tokenize=False, add_generation_prompt=True)
    ids = hub(rendered, add_special_tokens=False).input_ids
    if rendered != QUESTION or ids != tokenizer.encode(QUESTION):
        raise SystemExit("transformers renders or encodes the prompt differently: %r %r" % (rendered, ids))
    ids = torch.tensor([ids])
    tensors, facts = {"prompt_ids": ids[0]}, {"vocab": tiny.VOCAB, "transformers": transformers.__version__}
    with torch.no_grad():
        out = model(input_ids=ids, use_cache=False, output_hidden_states=True)
    tensors["prompt_logits"], tensors["last_hidden"] = out.logits[0], out.hidden_states[-1][0]
    facts["greedy_tokens"], facts["greedy_margin"] = greedy(model, ids, GREEDY)
    facts["greedy_text"] = tokenizer.decode(facts["greedy_tokens"])
    facts["draft_tokens"], tensors["draft_logits"], tensors["draft_hidden"] = draft_round(
        model, assistant, torch.cat([ids, torch.tensor([facts["greedy_tokens"][:1]])], 1))
    drafter, text, facts["dflash_rounds"] = PlainDflash(path("tiny-dflash"), model), ids[0].tolist() + facts["greedy_tokens"], []
    for r, start in enumerate((ids.shape[1], ids.shape[1] + 3)):
        logits = drafter.block(text, start)
        tensors["dflash_logits_%d" % r] = logits
        facts["dflash_rounds"].append({"start": start, "tokens": logits.argmax(-1).tolist()})
    copy = dequantised(path("tiny-mlx-4bit"))
    with torch.no_grad():
        tensors["mlx4_logits"] = copy(input_ids=ids, use_cache=False).logits[0]
    facts["mlx4_greedy_tokens"], facts["mlx4_margin"] = greedy(copy, ids, MLX_GREEDY)
    pictures(model, tokenizer, options.out, tensors, facts)
    save_file({k: (v.float() if v.is_floating_point() else v).contiguous().clone() for k, v in tensors.items()},
              os.path.join(options.out, "expected.safetensors"))
    with open(os.path.join(options.out, "expected.json"), "w") as file:
        json.dump(facts, file, indent=1)
        file.write("\n")
    print(json.dumps({k: v for k, v in facts.items() if not isinstance(v, list)}, indent=1))


if __name__ == "__main__":
    main()
