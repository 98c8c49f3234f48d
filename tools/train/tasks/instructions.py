"""Instructions on a text or a list: summarise, rewrite in another tense or person, list, count, sort, compare."""
import world
from example import ask
from grammar import a, cap, count_word, listing, realise
from tasks.plots import story


def summarise(rng, side):
    plan = story(rng, side)
    short = rng.random() < 0.5
    text = realise(plan.gist, plan.slots) if short else plan.summary(5)
    how = "in one sentence" if short else "in a few sentences"
    if short or rng.random() < 0.5:
        question = rng.choice(("Summarise this story %s:", "Sum up this story %s.", "What is this story about? Answer %s.", "Tell me %s what happens here:",
                               "Summarize this %s:", "Give me a summary %s.")) % how
    else:
        question = rng.choice(("Summarise this:", "Summarise this story:", "Sum this up:", "Summarize this text.", "summarise this:", "Give me a summary of this story:",
                               "What happens in this story?", "Make this shorter:"))
    return ask(question + rng.choice(("\n\n", "\n\n", " ")) + plan.text(), text, text, "overlap")


REWRITE = ["Rewrite this in the {} tense:", "Put this text into the {} tense.", "Change this to the {} tense:", "Write this in the {} tense:", "Tell this in the {} tense:"]


def rewrite(rng, side):
    plan = story(rng, side)
    plan.paras = plan.paras[1:3] if rng.random() < 0.7 else plan.paras[:2]
    before, after, question = rng.choice((
        (("third", "past"), ("third", "present"), rng.choice(REWRITE).format("present")),
        (("third", "present"), ("third", "past"), rng.choice(REWRITE).format("past")),
        (("third", "past"), ("third", "present"), rng.choice(REWRITE).format("present")),
        (("third", "present"), ("third", "past"), rng.choice(REWRITE).format("past")),
        (("third", "past"), ("first", "past"), "Rewrite this so that {H} tells it in the first person:"),
        (("third", "present"), ("first", "present"), "Let {H} tell this:")))
    # A line that the narrator words differently cannot be derived from the text.
    plan.paras = [[str(t) for t in para if not (after[0] == "first" and hasattr(t, "first"))] for para in plan.paras]
    text, answer = plan.text(*before), plan.text(*after)
    return ask(question.replace("{H}", plan.hero.mention) + "\n\n" + text, answer, answer, "exact")


def _pool(rng):
    return rng.choice((world.ANIMALS, world.FOODS, world.COLOURS, world.THING_LIST, world.TREASURES, world.JOBS, world.TOWNS,
                       world.PLACE_LIST))


def sort(rng, side):
    if rng.random() < 0.5:
        items = rng.sample(_pool(rng), rng.randint(3, 6))
        question = rng.choice(("Sort these words by the alphabet: {x}", "Put these in alphabetical order: {x}", "Order these from A to Z: {x}"))
        order = sorted(items, key=str.lower)
        rule = "I compare the first letters: " + ", ".join(x[0].lower() for x in order) + "."
    else:
        items = [str(n) for n in rng.sample(range(1, rng.choice((20, 100, 1000))), rng.randint(3, 6))]
        down = rng.random() < 0.4
        question = rng.choice(("Sort these numbers from {y}: {x}", "Order the numbers {x} from {y}."))
        question = question.replace("{y}", "largest to smallest" if down else "smallest to largest")
        order = sorted(items, key=int, reverse=down)
        rule = "The %s number is %s, then comes %s." % ("largest" if down else "smallest", order[0], order[1])
    answer = ", ".join(order)
    return ask(question.format(x=", ".join(items)), answer, answer, "exact", rule if rng.random() < 0.25 else None)


