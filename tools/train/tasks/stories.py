"""Stories: told on request, told as plain prose, or continued from a beginning."""
from example import Example, ask
from grammar import a, count_word
from tasks.cast import Who
from tasks.plots import story
import world

ASKS = ["Tell me a story about {a} and {b}.", "Write a short story about {a} and {b}.", "Tell a story with {a} and {b} in it.",
        "Can you tell me a story about {a} and {b}?", "I would like a story about {a} and {b}.", "A story about {a} and {b}, please.",
        "Make up a story in which {a} has something to do with {b}.", "Please write a story about {a} and {b}.", "Tell me a story about {a} and {b}.",
        "Story about {a} and {b}", "Write a little story about {a} and {b}.", "Could you write a story about {a} with {b}?", "I want to hear about {a} and {b}.",
        "Invent a story with {a} and {b}.", "Write me a short tale about {a} and {b}.", "Tell me a short story about {a} and {b}.", "Tell me a tale of {a} and {b}."]
ONE = ["Tell me a story about {a}.", "Write a story about {a}.", "Write a short story about {a}.", "Can you tell me a story about {a}?", "Story about {a}, please.",
       "I want a story about {a}.", "Tell me a tale about {a}.", "Make up a story about {a}.", "Tell me something about {a}.", "Do you know a story about {a}?",
       "A short story about {a}", "Please tell me a story about {a}."]
NONE = ["Tell me a story.", "Tell me a short story.", "Write a story for me.", "I am bored. Tell me a story!", "Please tell me a bedtime story.", "Do you know a good story?",
        "Write a short story.", "Can you tell me a story?", "A story, please.", "Tell me another story.", "Write me a story.", "Story please", "Tell a story.",
        "Tell me a nice story.", "I would like to hear a story.", "Surprise me with a story."]
STYLES = [("third", "past", "")] * 8 + [("third", "present", " Write it in the present tense."),
                                        ("first", "past", " Let the hero tell it."), ("first", "past", " Write it in the first person."),
                                        ("first", "present", " Write it in the first person and the present tense.")]


def _with(question, extra):
    return question + ("." if extra and question[-1] not in ".?!" else "") + extra


def called(hero, rng):
    """How a prompt names the hero."""
    if hero.animal:
        return a(hero.animal) if not hero.name or rng.random() < 0.5 else a(hero.animal) + " called " + hero.name
    return hero.name if rng.random() < 0.6 else a(hero.kind) + " called " + hero.name


def make(rng, side):
    kind = rng.random()
    person, tense, extra = rng.choice(STYLES)
    if kind < 0.25:
        return Example([{"role": "text", "content": story(rng, side).text(person, tense)}])
    if kind < 0.35:
        plan = story(rng, side)
        return ask(_with(rng.choice(NONE), extra), plan.text(person, tense), {"all": []}, "story")
    if kind < 0.43:
        return _continue(rng, side)
    if kind < 0.5:
        return _chapters(rng, side)
    hero = Who(rng, side, animal_share=0.55)
    if kind < 0.6:
        plan = story(rng, side, hero)
        return ask(_with(rng.choice(ONE).format(a=called(hero, rng)), extra), plan.text(person, tense), {"all": [hero.key] if person == "third" else []}, "story")
    thing = world.paired(rng, side, hero.key, world.THING_LIST + world.TREASURES)
    plan = story(rng, side, hero, thing)
    question = rng.choice(ASKS).format(a=called(hero, rng), b=a(thing))
    keys = [thing] if person == "first" else [thing, hero.key]
    return ask(_with(question, extra), plan.text(person, tense), {"all": keys}, "story")


LATER = ["Another time {H} [be] {inP}.", "The next day {H} [go] to the {P}.", "On {aw} {day} {H} [be] {inP} again.",
         "Not long after, {H} [be] {inP}.", "It [be/w] {aw} {day} when {H} [come] to the {P}."]


def _chapters(rng, side):
    """A long story: one hero, several adventures, each with the thing it is about as its title."""
    hero, n = Who(rng, side), rng.choice((2, 2, 3, 4))
    parts = []
    person, tense = rng.choice((("third", "past"), ("third", "past"), ("third", "present"), ("first", "past")))
    pool = [x for x in world.THING_LIST + world.TREASURES if world.split(hero.key + "/" + x) == side]
    n = min(n, len(pool))
    if n < 2:
        return _continue(rng, side)
    for thing in rng.sample(pool, n):
        plan = story(rng, side, hero, thing)
        if parts:
            plan.paras[0][0] = rng.choice(LATER)
        parts.append("Chapter %d: The %s\n\n%s" % (len(parts) + 1, thing, plan.text(person, tense)))
    extra = " Let the hero tell it." if person == "first" else " Use the present tense." if tense == "present" else ""
    question = rng.choice(("Write a story in %s chapters about %s.", "Tell me a long story with %s chapters about %s.", "I want a story of %s chapters about %s."))
    question = question % (count_word(n), called(hero, rng)) + extra
    return ask(question, "\n\n".join(parts), {"all": ["chapter %d" % n], "none": []}, "story")


def _continue(rng, side):
    text = story(rng, side).text()
    cut = text.index("\n\n")
    if rng.random() < 0.5:
        cut = text.index("\n\n", cut + 2) if text.count("\n\n") > 1 else cut
    question = rng.choice(("Continue this story:", "How does this story go on?", "Please finish this story:",
                           "Write the rest of this story:", "Go on from here:"))
    return ask(question + "\n\n" + text[:cut], text[cut:].strip(), {"all": [], "least": 2}, "story")
