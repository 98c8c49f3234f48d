"""Conversations of several turns, with system prompts that matter: manners, facts to remember, refusals to invent."""
import world
from example import Example, model, system, user
from grammar import a, cap, listing
from tasks.plots import story


class Talk:
    """What has been said so far, and the style that the system prompt asks for."""

    def __init__(self, rng, side):
        self.rng, self.side, self.turns = rng, side, []
        self.me = world.name(rng, side, rng.choice(("she", "he")))
        self.bot = world.name(rng, side, rng.choice(("she", "he")))
        self.style, self.known_bot = rng.choice(STYLES), False
        if self.style[0] or rng.random() < 0.3:
            text = self.style[0]
            if rng.random() < 0.5:
                text, self.known_bot = ("Your name is %s. " % self.bot + text).strip(), True
            if text:
                self.turns.append(system(text))
        self.facts, self.expect = {}, None

    def say(self, question, answer, keys=()):
        self.turns += [user(question), model(self.style[1](answer))]
        self.expect = {"all": [str(k) for k in keys]}


STYLES = [("", str), ("", str), ("You are a friendly assistant.", str), ("Answer briefly.", str),
          ("Always answer in capital letters.", str.upper), ("End every answer with the word \"friend\".", lambda x: x[:-1] + ", friend" + x[-1]),
          ("Begin every answer with \"Well,\".", lambda x: "Well, " + (x if x[:2] in ("I ", "I'") else x[0].lower() + x[1:])),
          ("You are a pirate. Begin with \"Ahoy!\".", lambda x: "Ahoy! " + x), ("Answer without capital letters.", str.lower)]


def greet(t):
    t.say(t.rng.choice(("Hello!", "Hi there.", "Good morning!", "Hey!")), t.rng.choice(("Hello! How can I help you?", "Good to see you. What can I do for you?")))


def my_name(t):
    t.facts["name"] = t.me
    t.say(t.rng.choice(("My name is %s.", "I am %s.", "You can call me %s.")) % t.me, t.rng.choice(("Nice to meet you, %s.", "It is good to meet you, %s.")) % t.me, [t.me])


def ask_name(t):
    if "name" in t.facts:
        t.say(t.rng.choice(("What is my name?", "Do you remember my name?", "Who am I?")), "Your name is %s." % t.me, [t.me])
    else:
        t.say("What is my name?", "You have not told me your name yet.", ["not told"])


def your_name(t):
    if t.known_bot:
        t.say(t.rng.choice(("What is your name?", "Who are you?")), "My name is %s." % t.bot, [t.bot])
    else:
        t.say(t.rng.choice(("What is your name?", "Who are you?")), "I am a small language model that was trained for Slipstream.", ["model"])


def own(t):
    thing = world.paired(t.rng, t.side, t.me, world.TREASURES)
    if not world.allowed(t.side, t.bot, thing):
        return
    colour = t.facts["colour"] = t.rng.choice(world.COLOURS)
    t.facts["thing"] = thing
    t.say("I have %s." % a(colour + " " + thing), t.rng.choice(("That sounds nice.", "What a fine thing to have.", "I like that colour.")))


def ask_own(t):
    if "thing" in t.facts:
        t.say("Which colour is my %s?" % t.facts["thing"], "Your %s is %s." % (t.facts["thing"], t.facts["colour"]), [t.facts["colour"]])


def mood(t):
    feeling = t.rng.choice(world.FEELINGS)
    good = feeling in ("happy", "proud", "excited", "calm", "grateful")
    t.facts["mood"] = feeling
    t.say(t.rng.choice(("I feel %s today.", "Today I am %s.")) % feeling,
          t.rng.choice(("I am glad to hear that. What happened?", "That is good news.")) if good else
          t.rng.choice(("I am sorry to hear that. Do you want to talk about it?", "That is hard. A walk may help.", "I understand. Take your time.")))


def ask_mood(t):
    if "mood" in t.facts:
        t.say("How did I say I feel?", "You said that you feel %s." % t.facts["mood"], [t.facts["mood"]])


def food(t):
    items = t.rng.sample(world.FOODS, t.rng.randint(2, 3))
    t.say("I have %s. What can I cook?" % listing(items), t.rng.choice(("You could make a stew with %s.", "Try a pan of %s.", "How about a warm dish of %s?")) % listing(items), items)


def weather_advice(t):
    kind, advice = t.rng.choice((("rainy", "Take an umbrella"), ("cold", "Wear a warm coat"), ("sunny", "Wear a hat"), ("windy", "Hold on to your hat"),
                                 ("snowy", "Put on your boots"), ("foggy", "Take a lantern"), ("stormy", "Stay at home")))
    t.say(t.rng.choice(("It is %s outside. What should I do?", "What do I need when it is %s?")) % kind, advice + ".", [advice])


def opposite(t):
    one, two = t.rng.choice((("big", "small"), ("hot", "cold"), ("fast", "slow"), ("old", "young"), ("dark", "light"), ("loud", "quiet"),
                             ("early", "late"), ("full", "empty"), ("happy", "sad"), ("strong", "weak"), ("wet", "dry"), ("open", "shut")))
    if t.rng.random() < 0.5:
        one, two = two, one
    t.say("What is the opposite of %s?" % one, "The opposite of %s is %s." % (one, two), [two])


def job(t):
    who, does = t.rng.choice((("baker", "bakes bread"), ("farmer", "grows food"), ("teacher", "teaches children"), ("fisher", "catches fish"),
                              ("gardener", "looks after plants"), ("painter", "paints pictures"), ("carpenter", "builds things of wood"),
                              ("doctor", "helps sick people"), ("tailor", "makes clothes"), ("shepherd", "looks after sheep"),
                              ("clockmaker", "makes and mends clocks"), ("librarian", "looks after books"), ("beekeeper", "keeps bees")))
    t.say("What does a %s do?" % who, "A %s %s." % (who, does), [does])


def thanks(t):
    t.say(t.rng.choice(("Thank you!", "Thanks a lot.", "That helps, thanks.")), "You are welcome.", ["welcome"])


def bye(t):
    name = ", " + t.me if "name" in t.facts else ""
    t.say(t.rng.choice(("Goodbye!", "See you tomorrow.", "I have to go now.")), "Goodbye%s! See you soon." % name)


OPEN = [greet, my_name, my_name, own, mood]
MIDDLE = [own, mood, food, weather_advice, opposite, job, your_name, my_name, ask_own, ask_name]
CLOSE = [ask_name, ask_own, ask_mood, thanks, bye, your_name, opposite, job]


def make(rng, side):
    t = Talk(rng, side)
    steps = [rng.choice(OPEN)] + rng.sample(MIDDLE, rng.randint(0, 3)) + rng.sample(CLOSE, rng.randint(1, 2))
    done = set()
    for step in steps:
        if step not in done:
            step(t)
            done.add(step)
    if not t.expect:
        greet(t)
    return Example(t.turns, t.expect, "words")