def list_items(rng, side):
    kinds = {"animals": world.ANIMALS, "foods": world.FOODS, "colours": world.COLOURS, "jobs": world.JOBS, "places": world.PLACE_LIST,
             "feelings": world.FEELINGS}
    if rng.random() < 0.5:
        kind = rng.choice(list(kinds))
        n = rng.randint(2, 6)
        items = rng.sample(kinds[kind], n)
        question = rng.choice(("Name {n} {k}.", "List {n} {k}.", "Give me {n} {k}, please.", "Can you name {n} {k}?", "Tell me {n} {k}.", "Write down {n} {k}."))
        question = question.format(n=count_word(n), k=kind)
        if rng.random() < 0.5:
            answer = "\n".join("- " + x for x in items)
            question += " " + rng.choice(("Use a bulleted list.", "One per line, with a dash."))
        else:
            answer = cap(listing(items)) + "."
        return ask(question, answer, {"count": n, "of": kinds[kind]}, "members")
    who = world.names(rng, side, 1)[0]
    things = rng.sample([t for t in world.TREASURES if world.allowed(side, who, t)], rng.randint(2, 5))
    bag = listing(a(t) for t in things)
    question = "%s packs a bag: %s. %s" % (who, bag, rng.choice(("List the things, one per line.", "Make a list of what is in the bag.", "Write the things as a list.")))
    answer = "\n".join("- " + t for t in things)
    return ask(question, answer, answer.split("\n"), "lines")


def count(rng, side):
    kind = rng.random()
    if kind < 0.5:
        items = rng.sample(_pool(rng), rng.randint(2, 9))
        question = rng.choice(("How many words are in this list: {x}?", "Count these: {x}", "How many things are here: {x}?"))
        working = ", ".join("%d %s" % (i + 1, x) for i, x in enumerate(items))
        answer = rng.choice(("There are %d.", "%d", "I count %d.")) % len(items)
        return ask(question.format(x=", ".join(items)), answer, len(items), "number", working + "." if rng.random() < 0.5 else None)
    items = rng.sample(_pool(rng), 3)
    row = [rng.choice(items) for _ in range(rng.randint(4, 9))]
    target = rng.choice(row)
    n = row.count(target)
    working = ", ".join(x + " (%d)" % row[:i + 1].count(target) if x == target else x for i, x in enumerate(row))
    question = rng.choice(("How often does \"{t}\" occur here: {x}", "Count how many times {t} appears: {x}")).format(t=target, x=" ".join(row))
    return ask(question, "\"%s\" occurs %d time%s." % (target, n, "" if n == 1 else "s"), n, "number", working if rng.random() < 0.5 else None)


def first_last(rng, side):
    """One item of a list by its place or its looks."""
    items = rng.sample(_pool(rng), rng.randint(3, 7))
    row = ", ".join(items)
    kind = rng.randrange(4)
    if kind == 0:
        n = rng.randrange(min(len(items), 5))
        word, answer = ("first", "second", "third", "fourth", "fifth")[n], items[n]
        question = rng.choice(("Which word is the %s in this list: {x}?", "What is the %s word here: {x}")) % word
    elif kind == 1:
        question, answer = rng.choice(("Which word is the last in this list: {x}?", "What is the last word here: {x}")), items[-1]
    else:
        size = max if kind == 2 else min
        best = size(len(x) for x in items)
        if sum(len(x) == best for x in items) > 1:
            return first_last(rng, side)
        answer = size(items, key=len)
        question = "Which of these words is the %s: {x}?" % ("longest" if kind == 2 else "shortest")
    return ask(question.format(x=row), answer, answer, "exact")


FACTS = [("older", "younger", "years old", 3, 90), ("taller", "shorter", "centimetres tall", 90, 200), ("heavier", "lighter", "kilos", 3, 99)]


def compare(rng, side):
    one, two = world.names(rng, side, 2)
    more, less, unit, low, high = rng.choice(FACTS)
    x, y = rng.sample(range(low, high), 2)
    word = rng.choice((more, less))
    verb = "weighs" if unit == "kilos" else "is"
    winner = one if (x > y) == (word == more) else two
    question = "%s %s %d %s. %s %s %d %s. Who is %s?" % (one, verb, x, unit, two, verb, y, unit, word)
    thinking = "I compare %d and %d. %d is larger." % (x, y, max(x, y))
    if rng.random() < 0.4:
        question += " By how much?"
        d = abs(x - y)
        answer = "%s is %s, by %d." % (winner, word, d)
        return ask(question, answer, {"all": [winner, str(d)]}, "words", thinking + " %d - %d = %d." % (max(x, y), min(x, y), d))
    answer = "%s is %s." % (winner, word)
    return ask(question, answer, {"all": [winner], "none": [two if winner == one else one]}, "words",
               thinking if rng.random() < 0.3 else None)


KINDS = [summarise, summarise, rewrite, rewrite, rewrite, sort, list_items, count, compare, first_last]


def make(rng, side):
    return rng.choice(KINDS)(rng, side)
