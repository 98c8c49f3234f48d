"""Pictures of coloured shapes: descriptions and questions (what, which colour, how many, where)."""
import scenes
from example import Example, model, user
from grammar import a, cap, count_word, listing


def name(s, size=False):
    return (s["size"] + " " if size else "") + s["colour"] + " " + s["shape"]


def where(s):
    return scenes.in_cell(*s["cell"])


def describe(rng, scene):
    size = rng.random() < 0.6
    question = rng.choice(("Describe the picture.", "What do you see?", "What is in this picture?")) + (" Name the sizes too." if size else "")
    parts = ["%s %s" % (a(name(s, size)), where(s)) for s in scene["shapes"]]
    answer = "The picture shows %s." % listing(parts)
    if rng.random() < 0.3:
        question += " And the background?"
        answer += " The background is %s." % scene["background"]
    return question, answer, {"all": parts}


def what_where(rng, scene):
    s = rng.choice(scene["shapes"])
    return "What is %s?" % where(s), "%s %s is %s." % (cap(a(s["colour"])), s["shape"], where(s)), {"all": [name(s)]}


def which_colour(rng, scene):
    s = rng.choice(scene["shapes"])
    if [x["shape"] for x in scene["shapes"]].count(s["shape"]) == 1 and rng.random() < 0.7:
        question, subject = "Which colour is the %s?" % s["shape"], "The %s" % s["shape"]
    else:
        question, subject = "Which colour is the shape %s?" % where(s), "The shape %s" % where(s)
    return question, "%s is %s." % (subject, s["colour"]), {"all": [s["colour"]]}


def find(rng, scene):
    s = rng.choice(scene["shapes"])
    if [name(x) for x in scene["shapes"]].count(name(s)) > 1:
        return what_where(rng, scene)
    return "Where is the %s?" % name(s), "The %s is %s." % (name(s), where(s)), {"all": [where(s)]}


def how_many(rng, scene):
    kind = rng.random()
    shapes = scene["shapes"]
    if kind < 0.4:
        n, noun = len(shapes), "shape"
    elif kind < 0.7:
        noun = rng.choice(scenes.SHAPES)
        n = sum(s["shape"] == noun for s in shapes)
    else:
        colour = rng.choice([s["colour"] for s in shapes] + [rng.choice(scenes.COLOURS)])
        n, noun = sum(s["colour"] == colour for s in shapes), colour + " shape"
    answer = "There %s %s %s%s." % ("is" if n == 1 else "are", count_word(n), noun, "" if n == 1 else "s")
    return "How many %ss are there?" % noun, answer, {"all": [count_word(n)]}


def is_there(rng, scene):
    s = rng.choice(scene["shapes"])
    target = (s["colour"], s["shape"]) if rng.random() < 0.5 else (rng.choice(scenes.COLOURS), rng.choice(scenes.SHAPES))
    yes = target in [(x["colour"], x["shape"]) for x in scene["shapes"]]
    noun = a(" ".join(target))
    return "Is there %s?" % noun, "%s, there is %s%s." % ("Yes" if yes else "No", "" if yes else "no ", noun if yes else " ".join(target)), \
        {"all": ["yes" if yes else "no"]}


def big(rng, scene):
    s = rng.choice(scene["shapes"])
    if [name(x) for x in scene["shapes"]].count(name(s)) > 1:
        return how_many(rng, scene)
    return "Is the %s small or large?" % name(s), "The %s is %s." % (name(s), s["size"]), \
        {"all": [s["size"]], "none": ["large" if s["size"] == "small" else "small"]}


KINDS = [describe, describe, what_where, which_colour, find, how_many, how_many, is_there, big]


def make(rng, side):
    scene = scenes.still(rng, side)
    turns, n = [], rng.choice((1, 1, 2, 3))
    for i in range(n):
        question, answer, expect = rng.choice(KINDS)(rng, scene)
        content = question if i else [{"type": "image"}, {"type": "text", "text": question}]
        turns += [user(content), model(answer)]
    return Example(turns, expect, "words", images=[scene])
