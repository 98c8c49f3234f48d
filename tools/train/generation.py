"""Text written by the target through transformers' generate(), many prompts at a time."""
import json

import numpy
import torch

import drawing
import stream
import tiny
from train_tokenizer import Tokenizer

VISIBLE_END = ("<turn|>", "<|tool_response>", "<eos>")


def load_tokenizer(path):
    with open(path, encoding="utf-8") as file:
        return Tokenizer(json.load(file))


def prompt_of(tokenizer, row):
    """(ids, pictures) of an evaluation line's prompt."""
    return stream.expand(tokenizer, row["text"][:row["prompt"]], list(row.get("images", ())))


def answer_of(text):
    """What is judged: no thoughts, no stop token at the end."""
    text = text.rsplit("<channel|>", 1)[-1]
    for end in VISIBLE_END:
        text = text.removesuffix(end)
    return text


def _inputs(prompts, device):
    """Left-padded ids with masks; pictures in the order of their soft tokens, stills and frames apart."""
    longest = max(len(ids) for ids, _ in prompts)
    ids = torch.zeros(len(prompts), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, (p, _) in enumerate(prompts):
        ids[i, longest - len(p):] = torch.tensor(p)
        mask[i, longest - len(p):] = 1
    image, video = tiny.ID["<|image|>"], tiny.ID["<|video|>"]
    inputs = {"input_ids": ids.to(device), "attention_mask": mask.to(device),
              "mm_token_type_ids": ((ids == image).long() + 2 * (ids == video).long()).to(device)}
    stills = [x for p, pictures in prompts if image in p for x in pictures]
    frames = [x for p, pictures in prompts if video in p for x in pictures]
    if stills:
        pixels, places = drawing.patches(drawing.draw(torch.tensor(numpy.array(stills), dtype=torch.float32, device=device)))
        inputs.update(pixel_values=pixels, image_position_ids=places)
    if frames:
        pixels, places = drawing.patches(drawing.draw(torch.tensor(numpy.array(frames), dtype=torch.float32, device=device)))
        inputs.update(pixel_values_videos=pixels[:, None], video_position_ids=places[:, None])
    return inputs


@torch.inference_mode()
def write(model, prompts, most=256, batch=512, sample=False):
    """The new ids of every prompt, cut after the stop token.  Prompts: (ids, pictures); a text has stills or clips, not both."""
    out = [None] * len(prompts)
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i][0]))
    choice = dict(do_sample=True, temperature=1.0, top_k=64, top_p=0.95) if sample else dict(do_sample=False)
    for at in range(0, len(order), batch):
        part = order[at:at + batch]
        inputs = _inputs([prompts[i] for i in part], model.device)
        new = model.generate(**inputs, max_new_tokens=most, eos_token_id=tiny.STOPS, pad_token_id=0, suppress_tokens=tiny.SUPPRESSED,
                             **choice)[:, inputs["input_ids"].shape[1]:].tolist()
        for i, ids in zip(part, new):
            end = next((k for k, t in enumerate(ids) if t in tiny.STOPS), len(ids) - 1)
            out[i] = ids[:end + 1]
    return out
