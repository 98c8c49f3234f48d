"""Who is in a story, and the story itself while it is being planned.

A `Story` is a list of templates plus what is true in it, so that the same story can be told by another
narrator or in another tense, asked about, summarised and put in order.
"""
import world
from grammar import PRONOUNS, a, realise

CREATURES = ["A magpie", "A grey cat", "A snail", "An old dog", "A butterfly", "A lizard", "A ladybird", "A tiny wren", "A robin", "A young hare"]
DOINGS = ["[watch/w] from a wall", "[cross/w] the path", "[sit/w] in the grass", "[look/w] up for a moment", "[pass/w] by without a sound",
          "[rest/w] in the shade", "[blink/w] in the light"]
AIR = ["The wind", "A smell of fresh bread", "The sound of a far bell", "A thin mist", "The smell of wet leaves", "A cool breeze", "The smell of hay"]
FLOW = ["[come/w] over the fields", "[drift/w] through the trees", "[come/w] from the valley", "[drift/w] across the path"]
TIMES = ["The clouds [move/p] slowly.", "Far away a dog [bark/w].", "Somewhere a door [bang/w].",
         "For a moment nothing [move/w].", "A cart [rattle/w] past.", "Somebody [sing/w] in the distance.", "A few leaves [fall/p] from a tree.",
         "A clock [strike/w] in the distance.", "The shadows [grow/p] longer.", "A stone [roll/w] down a slope.", "Two children [run/p] past, laughing."]
# beginnings that go on from the sentence before
LINKED = ("But", "So ", "And", "After", "{^later}", "{^days}", "{they}", "There ", "When", "Just", "Then")


def sight(rng):
    """A sentence of scenery that fits anywhere."""
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(CREATURES) + " " + rng.choice(DOINGS) + "."
    return rng.choice(AIR) + " " + rng.choice(FLOW) + "." if kind < 0.7 else rng.choice(TIMES)


YOUNG = {"she": ["girl", "young woman", "shepherd girl"], "he": ["boy", "young man", "miller's boy"]}
OLD = {"she": ["old woman", "grandmother"], "he": ["old man", "grandfather"]}


class Who:
    """One character: how it is introduced and how it is called afterwards."""

    def __init__(self, rng, side, animal_share=0.4, gender=None, animal=None, avoid=()):
        self.gender = gender or rng.choice(("she", "he"))
        self.trait = rng.choice(world.TRAITS)
        self.job = None
        while True:
            if animal or rng.random() < animal_share:
                self._animal(rng, side, animal)
            else:
                self._person(rng, side)
            if not any(self.mention == x.mention or (self.kind == x.kind and x.animal) for x in avoid):
                break
            animal = None

    def _animal(self, rng, side, animal):
        self.animal = self.kind = animal or world.animal(rng)
        if self.kind == "hen":
            self.gender = "she"
        if rng.random() < 0.4:
            self.name = world.pet_name(rng, side)
            self.mention = self.name
            self.intro = rng.choice(("{a} called {n}", "{a} named {n}", "{n} the {k}")).format(
                a=a(self._describe(rng)), n=self.name, k=self.kind)
        else:
            self.name = None
            self.mention = "the " + self.kind
            self.intro = a(self._describe(rng))

    def _person(self, rng, side):
        self.animal, self.name = None, world.name(rng, side, self.gender)
        self.mention = self.name
        if rng.random() < 0.45:
            self.kind = self.job = rng.choice(world.JOBS)
            self.intro = rng.choice(("{n} the {k}", "{j} named {n}", "{j} called {n}")).format(
                n=self.name, k=self.kind, j=a(self._describe(rng)))
        else:
            self.kind = rng.choice(YOUNG[self.gender] if rng.random() < 0.7 else OLD[self.gender])
            self.intro = rng.choice(("{k} named {n}", "{k} called {n}")).format(
                n=self.name, k=a(self.kind if self.kind.startswith(("old", "young")) else self._describe(rng)))

    def _describe(self, rng):
        return rng.choice((self.trait + " ", "", "", "little " if self.animal else self.trait + " ")) + self.kind

    @property
    def key(self):
        """What the split of (hero, thing) pairs goes by: an animal's kind, a person's name."""
        return self.animal or self.name

    @property
    def indefinite(self):
        """The introduction with an article: 'a farmer called Thea', never 'Thea the farmer'."""
        return self.intro if self.intro.startswith(("a ", "an ")) else "%s called %s" % (a(self.kind), self.name)

    @property
    def call(self):
        return self.name or "little " + self.kind


class Story:
    """A planned story: paragraphs of templates, slots, questions, and the main events in order."""

    def __init__(self, rng, side, hero=None):
        self.rng, self.side = rng, side
        self.hero = hero or Who(rng, side)
        self.slots = {"H": self.hero.mention, "gender": self.hero.gender, "Hi": self.hero.intro, "Ha": self.hero.indefinite, "N": self.hero.call}
        self.paras, self.questions, self.events = [[]], [], []
        self.topic, self.gist = [], ""

    def other(self, letter="W", **options):
        """Adds a second character under the slots W, Ws (he), Wo (him), Wp (his), Wi (introduction)."""
        gender = options.pop("gender", None)
        if gender is None and self.rng.random() < 0.7:
            gender = "he" if self.hero.gender == "she" else "she"
        who = Who(self.rng, self.side, gender=gender, avoid=(self.hero, *options.pop("avoid", ())), **options)
        subject, obj, possessive, _ = PRONOUNS[who.gender]
        self.slots.update({letter: who.mention, letter + "s": subject, letter + "o": obj,
                           letter + "p": possessive, letter + "i": who.intro})
        return who

    def say(self, *choices):
        """One of the choices becomes the next sentence; a paragraph may begin with a glance at the world around."""
        sentence = self.rng.choice(choices)
        if not self.paras[-1] and len(self.paras) > 1 and self.rng.random() < 0.35 and not sentence.startswith(LINKED):
            self.paras[-1].append(sight(self.rng))
        self.paras[-1].append(sentence)

    def maybe(self, share, *choices):
        if self.rng.random() < share:
            self.say(*choices)

    def para(self):
        if self.paras[-1]:
            self.paras.append([])

    def event(self, template):
        """A main event, in the order of the story, for summaries and questions about order."""
        self.events.append(template)

    def ask(self, kind, question, answer, key, rivals=()):
        """A question, a full answer, the words a right answer must hold and words it must not hold."""
        s = self.slots
        self.questions.append(dict(kind=kind, question=realise(question, s), answer=realise(answer, s),
                                   key=realise(key, s).lower(), rivals=[r.lower() for r in rivals]))

    def text(self, person="third", tense="past", paragraphs=True):
        first = person == "first"
        parts = [" ".join(realise(getattr(t, "first", t) if first else t, self.slots, person, tense) for t in para)
                 for para in self.paras if para]
        if tense == "present":
            parts[0] = parts[0].replace("There is once ", "There is ")
        return ("\n\n" if paragraphs else " ").join(parts)

    def summary(self, n=3):
        """The main events as sentences, at most n of them, the last always among them."""
        picked = self.events[:n - 1] + self.events[-1:] if len(self.events) > n else self.events
        out, last = [], None
        for template in picked:
            if last and template.startswith("{H} ") and last.startswith("{H} "):
                out.append(realise("{^h} " + template[4:], self.slots))
            else:
                out.append(realise(template, self.slots))
            last = template
        return " ".join(out)
