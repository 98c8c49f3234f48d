"""Short clips of moving shapes: descriptions and questions about motion."""
import scenes
from example import Example, model, user
from grammar import a, cap, count_word, listing
from tasks.pictures import name


def moves(s):
    return "stays where it is" if s["motion"] == "stays" else "moves " + s["motion"]


def describe(rng, scene):
    parts = ["%s %s" % (a(name(s)), moves(s)) for s in scene["shapes"]]
    return rng.choice(("Describe the clip.", "What happens in this clip?", "What do you see?")), cap(listing(parts)) + ".", {"all": parts}


def how(rng, scene):
    s = rng.choice(scene["shapes"])
    return "How does the %s move?" % name(s), "The %s %s." % (name(s), moves(s)), {"all": [moves(s)]}


def which(rng, scene):
    s = rng.choice(scene["shapes"])
    motions = [x["motion"] for x in scene["shapes"]]
    if motions.count(s["motion"]) > 1:
        return how(rng, scene)
    return "What %s?" % moves(s), "The %s %s." % (name(s), moves(s)), {"all": [name(s)]}


def count(rng, scene):
    n = sum(s["motion"] != "stays" for s in scene["shapes"])
    return "How many shapes move?", "%s shape%s move%s." % (cap(count_word(n)), "" if n == 1 else "s", "s" if n == 1 else ""), {"all": [count_word(n)]}


def colour(rng, scene):
    s = rng.choice(scene["shapes"])
    if len(scene["shapes"]) > 1 and scene["shapes"][0]["shape"] == scene["shapes"][1]["shape"]:
        return describe(rng, scene)
    return "Which colour is the %s?" % s["shape"], "The %s is %s." % (s["shape"], s["colour"]), {"all": [s["colour"]]}


KINDS = [describe, describe, how, how, which, count, colour]


def make(rng, side):
    scene = scenes.clip(rng, side)
    turns = []
    for i in range(rng.choice((1, 1, 2))):
        question, answer, expect = rng.choice(KINDS)(rng, scene)
        content = question if i else [{"type": "video"}, {"type": "text", "text": question}]
        turns += [user(content), model(answer)]
    return Example(turns, expect, "words", images=[scene])
