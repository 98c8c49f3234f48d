"""Short clips of moving shapes: descriptions and questions about motion."""
import scenes
from example import Example
from grammar import a, cap, count_word, listing
from tasks.pictures import COLOUR, name, turns_about


def moves(s):
    return "stays where it is" if s["motion"] == "stays" else "moves " + s["motion"]


def describe(rng, scene):
    parts = ["%s %s" % (a(name(s)), moves(s)) for s in scene["shapes"]]
    return rng.choice(("Describe the clip.", "What happens in this clip?", "What do you see?", "What happens in the video?", "Describe the video.", "What is going on here?",
                       "Tell me what happens.")), cap(listing(parts)) + ".", {"all": parts, "shapes": len(parts)}


def how(rng, scene):
    s = rng.choice(scene["shapes"])
    return rng.choice(("How does the %s move?", "What does the %s do?", "Where does the %s go?", "Which way does the %s move?")) % name(s), "The %s %s." % (name(s), moves(s)), {"all": [moves(s)], "none": [m for m in scenes.MOTIONS if m != s["motion"]]}


def which(rng, scene):
    s = rng.choice(scene["shapes"])
    motions = [x["motion"] for x in scene["shapes"]]
    if motions.count(s["motion"]) > 1:
        return how(rng, scene)
    return rng.choice(("What %s?", "Which shape %s?")) % moves(s), "The %s %s." % (name(s), moves(s)), {"all": [name(s)], "shapes": 1}


def count(rng, scene):
    n = sum(s["motion"] != "stays" for s in scene["shapes"])
    return rng.choice(("How many shapes move?", "How many shapes are moving?")), "%s shape%s move%s." % (cap(count_word(n)), "" if n == 1 else "s", "s" if n == 1 else ""), {"all": [count_word(n)], "none": [count_word(m) for m in range(3) if m != n]}


def colour(rng, scene):
    s = rng.choice(scene["shapes"])
    if len(scene["shapes"]) > 1 and scene["shapes"][0]["shape"] == scene["shapes"][1]["shape"]:
        return describe(rng, scene)
    return rng.choice(COLOUR) % ("the " + s["shape"]), "The %s is %s." % (s["shape"], s["colour"]), {"all": [s["colour"]], "none": [c for c in scenes.COLOURS if c != s["colour"]]}


KINDS = [describe, describe, how, how, which, count, colour]


def make(rng, side):
    scene = scenes.clip(rng, side)
    turns, expect = turns_about(rng, scene, KINDS, "video", rng.choice((1, 1, 2)))
    return Example(turns, expect, "words", images=[scene], group="clips")
