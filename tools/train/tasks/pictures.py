"""Pictures of coloured shapes: descriptions and questions (what, which colour, how many, where)."""
import scenes
from example import Example, model, user
from grammar import a, cap, count_word, listing


def name(s, size=False):
    return (s["size"] + " " if size else "") + s["colour"] + " " + s["shape"]


def where(s):
    return scenes.in_cell(*s["cell"])


def describe(rng, scene):
    size = rng.random() < 0.4
    question = rng.choice(("Describe the picture.", "What do you see?", "What is in this picture?", "What is in the image?", "Describe this image.", "What does the picture show?",
                           "Tell me what is in the picture.", "What is this?", "What can you see in this image?")) + (" Name the sizes too." if size else "")
    parts = ["%s %s" % (a(name(s, size)), where(s)) for s in scene["shapes"]]
    answer = "The picture shows %s." % listing(parts)
    if rng.random() < 0.3:
        question += " And the background?"
        answer += " The background is %s." % scene["background"]
    return question, answer, {"all": parts, "shapes": len(parts)}


def what_where(rng, scene):
    s = rng.choice(scene["shapes"])
    question = rng.choice(("What is %s?", "What do you see %s?", "Which shape is %s?", "What is there %s?")) % where(s)
    return question, "%s %s is %s." % (cap(a(s["colour"])), s["shape"], where(s)), {"all": [name(s)]}


def which_colour(rng, scene):
    s = rng.choice(scene["shapes"])
    if [x["shape"] for x in scene["shapes"]].count(s["shape"]) == 1 and rng.random() < 0.7:
        question, subject = rng.choice(COLOUR) % ("the " + s["shape"]), "The %s" % s["shape"]
    else:
        question, subject = rng.choice(COLOUR) % ("the shape " + where(s)), "The shape %s" % where(s)
    return question, "%s is %s." % (subject, s["colour"]), {"all": [s["colour"]], "none": [c for c in scenes.COLOURS if c != s["colour"]]}


def find(rng, scene):
    s = rng.choice(scene["shapes"])
    if [name(x) for x in scene["shapes"]].count(name(s)) > 1:
        return what_where(rng, scene)
    return rng.choice(("Where is the %s?", "Where can I find the %s?", "Where do you see the %s?")) % name(s), "The %s is %s." % (name(s), where(s)), {"all": [where(s)]}


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
    question = rng.choice(("How many %ss are there?", "How many %ss do you see?", "Count the %ss.", "How many %ss are in the picture?")) % noun
    return question, answer, {"all": [count_word(n)], "none": [count_word(m) for m in range(5) if m != n]}


def is_there(rng, scene):
    s = rng.choice(scene["shapes"])
    target = (s["colour"], s["shape"]) if rng.random() < 0.5 else (rng.choice(scenes.COLOURS), rng.choice(scenes.SHAPES))
    yes = target in [(x["colour"], x["shape"]) for x in scene["shapes"]]
    noun = a(" ".join(target))
    return rng.choice(("Is there %s?", "Do you see %s?", "Is there %s in the picture?")) % noun, "%s, there is %s%s." % ("Yes" if yes else "No", "" if yes else "no ", noun if yes else " ".join(target)), \
        {"all": ["yes" if yes else "no"], "none": ["no" if yes else "yes"]}


def big(rng, scene):
    s = rng.choice(scene["shapes"])
    if [name(x) for x in scene["shapes"]].count(name(s)) > 1:
        return how_many(rng, scene)
    return rng.choice(("Is the %s small or large?", "How big is the %s?", "Is the %s large or small?")) % name(s), "The %s is %s." % (name(s), s["size"]), \
        {"all": [s["size"]], "none": ["large" if s["size"] == "small" else "small"]}


def background(rng, scene):
    other = "white" if scene["background"] == "grey" else "grey"
    return rng.choice(("Which colour is the background?", "What colour is the background?")), "The background is %s." % scene["background"], \
        {"all": [scene["background"]], "none": [other]}


COLOUR = ["Which colour is %s?", "What colour is %s?", "What is the colour of %s?", "Tell me the colour of %s."]
KINDS = [background, describe, describe, what_where, which_colour, find, how_many, how_many, is_there, big]


def turns_about(rng, scene, kinds, marker, n):
    """n different questions; the first turn carries the picture, before or after the words."""
    turns, asked, expect = [], set(), None
    while len(asked) < n:
        question, answer, wanted = rng.choice(kinds)(rng, scene)
        if question in asked:
            n -= 1
            continue
        text = {"type": "text", "text": question}
        content = question if asked else [text, {"type": marker}] if rng.random() < 0.2 else [{"type": marker}, text]
        asked.add(question)
        turns += [user(content), model(answer)]
        expect = wanted
    return turns, expect


def make(rng, side):
    scene = scenes.still(rng, side)
    turns, expect = turns_about(rng, scene, KINDS, "image", rng.choice((1, 1, 2, 3)))
    return Example(turns, expect, "words", images=[scene], group="pictures")
