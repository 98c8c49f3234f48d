"""Pictures and clips of coloured shapes: what is in them, and their pixels in plain Python.

A scene is {"background", "shapes": [{shape, colour, size, x, y, dx, dy}], "frames"}; x, y are the centre and
dx, dy the motion over the whole clip, all in parts of the width.  Frames of a still picture: 1.
"""
import math

import world

RGB = {"red": (214, 40, 40), "blue": (38, 84, 214), "green": (42, 157, 60), "yellow": (245, 208, 40), "orange": (242, 132, 30),
       "purple": (126, 48, 168), "white": (250, 250, 250), "black": (16, 16, 16), "pink": (246, 140, 190), "brown": (124, 76, 40)}
COLOURS = ["red", "blue", "green", "yellow", "orange", "purple", "black", "pink"]
BACKGROUNDS = {"white": (250, 250, 250), "grey": (190, 190, 190)}
SHAPES = ["circle", "square", "triangle", "star"]
RADIUS = {"small": 0.09, "large": 0.155}
CELLS = [(cx, cy) for cy in range(3) for cx in range(3)]
_ROW, _COLUMN = ("top", "middle", "bottom"), ("left", "middle", "right")
MOTIONS = {"to the right": (1, 0), "to the left": (-1, 0), "up": (0, -1), "down": (0, 1)}


def cell_name(cx, cy):
    """'top left', 'middle', 'bottom' ... of the picture."""
    if (cx, cy) == (1, 1):
        return "middle"
    return " ".join(x for x in (_ROW[cy] if cy != 1 else "", _COLUMN[cx] if cx != 1 else "") if x)


def in_cell(cx, cy):
    where = cell_name(cx, cy)
    return ("in the " if where == "middle" or " " in where else "at the " if where in ("top", "bottom") else "on the ") + where


def still(rng, side, low=1, high=4):
    """A picture with one shape per cell; (colour shape, place) pairs obey the split."""
    shapes = []
    for cx, cy in rng.sample(CELLS, rng.randint(low, high)):
        while True:
            colour, shape = rng.choice(COLOURS), rng.choice(SHAPES)
            if world.allowed(side, colour + " " + shape, cell_name(cx, cy)):
                break
        shapes.append({"shape": shape, "colour": colour, "size": rng.choice(("small", "large")), "cell": [cx, cy],
                       "x": round((cx + 0.5) / 3 + rng.uniform(-0.01, 0.01), 3), "y": round((cy + 0.5) / 3 + rng.uniform(-0.01, 0.01), 3)})
    shapes.sort(key=lambda s: (s["cell"][1], s["cell"][0]))
    return {"background": rng.choice(list(BACKGROUNDS)), "shapes": shapes, "frames": 1}


def clip(rng, side):
    """One or two shapes; each moves along its own row or column, or stays."""
    count = rng.choice((1, 1, 2))
    shapes = []
    for lane in rng.sample((0.25, 0.75), count):
        while True:
            colour, shape = rng.choice(COLOURS), rng.choice(SHAPES)
            motion = rng.choice(list(MOTIONS) + ["stays"]) if count == 1 else rng.choice(("to the right", "to the left", "stays"))
            if world.allowed(side, colour + " " + shape, motion) and (colour, shape) not in [(s["colour"], s["shape"]) for s in shapes]:
                break
        dx, dy = MOTIONS.get(motion, (0, 0))
        x, y = (0.5, lane) if dy == 0 else (lane, 0.5)
        far = rng.uniform(0.45, 0.6)
        shapes.append({"shape": shape, "colour": colour, "size": rng.choice(("small", "large")), "motion": motion,
                       "x": round(x - dx * far / 2, 3), "y": round(y - dy * far / 2, 3), "dx": round(dx * far, 3), "dy": round(dy * far, 3)})
    shapes.sort(key=lambda s: s["y"])
    return {"background": rng.choice(list(BACKGROUNDS)), "shapes": shapes, "frames": rng.choice((4, 6, 8))}


def _corners(shape, x, y, r):
    if shape == "square":
        return [(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)]
    if shape == "triangle":
        return [(x, y - r), (x + r, y + r), (x - r, y + r)]
    return [(x + (r if i % 2 == 0 else r * 0.42) * math.sin(i * math.pi / 5), y - (r if i % 2 == 0 else r * 0.42) * math.cos(i * math.pi / 5))
            for i in range(10)]


def _spans(shape, x, y, r, line):
    """The parts [from, to) of one pixel line that a shape covers, in pixels."""
    if shape == "circle":
        d = r * r - (line - y) ** 2
        return [(x - math.sqrt(d), x + math.sqrt(d))] if d > 0 else []
    corners, hits = _corners(shape, x, y, r), []
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1]):
        if (y0 <= line) != (y1 <= line):
            hits.append(x0 + (line - y0) * (x1 - x0) / (y1 - y0))
    hits.sort()
    return list(zip(hits[::2], hits[1::2]))


def render(scene, frame=0, pixels=96):
    """One frame as `pixels` rows of 3 * pixels RGB bytes."""
    part = frame / (scene["frames"] - 1) if scene["frames"] > 1 else 0.0
    rows = [bytearray(bytes(BACKGROUNDS[scene["background"]]) * pixels) for _ in range(pixels)]
    for s in scene["shapes"]:
        x, y = (s["x"] + part * s.get("dx", 0)) * pixels, (s["y"] + part * s.get("dy", 0)) * pixels
        r, rgb = RADIUS[s["size"]] * pixels, bytes(RGB[s["colour"]])
        for line in range(max(0, int(y - r)), min(pixels, int(y + r) + 2)):
            for begin, end in _spans(s["shape"], x, y, r, line + 0.5):
                begin, end = max(0, round(begin)), min(pixels, round(end))
                if end > begin:
                    rows[line][3 * begin:3 * end] = rgb * (end - begin)
    return [bytes(row) for row in rows]


def ppm(scene, frame=0, pixels=96):
    """The frame as a PPM file, to look at."""
    return b"P6\n%d %d\n255\n" % (pixels, pixels) + b"".join(render(scene, frame, pixels))
