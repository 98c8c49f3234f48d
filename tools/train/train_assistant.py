"""Trains the MTP assistant on a frozen target: python3 train_assistant.py TARGET OUT --tokenizer FILE --own FILE.npz --minutes 3

Every place of a row is an anchor: its token is the newest one, the target's hidden state before it and the keys and values before
it are what the assistant may see, and DEPTH steps are unrolled from there, each fed with the state of the step before.  A step
learns the target's distribution over the next token.  The token fed to a step is the assistant's own guess: where that is the text's
token the chain lives on; where it is not, a verifier would have cut the chain, so the rest of it counts little.
Queries stand at the last key's position (p-1, this engine's way), in every fourth batch at the newest token's (p, transformers' way).
"""
import torch
import transformers

import drafting
import network
import tiny

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
    training = drafting.Training("assistant", __doc__, rows=12, pictures=96, seed=2)
    target, table = training.target, training.table
    assistant = new_assistant().cuda().train()
    head = assistant.model.embed_tokens.weight

    def loss_of(batch, number):
        with torch.autocast("cuda", torch.bfloat16):
            with torch.no_grad():
                hidden, shared, _ = network.run(target, batch, batch.masks())
                hidden = hidden.float()
                embedded = table(torch.where(batch.soft, 0, batch.tokens))
            masks = masks_of(batch)
            offset = 0 if number % 4 == 3 else 1
            place = (batch.position - offset).clamp(min=0)
            rotary = {kind: assistant.model.rotary_emb(hidden, place, kind) for kind in masks}
            state, alive, total, tried, lived = drafting.shifted(hidden, -1), None, 0.0, [], []
            for j in range(DEPTH):
                x, state = step(assistant, drafting.shifted(embedded, j), state, rotary, masks, shared)
                labels = drafting.shifted(batch.tokens, j + 1)
                loss, right = distil(x, head, drafting.shifted(hidden, j), table.weight, labels)
                valid = (batch.position > 0) & (drafting.shifted(batch.text, j + 1) == batch.text) & (drafting.shifted(batch.own, j + 1) > 0)
                alive = valid if alive is None else alive & valid
                weight = valid.float() * torch.where(alive, 1.0, DEAD) * FADE ** j
                total = total + (loss * weight).sum() / weight.sum().clamp(min=1)
                half = len(batch.tokens) // 2  # the target's own text: what greedy decoding will meet
                tried.append(alive[:half].sum())
                alive = alive & right
                lived.append(alive[:half].sum())

        def report():
            chances = " ".join("%.2f" % (a / t.clamp(min=1)).item() for a, t in zip(lived, tried))
            brought = 1 + sum((a / tried[0].clamp(min=1)).item() for a in lived[:4])
            return "guesses right %s  about %.2f tokens per pass at depth 4" % (chances, brought)

        return total, report

    training.run(assistant, loss_of, tiny.assistant_config())


if __name__ == "__main__":
    main()
