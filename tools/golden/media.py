#!/usr/bin/env python3
"""Golden cases for large and odd media: miniature checkpoints whose position tables have room for every budget, and what
transformers computes with them in float32.  tests/golden/README.md lists what is in them.

    python3 tools/golden/media.py OUT [--seed N]

Large tensors are kept as samples: every k-th row, which rows in NAME_rows.  Pixels are kept as the SHA-256 of their 8-bit values
(patches in order, without padding) and some rows.  The seed of the project's cases is 91.
"""
import argparse
import hashlib
import os

import torch
from PIL import Image, ImageOps

import inputs
import models
import reference

CASES = {
    "e2b": models.Shape(vocab=320, window=12, layers=8, shared=4, period=4, prompt=40, patches=512),
    "dense": models.Shape(vocab=320, window=96, layers=6, period=6, prompt=48, patches=512),
    "unified": models.Shape(vocab=288, window=80, layers=6, period=6, prompt=44, patches=512),
}
SHOTS = {"photo": (640, 427), "tall": (250, 700), "strip": (2000, 30)}
SOUNDS = {"speech": 3.37, "long": 29.9}
BUDGETS, DRAFTED_BUDGET, FRAMES, GREEDY, DRAFTS = (70, 140, 280, 560, 1120), 280, 5, 12, 4


