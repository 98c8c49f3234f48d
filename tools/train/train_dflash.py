"""Trains the DFlash drafter on a frozen target: python3 train_dflash.py TARGET OUT --tokenizer FILE --own FILE.npz --minutes 3

From every row some places are drawn as anchors.  A block is the anchor's token and BLOCK - 1 masks; it sees the target's tapped states
before the anchor and itself, and every masked place learns the text's token there.  Nearer places weigh more, because a wrong
guess makes the later ones worthless.
"""
import torch
import torch.nn.functional as F

import dflash
import drafting
import network
import tiny

ANCHORS = 128  # of a row
FADE = 0.8
MASK = tiny.ID["<mask>"]


def pick_anchors(batch, most):
    """[b, ANCHORS] places whose next token the model wrote itself; fewer where a row has few (then they repeat)."""
    fit = (batch.position > 0) & (drafting.shifted(batch.text, 1) == batch.text) & (drafting.shifted(batch.own, 1) > 0)
    return torch.multinomial(fit.float() + 1e-9, most, replacement=True)


def blocks(batch, anchors):
    """Tokens, positions, labels and label weights of the blocks, [b, ANCHORS * BLOCK]."""
    b, length = batch.tokens.shape
    at = anchors[..., None] + torch.arange(dflash.BLOCK, device=anchors.device)
    inside = at.clamp(max=length - 1).flatten(1)
    labels = batch.tokens.gather(1, inside)
    first = torch.arange(at[0].numel(), device=anchors.device) % dflash.BLOCK
    tokens = torch.where(first == 0, labels, MASK)
    start = batch.position.gather(1, anchors)
    position = (start[..., None] + torch.arange(dflash.BLOCK, device=anchors.device)).flatten(1)
    same = (batch.text.gather(1, inside) == batch.text.gather(1, anchors).repeat_interleave(dflash.BLOCK, 1)) & (at.flatten(1) < length)
    valid = same & (batch.own.gather(1, inside) > 0) & (first > 0)
    return tokens, position, labels, valid, first


def mask_of(batch, anchors):
    text, (b, length) = batch.text, batch.tokens.shape
    owner = batch.text.gather(1, anchors)

    def see(b, h, q, k):
        anchor = q // dflash.BLOCK
        place = torch.clamp(k, max=length - 1)
        context = (k < anchors[b, anchor]) & (text[b, place] == owner[b, anchor]) & (k < length)
        own = (k >= length) & ((k - length) // dflash.BLOCK == anchor)
        return context | own

    return network.make_mask(see, b, None, anchors.shape[1] * dflash.BLOCK, length + anchors.shape[1] * dflash.BLOCK)


@torch.compile
def guess(x, head, labels):
    """The loss at every place, and whether the best guess is right."""
    logits = network.softcap((x.bfloat16() @ head.bfloat16().T).float())
    each = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels)
    return each, logits.argmax(-1) == labels


def main():
    training = drafting.Training("dflash", __doc__, rows=24, pictures=192, seed=3)
    target, table = training.target, training.table
    drafter = dflash.Dflash().cuda().train()
    for layer in drafter.layers:
        layer.compile()

    def loss_of(batch, number):
        anchors = pick_anchors(batch, ANCHORS)
        tokens, position, labels, valid, place = blocks(batch, anchors)
        with torch.autocast("cuda", torch.bfloat16):
            with torch.no_grad():
                _, _, taps = network.run(target, batch, batch.masks(), dflash.TAPS)
                embedded = table(tokens)
            out = drafter(embedded, position, taps, batch.position, mask_of(batch, anchors))
            each, right = guess(out, table.weight, labels)
        weight = valid * FADE ** (place - 1).clamp(min=0)

        def report():
            half = len(tokens) // 2  # the target's own text
            live = (right & valid)[:half].unflatten(1, (-1, dflash.BLOCK))[..., 1:].long().cumprod(-1).float()
            some = valid[:half].unflatten(1, (-1, dflash.BLOCK))[..., 1].float()
            reach = [((live[..., i] * some).sum() / some.sum().clamp(min=1)).item() for i in range(dflash.BLOCK - 1)]
            return "reached %s  about %.2f tokens per pass" % (" ".join("%.2f" % r for r in reach), 1 + sum(reach))

        return (each * weight).sum() / weight.sum().clamp(min=1), report

    training.run(drafter, loss_of, tiny.dflash_config())


if __name__ == "__main__":
    main()
