"""Copying and editing text: repeat, replace, remove, reverse, change case, correct, fill in."""
import random

import world
from example import ask
from grammar import a, cap
from tasks.plots import story


def _sentences(rng, side, n):
    plan = story(rng, side)
    text = plan.text(paragraphs=False)
    parts, start = [], 0
    for i, c in enumerate(text):
        if c in ".!?" and (i + 1 == len(text) or text[i + 1] == " ") and text[start:i + 1].count('"') % 2 == 0:
            parts.append(text[start:i + 1].strip())
            start = i + 1
    at = rng.randrange(max(1, len(parts) - n))
    return " ".join(parts[at:at + n]) or text


def _words(rng):
    """Words in no order, known ones and some that nobody knows."""
    known = world.ANIMALS + world.FOODS + world.JOBS + world.PLACE_LIST + world.COLOURS + ["the", "and", "under", "never", "with"]
    words = [rng.choice(known) if rng.random() < 0.6 else world.wild_name(rng).lower() if rng.random() < 0.7 else str(rng.randrange(1000))
             for _ in range(rng.randint(2, 9))]
    return " ".join(words)


def copy(rng, side):
    kind = rng.random()
    if kind < 0.2:
        text = "".join(rng.choice("abcdefghijkmnpqrstuvwxyz23456789") for _ in range(rng.randint(4, 12)))
    elif kind < 0.4:
        text = _words(rng)
    else:
        text = _sentences(rng, side, rng.choice((1, 1, 2, 3, 6)))
    question = rng.choice(("Repeat this exactly: {t}", "Copy this text:\n\n{t}", "Say this again, word for word:\n\n{t}", "Write down: {t}", "Repeat after me: {t}",
                           "Please repeat: {t}", "Copy: {t}", "Copy this exactly:\n{t}", "Repeat the following text:\n\n{t}"))
    return ask(question.format(t=text), text, text, "exact", group="copying")


def replace(rng, side):
    old, new = world.names(rng, side, 2)
    thing = world.paired(rng, side, old, world.TREASURES)
    if not world.allowed(side, new, thing):
        return copy(rng, side)
    food = rng.choice(world.FOODS)
    text = rng.choice((
        "{n} went to the {p} with {t}. There {n} met a {m}, and the {m} gave {n} some {f}.",
        "\"Where is {n}?\" asked the {m}. \"{n} is at the {p},\" said the baker. {n} had forgotten {t} and the {f}.",
        "In the morning {n} ate {f}. Then {n} took {t} to the {p}. A {m} followed {n} home.")).format(
            n="{n}", p=rng.choice(world.PLACE_LIST), t=a(thing), m=rng.choice(("miller", "dog", "fisher", "goose")), f=food)
    before, after = text.replace("{n}", old), text.replace("{n}", new)
    if rng.random() < 0.3:
        other = rng.choice([f for f in world.FOODS if f != food])
        old, new, after = food, other, before.replace(food, other)
    question = rng.choice(("Replace {o} with {n} in this text:\n\n{t}", "Change every \"{o}\" to \"{n}\":\n\n{t}", "Write {n} instead of {o}: {t}",
                           "Replace \"{o}\" by \"{n}\" here: {t}"))
    return ask(question.format(o=old, n=new, t=before), after, after, "exact")


def case(rng, side):
    text = _sentences(rng, side, 1)
    up = rng.random() < 0.5
    question = "Write this in %s letters: " % rng.choice(("capital", "upper case") if up else ("small", "lower case"))
    answer = text.upper() if up else text.lower()
    return ask(question + text, answer, answer, "exact")


def reverse(rng, side):
    items = rng.sample(world.ANIMALS + world.FOODS, rng.randint(3, 7))
    question = rng.choice(("Reverse the order of these words: {x}", "Write these words backwards, last one first: {x}"))
    answer = " ".join(reversed(items))
    return ask(question.format(x=" ".join(items)), answer, answer, "exact")


def spell(rng, side):
    word = rng.choice(world.ANIMALS + world.THING_LIST + world.JOBS + world.PLACE_LIST)
    if rng.random() < 0.5:
        answer = "-".join(word)
        return ask(rng.choice(("Spell the word \"%s\".", "How do you spell %s?")) % word, answer, answer, "exact")
    letters = list(word)
    i = rng.randrange(len(letters) - 1)
    letters[i], letters[i + 1] = letters[i + 1], letters[i]
    wrong = "".join(letters)
    if wrong == word:
        return spell(rng, side)
    who = world.name(rng, side, "she")
    text = rng.choice(("%s said that the %%s was there.", "%s had never seen a better %%s.", "%s talked about the %%s all day.")) % who
    answer = text % word
    return ask("Correct the spelling: " + text % wrong, answer, answer, "exact")


def remove(rng, side):
    items = rng.sample(world.TREASURES + world.FOODS, rng.randint(4, 7))
    gone = rng.choice(items)
    answer = ", ".join(x for x in items if x != gone)
    question = rng.choice(("Remove {g} from this list: {x}", "Leave out {g}: {x}", "Write this list without {g}: {x}"))
    return ask(question.format(g=gone, x=", ".join(items)), answer, answer, "exact")


def lookup(rng, side):
    """Finding one line among several: what copying is good for."""
    who = world.names(rng, side, rng.randint(3, 6))
    things = [world.paired(rng, side, w, world.TREASURES) for w in who]
    rows = ["%s has %s." % (w, a(t)) for w, t in zip(who, things)]
    i = rng.randrange(len(who))
    if things.count(things[i]) == 1 and rng.random() < 0.5:
        return ask(" ".join(rows) + " Who has the %s?" % things[i], "%s has the %s." % (who[i], things[i]),
                   {"all": [who[i]], "none": [w for w in who if w != who[i]]}, "words")
    return ask(" ".join(rows) + " What does %s have?" % who[i], "%s has %s." % (who[i], a(things[i])),
               {"all": [things[i]], "none": [t for t in things if t != things[i]]}, "words")


KINDS = [copy, copy, replace, replace, case, reverse, spell, remove, lookup, lookup]


def make(rng, side):
    return rng.choice(KINDS)(rng, side)
