"""Endless training rows: worker processes write texts, tokenise them and pack them into rows of a fixed length.

A row is (tokens uint16 [T], own uint8 [T], pictures float32 [n, 21]).  `own` is 1 where the token is one the model itself must
write; a text starts at its <bos>, the end of a row is filled with <pad>.  A picture is background, then four shapes of
(kind, colour, x, y, radius), kind -1 for none; pictures come in the order of their soft tokens.
"""
import itertools
import json
import multiprocessing
import random

import numpy

import make_data
import scenes
import tiny
from train_tokenizer import SPECIAL_PATTERN, Tokenizer

MARKERS = {"<|image|>": tiny.ID["<|image|>"], "<|video|>": tiny.ID["<|video|>"]}
FRAMES_PER_SECOND = 1
MOST_SHAPES = 4
PICTURE = 1 + 5 * MOST_SHAPES


def picture(scene, frame):
    part = frame / (scene["frames"] - 1) if scene["frames"] > 1 else 0.0
    out = [list(scenes.BACKGROUNDS).index(scene["background"])]
    for s in scene["shapes"]:
        out += [scenes.SHAPES.index(s["shape"]), list(scenes.RGB).index(s["colour"]), s["x"] + part * s.get("dx", 0),
                s["y"] + part * s.get("dy", 0), scenes.RADIUS[s["size"]]]
    return out + [-1, 0, 0, 0, 0] * (MOST_SHAPES - len(scene["shapes"]))


def expand(tokenizer, text, images):
    """The ids of a piece of text with pictures and clips as soft tokens; takes scenes off `images`, gives back pictures."""
    ids, pictures, at = [], [], 0
    for marker in [m for m in SPECIAL_PATTERN.finditer(text) if m.group() in MARKERS] + [None]:
        ids += tokenizer.encode(text[at:marker.start() if marker else len(text)])
        if not marker:
            break
        at, scene, soft = marker.end(), images.pop(0), MARKERS[marker.group()]
        for frame in range(scene["frames"]):
            if marker.group() == "<|video|>":
                second = frame // FRAMES_PER_SECOND
                ids += tokenizer.encode("%s%02d:%02d " % (" " if frame else "", second // 60, second % 60))
            ids += [tiny.ID["<|image>"]] + [soft] * tiny.SOFT_TOKENS + [tiny.ID["<image|>"]]
            pictures.append(picture(scene, frame))
    return ids, pictures


def encode(tokenizer, text, spans, images):
    """(ids, own, pictures) of one text.  Spans begin and end where no token crosses, so pieces are encoded alone."""
    ids, own, pictures, at, images = [], [], [], 0, list(images)
    for begin, end in [*spans, (len(text), len(text))]:
        for piece, flag in ((text[at:begin], 0), (text[begin:end], 1)):
            if piece:
                more, seen = expand(tokenizer, piece, images)
                ids += more
                own += [flag] * len(more)
                pictures += seen
        at = end
    return ids, own, pictures


def texts(tokenizer, seed, only=None):
    rng = random.Random(seed)
    for name, example in make_data.examples(rng.randrange(1 << 30), "train", 0, only):
        row = make_data.record(name, example, "train")
        yield encode(tokenizer, row["text"], row["spans"], row.get("images", ()))


def rows(source, length, waiting=24):
    """Packs texts into rows, from a few waiting ones; a nearly full row takes the longest that fits."""
    source, pool = iter(source), []
    while True:
        left, ids, own, pictures = length, [], [], []
        while True:
            pool += [t for t in itertools.islice(source, waiting - len(pool)) if len(t[0]) <= length]
            fits = [i for i, t in enumerate(pool) if len(t[0]) <= left]
            if not fits:
                break
            text = pool.pop(max(fits, key=lambda i: len(pool[i][0])) if left < 600 else fits[0])
            ids += text[0]
            own += text[1]
            pictures += text[2]
            left -= len(text[0])
        if not ids:
            return
        yield (numpy.array(ids + [0] * left, numpy.uint16), numpy.array(own + [0] * left, numpy.uint8),
               numpy.array(pictures, numpy.float32).reshape(-1, PICTURE))


def _work(queue, tokenizer_path, seed, length, only):
    with open(tokenizer_path, encoding="utf-8") as file:
        tokenizer = Tokenizer(json.load(file))
    packed = rows(texts(tokenizer, seed, only), length)
    while True:
        queue.put([next(packed) for _ in range(8)])


class Stream:
    """Rows from `workers` processes; `next_batch` gives `count` rows with at most `most_pictures` pictures in all."""

    def __init__(self, tokenizer_path, length, seed, workers, only=None):
        context = multiprocessing.get_context("fork")
        self.queue = context.Queue(maxsize=64)
        self.workers = [context.Process(target=_work, args=(self.queue, tokenizer_path, "%s/%d" % (seed, i), length, only), daemon=True)
                        for i in range(workers)]
        for w in self.workers:
            w.start()
        self.pending = []

    def next_batch(self, count, most_pictures):
        batch, left, held = [], most_pictures, []
        while len(batch) < count:
            row = self.pending.pop() if self.pending else None
            if row is None:
                self.pending = self.queue.get()
                continue
            if len(row[2]) <= left:
                batch.append(row)
                left -= len(row[2])
            else:
                held.append(row)
        self.pending += held
        return batch

    def stop(self):
        for w in self.workers:
            w.terminate()
