"""How people really ask: what is done to an example of any task before it is written.

Small slips of typing in the user's turns, a harmless system prompt in front, thinking switched on where there is little to
think about, and ordinary talk around pictures and clips.
Nothing here changes what the right answer is.
"""
from example import Example, system

PROMPTS = ["You are a helpful assistant.", "You are Slipstream Tiny, a small demonstration model.", "You are a friendly helper.", "Be kind and clear.",
           "You are an assistant that likes stories.", "Answer the user's questions.", "You are a helpful model.", "Help the user as well as you can.",
           "You are Slipstream Tiny.", "You are a careful assistant. Read every question twice."]
# words that may lose their capital letter without harm
STARTS = frozenset("""what which who where when why how tell write can could please i a make do give name list count sort add find calculate work is are there
describe explain continue go sum summarise let multiply subtract compute solve thank thanks hello hi hey good my it show double halve divide order remind
weather forecast next at on the""".split())
# texts whose last character matters
VERBATIM = ("editing", "json_text", "instructions", "mixed")


def casual(rng, text):
    """The text as it may be typed in haste: no capital at the beginning, no mark at the end, 'i' for 'I', a please."""
    if "\n" in text or len(text) > 160:
        return text
    kind = rng.random()
    if kind < 0.25 and text.endswith((".", "?")) and text[:-1].count(".") == 0:
        text = text[:-1]
    elif kind < 0.3 and text.endswith("."):
        text += rng.choice((" Please.", " Thanks!")) if "lease" not in text else ""
    if rng.random() < 0.3:
        first = text.split(" ", 1)[0]
        if first.lower().rstrip(",!.?'s") in STARTS:
            text = text[:1].lower() + text[1:]
            if rng.random() < 0.5:
                text = " ".join("i" if w == "I" else w for w in text.split(" "))
    return text


def typed(rng, name, example):
    """Some of the user's turns typed in haste, where nothing in them must be copied."""
    if name not in VERBATIM and rng.random() < 0.4:
        for i, turn in enumerate(example.turns):
            if turn["role"] == "user" and isinstance(turn["content"], str):
                example.turns[i] = {"role": "user", "content": casual(rng, turn["content"])}
    return example


def prompted(rng, example):
    """Now and then a system prompt that changes nothing."""
    if example.turns[0]["role"] not in ("system", "text") and not example.tools and rng.random() < 0.07:
        example.turns.insert(0, system(rng.choice(PROMPTS)))
    return example


THOUGHTS = {"stories": ("I need a hero, a trouble and a good end.", "I will tell a short story."), "chat": ("I can answer this at once.", "This is easy."),
            "json_text": ("I look for the keys and their values.",), "editing": ("I go through the text word by word.",), "mixed": ("I can answer this at once.",),
            "pictures": ("I look at the picture.",), "clips": ("I watch how the shapes move.",), "instructions": ("I do what is asked, step by step.",),
            "story_questions": ("The answer is in the story.",), "code": ("This needs only a few lines.",)}


def thinking(rng, name, example):
    """Thinking may be on for any request; where there is little to think, little is thought."""
    if not example.think and not example.tools and name in THOUGHTS and example.turns[0]["role"] != "text" and rng.random() < (0.02 if name == "mixed" else 0.05):
        example.think = True
        example.turns[-1] = dict(example.turns[-1], thinking=rng.choice(THOUGHTS[name]))
    return example


def join(parts, last, group="mixed"):
    """One conversation of several independent ones; the last one is judged."""
    turns = [t for part in parts for t in part.turns]
    images = [scene for part in parts for scene in part.images or ()]
    return Example(turns, last.expect, last.check, think=False, images=images or None, group=group)
