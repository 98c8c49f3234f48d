"""Pictures, sounds and prompts for the golden cases, and where their results are kept."""
import json
import os
import wave

import numpy as np
import torch
import transformers as T
from PIL import Image
from safetensors.torch import save_file

import models

RATE = 16000  # samples a second


class Record:
    """What one case holds beside its checkpoints: tensors, figures and files of one folder."""

    def __init__(self, folder, seed, shape, ids):
        os.makedirs(folder, exist_ok=True)
        self.folder, self.tensors = folder, {"prompt_ids": ids[0]}
        self.facts = {"seed": seed, "vocab": shape.vocab, "transformers": T.__version__}

    def path(self, name):
        return os.path.join(self.folder, name)

    def sample(self, name, values, most=48):
        """Every k-th row and the last; NAME_rows says which."""
        step = max(1, values.shape[0] // most)
        rows = sorted(set(range(0, values.shape[0], step)) | {values.shape[0] - 1})
        self.tensors[name], self.tensors[name + "_rows"] = values[rows].float(), torch.tensor(rows)

    def save(self):
        tensors = {name: values.contiguous().cpu().clone() for name, values in self.tensors.items()}
        save_file(tensors, self.path("expected.safetensors"))
        with open(self.path("expected.json"), "w") as file:
            json.dump(self.facts, file, indent=1)


def picture(size, seed):
    """A gradient with four discs on it."""
    width, height = size
    numbers = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    pixels = np.stack([x * 255 // width, y * 255 // height, (x + y) * 255 // (width + height)], -1).astype(np.uint8)
    for _ in range(4):
        middle_x, middle_y, radius = numbers.integers(0, width), numbers.integers(0, height), numbers.integers(8, 40)
        pixels[(x - middle_x) ** 2 + (y - middle_y) ** 2 < radius * radius] = numbers.integers(0, 255, 3)
    return Image.fromarray(pixels)


def photo(size, seed):
    """A picture with hard edges and a fine grid, so that resampling shows."""
    pixels = np.array(picture(size, seed))
    y, x = np.mgrid[0:size[1], 0:size[0]]
    pixels[::7, ::5] = 255 - pixels[::7, ::5]
    pixels[(x // 9 + y // 13) % 11 == 0] //= 2
    return Image.fromarray(pixels)


def frames(folder, count, size, seed, **options):
    """The frames of a clip, also as files frame0.png, frame1.png, ..."""
    made = [picture(size, seed + frame) for frame in range(count)]
    for frame, image in enumerate(made):
        image.save(os.path.join(folder, f"frame{frame}.png"), **options)
    return made


def chirp(seconds, numbers):
    """A rising tone with noise, as floats."""
    t = np.arange(int(RATE * seconds)) / RATE
    return (0.4 * np.sin(2 * np.pi * (200 + 300 * t) * t) + 0.05 * numbers.standard_normal(t.size)).astype(np.float32)


def sound(path, seconds, seed):
    """Gliding tones and pauses, written as 16-bit samples and given as floats."""
    t = np.arange(int(RATE * seconds)) / RATE
    numbers = np.random.default_rng(seed)
    tones = np.sin(2 * np.pi * (180 + 90 * np.sin(0.7 * t)) * t) + 0.5 * np.sin(2 * np.pi * 950 * t) * (np.sin(3 * t) > 0)
    tones = tones * (np.sin(1.3 * t + 1) > -0.7) + 0.02 * numbers.integers(-8, 9, t.size) / 8
    samples = np.clip(tones * 9000, -32768, 32767).astype(np.int16)
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    return (samples / 32768.0).astype(np.float32)


def patches(name, budget, images):
    """Images as the processor cuts them: pixel_values, image_position_ids, num_soft_tokens_per_image."""
    kind = T.Gemma4UnifiedImageProcessor if name == "unified" else T.Gemma4ImageProcessor
    return kind(max_soft_tokens=budget)(images=images, return_tensors="pt")


def pixels_of(batch):
    """Arguments of the model for all pictures of a batch."""
    return dict(pixel_values=batch["pixel_values"].float(), image_position_ids=batch["image_position_ids"])


def clip_of(batch):
    return dict(pixel_values_videos=batch["pixel_values"][None].float(), video_position_ids=batch["image_position_ids"][None])


def unpadded(batch, index=0):
    """Patches and positions of one picture without the padding."""
    real = (batch["image_position_ids"][index] != -1).all(-1)
    return batch["pixel_values"][index][real].float(), batch["image_position_ids"][index][real]


def spectrum(name, samples):
    kind = T.Gemma4UnifiedAudioFeatureExtractor if name == "unified" else T.Gemma4AudioFeatureExtractor
    return kind()([samples], sampling_rate=RATE, return_tensors="pt")


def picture_span(count):
    return models.row(models.BOI, *[models.IMAGE] * count, models.EOI)


def sound_span(count):
    return models.row(models.BOA, *[models.AUDIO] * count, models.EOA)


def clip_prompt(ids, starts, words, soft_tokens):
    """Frames behind each other, each its own span, with a few words before each."""
    parts = [ids[:, :4]]
    for start in starts:
        parts += [ids[:, start:start + words], models.row(models.BOI, *[models.VIDEO] * soft_tokens, models.EOI)]
    return torch.cat(parts + [ids[:, 12:17]], 1)
