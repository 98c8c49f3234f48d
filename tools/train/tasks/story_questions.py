"""Questions about a story just told: who, what, where, why, when, how many, in which order."""
import re

from example import Example, model, user
from grammar import cap, realise
from tasks.plots import story
from tasks.stories import NONE, ONE, called

FRAMES = ["{s}\n\n{q}", "Answer a question about this story: {s}\n\n{q}", "{s}\n{q}", "Text:\n{s}\n\n{q}", "Here is a short story:\n\n{s}\n\nNow tell me: {q}", "Read this story and answer the question.\n\n{s}\n\nQuestion: {q}", "Here is a story.\n\n{s}\n\n{q}",
          "{s}\n\n{q}", "Story: {s}\n\nQuestion: {q}", "{q} Here is the story:\n\n{s}"]


def expectation(q):
    return {"all": [q["key"]], "none": [r for r in q["rivals"] if r not in q["answer"].lower()]}


def order_question(rng, plan):
    """Which of two events came first."""
    one, two = sorted(rng.sample(range(len(plan.events)), 2))
    texts = [realise(plan.events[i], plan.slots).rstrip(".") for i in (one, two)]
    swapped = texts[::-1] if rng.random() < 0.5 else texts
    return dict(question=rng.choice(("What happened first?", "Which came first?", "Which of these happened first?")) + "\nA: %s.\nB: %s." % tuple(swapped),
                answer="%s happened first: %s." % ("B" if swapped is not texts else "A", texts[0]),
                key="b happened" if swapped is not texts else "a happened", rivals=[])


def thought(rng, text, q):
    """A short reasoning: the sentence of the story that holds the answer."""
    lead = rng.choice(("The story says:", "I look for the place in the story:", "This is what I need:"))
    for sentence in re.split(r"(?<=[.!?]) (?!\w+ (?:said|says|asked|asks))", text.replace("\n\n", " ")):
        if q["key"] in sentence.lower() and sentence.count('"') % 2 == 0:
            return lead + " " + sentence
    return None


def make(rng, side):
    plan = story(rng, side)
    text = plan.text(tense="past" if rng.random() < 0.85 else "present", paragraphs=rng.random() < 0.7)
    pool = list(plan.questions)
    if len(plan.events) > 2:
        pool.append(order_question(rng, plan))
    rng.shuffle(pool)
    first = pool[0]
    if rng.random() < 0.2:
        # The model told the story itself.
        asked = rng.choice(ONE).format(a=called(plan.hero, rng)) if rng.random() < 0.6 else rng.choice(NONE)
        turns = [user(asked), model(plan.text()), user(first["question"])]
    else:
        frames = FRAMES[:-1] if "\n" in first["question"] else FRAMES
        turns = [user(rng.choice(frames).format(s=text, q=first["question"]))]
    think = rng.random() < 0.2 and thought(rng, text, first)
    if think:
        turns.append(model(cap(first["answer"]), think))
        return Example(turns, expectation(first), "words", think=True)
    turns.append(model(cap(first["answer"])))
    last = first
    for q in pool[1:rng.choice((1, 1, 2, 3))]:
        turns += [user(q["question"]), model(cap(q["answer"]))]
        last = q
    return Example(turns, expectation(last), "words")