def note_pixels(record, name, batch):
    levels = (inputs.unpadded(batch)[0] * 255).round().to(torch.uint8)
    step = max(1, levels.shape[0] // 12)
    record.facts[name + "_sha256"] = hashlib.sha256(levels.numpy().tobytes()).hexdigest()
    record.facts[name + "_patches"] = list(levels.shape)
    record.tensors[name + "_u8"], record.tensors[name + "_u8_rows"] = levels[::step], torch.arange(0, levels.shape[0], step)


def features(target, batch):
    return reference.picture_features(target, *inputs.pixels_of(batch).values())


def photo_at(record, name, budget, shot, target, assistant, shape, ids, numbers):
    """The photo at one budget: pixels, features, logits, and at one of them a greedy text and drafts behind the picture."""
    key, batch = f"photo{budget}", inputs.patches(name, budget, [shot])
    pixels, count = inputs.pixels_of(batch), int(batch["num_soft_tokens_per_image"][0])
    note_pixels(record, key + "_pixels", batch)
    record.sample(key + "_features", features(target, batch))
    whole = torch.cat([ids[:, :9], inputs.picture_span(count), models.words(shape, numbers, 6)], 1)
    kind = (whole == models.IMAGE).long()
    record.tensors[key + "_ids"] = whole[0]
    record.sample(key + "_logits", reference.run(target, whole, kind, **pixels))
    if budget != DRAFTED_BUDGET:
        return
    tokens, margin = reference.greedy(target, whole, GREEDY, kind, **pixels)
    chosen = torch.cat([whole, models.row(tokens[0])], 1)
    drafted, logits, _ = reference.draft_round(target, assistant, chosen, DRAFTS, kind, **pixels)
    record.facts.update({key + "_greedy": tokens, key + "_margin": margin, key + "_draft": drafted})
    record.tensors[key + "_draft_logits"] = logits


def two_pictures(record, name, shots, target, shape, ids, numbers):
    """Pictures of different shape behind each other, nothing between their spans."""
    batch = inputs.patches(name, 140, [shots["tall"], shots["photo"]])
    counts = [int(count) for count in batch["num_soft_tokens_per_image"]]
    whole = torch.cat([ids[:, :7], *map(inputs.picture_span, counts), models.words(shape, numbers, 5)], 1)
    record.facts["two_soft_tokens"], record.tensors["two_ids"] = counts, whole[0]
    record.sample("two_logits", reference.run(target, whole, (whole == models.IMAGE).long(), **inputs.pixels_of(batch)))


def strip(record, name, shot, target):
    """A picture so long that one side is a single block."""
    batch = inputs.patches(name, 70, [shot])
    record.facts["strip_soft_tokens"] = int(batch["num_soft_tokens_per_image"][0])
    note_pixels(record, "strip_pixels", batch)
    record.sample("strip_features", features(target, batch))


def files_of_all_kinds(record, name, seed):
    """A picture in the formats that people have; pixels only."""
    source, turned = inputs.photo((300, 200), seed), Image.Exif()
    turned[0x0112] = 6  # the camera was held upright
    source.save(record.path("turned.jpg"), quality=88, exif=turned.tobytes())
    source.save(record.path("full.jpg"), quality=95, subsampling=0, progressive=True)
    source.convert("L").save(record.path("grey.jpg"), quality=90)
    source.convert("CMYK").save(record.path("cmyk.jpg"), quality=90)
    source.quantize(40).save(record.path("palette.png"))
    source.save(record.path("lossless.webp"), lossless=True)
    source.save(record.path("lossy.webp"), quality=80)
    for file in ("turned.jpg", "full.jpg", "grey.jpg", "cmyk.jpg", "palette.png", "lossless.webp", "lossy.webp"):
        image = ImageOps.exif_transpose(Image.open(record.path(file))).convert("RGB")
        note_pixels(record, "file_" + file.replace(".", "_"), inputs.patches(name, 70, [image]))


def pictures(record, name, target, assistant, shape, ids, numbers, seed):
    shots = {shot: inputs.photo(size, seed + place) for place, (shot, size) in enumerate(SHOTS.items())}
    for shot, image in shots.items():
        image.save(record.path(shot + ".png"), optimize=True)
    for budget in BUDGETS:
        photo_at(record, name, budget, shots["photo"], target, assistant, shape, ids, numbers)
    two_pictures(record, name, shots, target, shape, ids, numbers)
    strip(record, name, shots["strip"], target)
    if name == "dense":
        files_of_all_kinds(record, name, seed + 5)


def clip(record, name, target, ids, seed):
    batch = inputs.patches(name, 70, inputs.frames(record.folder, FRAMES, (200, 130), seed + 20, optimize=True))
    count = int(batch["num_soft_tokens_per_image"][0])
    whole = inputs.clip_prompt(ids, range(5, 5 + FRAMES), 2, count)
    record.facts["video_soft_tokens_per_frame"], record.tensors["video_ids"] = count, whole[0]
    record.sample("video_logits", reference.run(target, whole, (whole == models.VIDEO).long() * 2, **inputs.clip_of(batch)))


def sounds(record, name, target, ids, seed):
    for key, seconds in SOUNDS.items():
        heard = inputs.spectrum(name, inputs.sound(record.path(key + ".wav"), seconds, seed + len(key)))
        mel, mask = heard["input_features"].float(), heard["input_features_mask"]
        soft = reference.sound_features(target, mel, mask)
        whole = torch.cat([ids[:, :5], inputs.sound_span(soft.shape[0]), ids[:, 5:9]], 1)
        record.facts[key + "_soft_tokens"], record.tensors[key + "_ids"] = soft.shape[0], whole[0]
        if name != "unified":
            record.sample(key + "_mel", mel[0][mask[0].bool()])
        record.sample(key + "_features", soft)
        record.sample(key + "_logits", reference.run(target, whole, input_features=mel, input_features_mask=mask))


def make(out, name, shape, seed):
    target, assistant, ids, numbers = models.draw(name, shape, seed)
    record = inputs.Record(os.path.join(out, name), seed, shape, ids)
    models.save_checkpoint(target, record.path("target"))
    models.save_checkpoint(assistant, record.path("assistant"))
    pictures(record, name, target, assistant, shape, ids, numbers, seed)
    clip(record, name, target, ids, seed)
    if name != "dense":
        sounds(record, name, target, ids, seed)
    record.save()
    print(f"{name}: seed {seed}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT", help="folder for the cases")
    parser.add_argument("--seed", type=int, default=91)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_num_threads(8)
    for place, (name, shape) in enumerate(CASES.items()):
        make(options.out, name, shape, options.seed * 100 + place)


if __name__ == "__main__":
    main()
