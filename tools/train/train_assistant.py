"""Trains the MTP assistant on a frozen target: python3 train_assistant.py TARGET OUT --tokenizer FILE --own FILE.npz --minutes 3

Every place of a row is an anchor: its token is the newest one, the target's hidden state before it and the keys and values before
it are what the assistant may see, and DEPTH steps are unrolled from there, each fed with the state of the step before.  A step
learns the target's distribution over the next token.  The token fed to a step is the assistant's own guess: where that is the text's
token the chain lives on; where it is not, a verifier would have cut the chain, so the rest of it counts little.
Queries stand at the last key's position (p-1, this engine's way), in every fourth batch at the newest token's (p, transformers' way).
"""
import argparse
import os
import time

import torch
import transformers

import drafting
import export
import network
import tiny
from optim import Optimizer
from train_target import prefetch

DEPTH = 5
FADE, DEAD = 0.85, 0.2  # weight of each further step; of steps after a wrong guess


def new_assistant():
    model = transformers.Gemma4AssistantForCausalLM(transformers.Gemma4AssistantConfig(**tiny.assistant_config()))
    for name, p in model.named_parameters():
        if name.endswith("q_norm.weight"):
            p.data.fill_(p.numel() ** -0.25)
        elif "post_" in name and name.endswith("layernorm.weight"):
            p.data.fill_(0.35)
    for layer in model.model.layers:
        layer.compile()
    model.model.config._attn_implementation = "packed"
    return model.float()


def step(assistant, embedded, state, rotary, masks, shared):
    """One draft step of every anchor: (hidden before the head, state for the next step)."""
    x = assistant.pre_projection(torch.cat([embedded, state], -1))
    for i, layer in enumerate(assistant.model.layers):
        kind = assistant.model.config.layer_types[i]
        x = layer(x, None, shared_kv_states=shared, position_embeddings=rotary[kind], attention_mask=masks[kind], position_ids=None,
                  past_key_values=None)
    x = assistant.model.norm(x)
    return x, assistant.post_projection(x)


def masks_of(batch):
    """Keys before the anchor, of its own text."""
    text, (b, length) = batch.text, batch.tokens.shape

    def full(b, h, q, k):
        return (text[b, q] == text[b, k]) & (k < q)

    def sliding(b, h, q, k):
        return (text[b, q] == text[b, k]) & (k < q) & (q - k <= tiny.WINDOW)

    return {"full_attention": network.make_mask(full, b, None, length, length),
            "sliding_attention": network.make_mask(sliding, b, None, length, length)}


@torch.compile
def distil(x, head, hidden, target_head, labels):
    """Cross-entropy to the target's distribution, and whether the best guess is the text's token, per place."""
    logits = (x.bfloat16() @ head.bfloat16().T).float()
    teacher = network.softcap((hidden.bfloat16() @ target_head.bfloat16().T).float()).softmax(-1)
    loss = logits.logsumexp(-1) - (teacher * logits).sum(-1)
    return loss, logits.argmax(-1) == labels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("out")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--own", required=True)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--pictures", type=int, default=96)
    parser.add_argument("--workers", type=int, default=6)
    options = parser.parse_args()
    say = drafting.Log(os.path.join(options.out, "assistant.log"))
    torch.manual_seed(2)
    batches = prefetch(drafting.Rows(options.own, options.tokenizer, options.length, "assistant", options.workers), options.rows, options.pictures, "cuda")
    target = drafting.frozen_target(options.target)
    table = target.model.language_model.embed_tokens
    assistant = new_assistant().cuda().train()
    say("%.2f M parameters" % (sum(p.numel() for p in assistant.parameters()) / 1e6))
    optimizer = Optimizer(assistant)
    head = assistant.model.embed_tokens.weight
    steps, start = 0, None
    while True:
        batch = batches()
        with torch.autocast("cuda", torch.bfloat16):
            with torch.no_grad():
                hidden, shared, _ = network.run(target, batch, batch.masks())
                hidden = hidden.float()
                embedded = table(torch.where(batch.soft, 0, batch.tokens))
            masks = masks_of(batch)
            offset = 0 if steps % 4 == 3 else 1
            rotary = {kind: assistant.model.rotary_emb(hidden[..., :128], (batch.position - offset).clamp(min=0), kind) for kind in masks}
            state, alive, total, counts, lived = drafting.shifted(hidden, -1), None, 0.0, [], []
            for j in range(DEPTH):
                x, state = step(assistant, drafting.shifted(embedded, j), state, rotary, masks, shared)
                labels = drafting.shifted(batch.tokens, j + 1)
                loss, right = distil(x, head, drafting.shifted(hidden, j), table.weight, labels)
                valid = (batch.position > 0) & (drafting.shifted(batch.text, j + 1) == batch.text) & (drafting.shifted(batch.own, j + 1) > 0)
                alive = valid if alive is None else alive & valid
                weight = valid.float() * torch.where(alive, 1.0, DEAD) * FADE ** j
                total = total + (loss * weight).sum() / weight.sum().clamp(min=1)
                half = len(batch.tokens) // 2  # the target's own text: what greedy decoding will meet
                counts.append(alive[:half].sum())
                alive = alive & right
                lived.append(alive[:half].sum())
        total.backward()
        now = time.time()
        start = start or now
        progress = (now - start) / (60 * options.minutes)
        optimizer.step(min(progress, 1.0))
        steps += 1
        if steps % 50 == 0 or steps == 1 or progress >= 1:
            chances = [(a / c.clamp(min=1)).item() for a, c in zip(lived, counts)]
            say("step %4d  loss %.3f  guesses right %s  about %.2f tokens per pass at depth 4" % (
                steps, total.item(), " ".join("%.2f" % c for c in chances), 1 + sum((lived[i] / counts[0].clamp(min=1)).item() for i in range(4))))
        if progress >= 1:
            break
    export.save_drafter(assistant, os.path.join(options.out, "assistant"), tiny.assistant_config())


if __name__ == "__main__":
    main()
