"""What the target itself writes, greedily, as rows to train drafters on: python3 self_text.py TARGET OUT.npz --tokenizer FILE

A drafter is judged against the target's own text, which greedily decoded differs from the text the target learned from.
Thousands of texts advance together, one column at a time: prompts are fed and answers written by the same step, so there is no
padding and every text stands at the same position.
"""
import argparse
import random
import time

import numpy
import torch
from transformers.models.gemma4.modeling_gemma4 import apply_rotary_pos_emb

import generation
import make_data
import network
import stream
import tiny


def prompts(tokenizer, count, seed, longest=384):
    """Prompts of the training side without pictures; plain prose is cut after a few words."""
    rng, out = random.Random(seed), []
    for name, example in make_data.examples(rng.randrange(1 << 30), "train", 0):
        row = make_data.record(name, example, "eval")
        if row.get("images"):
            continue
        ids = tokenizer.encode(row["text"][:row["prompt"]])
        if example.turns[0]["role"] == "text":
            ids = tokenizer.encode(row["text"])[:rng.randint(4, 24)]
        if len(ids) <= longest:
            out.append(ids)
        if len(out) == count:
            return out


class Columns:
    """The target with caches [texts, kv heads, length, head] that grow by one column a step."""

    def __init__(self, model, texts, length):
        self.text = model.model.language_model
        self.kinds = self.text.config.layer_types
        self.caches = []
        for layer in self.text.layers:
            size = layer.self_attn.head_dim
            heads = layer.self_attn.k_proj.out_features // size
            self.caches.append(torch.zeros(2, texts, heads, length, size, dtype=torch.bfloat16, device="cuda"))

    def attend(self, i, x, t, rotary):
        a, (keys, values) = self.text.layers[i].self_attn, self.caches[i]
        split = lambda y: y.view(len(x), 1, -1, a.head_dim)
        q = apply_rotary_pos_emb(a.q_norm(split(a.q_proj(x))), *rotary, unsqueeze_dim=2)
        k = split(a.k_proj(x))
        v = a.v_norm(split(a.v_proj(x)) if a.v_proj is not None else k)
        k = apply_rotary_pos_emb(a.k_norm(k), *rotary, unsqueeze_dim=2)
        keys[:, :, t], values[:, :, t] = k[:, 0], v[:, 0]
        first = max(0, t + 1 - tiny.WINDOW) if a.is_sliding else 0
        q = q.view(len(x), keys.shape[1], -1, a.head_dim)
        weights = (q @ keys[:, :, first:t + 1].mT).float().softmax(-1).to(values.dtype)
        return a.o_proj((weights @ values[:, :, first:t + 1]).reshape(len(x), 1, -1))

    def step(self, tokens, t):
        """Logits (before the softcap, which changes no order) of the tokens that follow `tokens` at column t."""
        x = self.text.embed_tokens(tokens[:, None])
        place = torch.full((1, 1), t, device="cuda")
        rotary = {kind: self.text.rotary_emb(x, place, kind) for kind in set(self.kinds)}
        for i, layer in enumerate(self.text.layers):
            x = x + layer.post_attention_layernorm(self.attend(i, layer.input_layernorm(x), t, rotary[self.kinds[i]]))
            x = x + layer.post_feedforward_layernorm(layer.mlp(layer.pre_feedforward_layernorm(x)))
            x = x * layer.layer_scalar
        return self.text.norm(x)[:, 0].float() @ self.text.embed_tokens.weight.float().T


@torch.inference_mode()
def write(model, given, length):
    """Every prompt continued to a stop token or to `length` tokens in all."""
    columns = Columns(model, len(given), length)
    tokens = torch.zeros(len(given), length, dtype=torch.long)
    for i, ids in enumerate(given):
        tokens[i, :len(ids)] = torch.tensor(ids)
    tokens = tokens.cuda()
    known = torch.tensor([len(ids) for ids in given], device="cuda")
    stops = torch.tensor(tiny.STOPS, device="cuda")
    done = torch.zeros(len(given), dtype=torch.bool, device="cuda")
    for t in range(length - 1):
        logits = columns.step(tokens[:, t], t)
        logits[:, tiny.SUPPRESSED] = -1e9
        picked = torch.where(done, 0, logits.argmax(-1))
        writes = t + 1 >= known
        tokens[:, t + 1] = torch.where(writes, picked, tokens[:, t + 1])
        done |= writes & torch.isin(picked, stops)
        if t % 32 == 0 and bool(done.all()):
            break
    out = []
    for ids, row in zip(given, tokens.tolist()):
        end = next((k for k in range(len(ids), length) if row[k] in tiny.STOPS), length - 1)
        out.append(row[len(ids):end + 1])
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("out")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--prompts", type=int, default=24576)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--most", type=int, default=640, help="tokens of a prompt and its answer")
    parser.add_argument("--length", type=int, default=4096)
    options = parser.parse_args()
    begin = time.time()
    tokenizer = generation.load_tokenizer(options.tokenizer)
    model = network.load_target(options.target, torch.bfloat16).cuda().eval()
    asked = prompts(tokenizer, options.prompts, "self")
    written = []
    for at in range(0, len(asked), options.batch):
        written += write(model, asked[at:at + options.batch], options.most)
    texts = [(p + w, [0] * len(p) + [1] * len(w), []) for p, w in zip(asked, written)]
    random.Random(1).shuffle(texts)
    packed = list(stream.rows(texts, options.length))
    numpy.savez(options.out, tokens=numpy.stack([r[0] for r in packed]), own=numpy.stack([r[1] for r in packed]))
    print("%d texts, %.2f M own tokens, %d rows, %.0f s" % (len(texts), sum(map(len, written)) / 1e6, len(packed), time.time() - begin))
    for ids in written[:3]:
        print(tokenizer.decode(ids))


if __name__ == "__main__":
    main()
