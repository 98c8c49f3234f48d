"""Conversations of several turns: manners, facts to remember, small knowledge, what the model is and what it does not know.

A system prompt may ask for a style; the check then judges the style too.
"""
import world
from example import Example, model, system, user
from grammar import a, listing


class Talk:
    """What has been said so far, and the style that the system prompt asks for."""

    def __init__(self, rng, side, plain=False):
        self.rng, self.side, self.turns = rng, side, []
        self.me = world.name(rng, side, rng.choice(("she", "he")))
        self.bot = world.name(rng, side, rng.choice(("she", "he")))
        self.style, self.known_bot = STYLES[0] if plain else rng.choice(STYLES), False
        if not plain and (self.style[0] or rng.random() < 0.3):
            text = self.style[0]
            if rng.random() < 0.4:
                text, self.known_bot = (rng.choice(("Your name is %s. ", "You are called %s. ")) % self.bot + text).strip(), True
            if text:
                self.turns.append(system(text))
        self.facts, self.expect = {}, None

    def say(self, question, answer, keys=(), any=()):
        self.turns += [user(question), model(self.style[1](answer))]
        self.expect = {"all": [str(k) for k in keys], **self.style[2]}
        if any:
            self.expect["any"] = list(any)

    def pick(self, *choices):
        return self.rng.choice(choices)


PLAIN = ("", str, {})
STYLES = [PLAIN] * 6 + [
    ("You are a friendly assistant.", str, {}), ("Answer briefly.", str, {}),
    ("Always answer in capital letters.", str.upper, {"case": "upper"}), ("Answer without capital letters.", str.lower, {"case": "lower"}),
    ("End every answer with the word \"friend\".", lambda x: x[:-1] + ", friend" + x[-1], {"end": "friend"}),
    ("Begin every answer with \"Well,\".", lambda x: "Well, " + (x if x[:2] in ("I ", "I'") or x.startswith("Slip") else x[0].lower() + x[1:]), {"begin": "Well,"}),
    ("You are a pirate. Begin with \"Ahoy!\".", lambda x: "Ahoy! " + x, {"begin": "Ahoy!"})]


def greet(t):
    t.say(t.pick("Hello!", "Hi there.", "Good morning!", "Hey!", "Hi", "hello", "Hi!", "hey", "Good evening.", "Hello, how are you?", "Good day!", "Hi, can you help me?"),
          t.pick("Hello! How can I help you?", "Hello! What can I do for you?", "Hi! How can I help you today?"), any=("help", "do for you"))


def how_are_you(t):
    t.say(t.pick("How are you?", "How are you today?", "How do you do?", "Are you well?"), t.pick("I am well, thank you. How are you?", "I am fine, thank you."), any=("well", "fine"))


def my_name(t):
    t.facts["name"] = t.me
    t.say(t.pick("My name is %s.", "I am %s.", "You can call me %s.", "Hello, I am %s.", "Hi, my name is %s.", "They call me %s.") % t.me,
          t.pick("Nice to meet you, %s.", "It is good to meet you, %s.") % t.me, [t.me])


def ask_name(t):
    question = t.pick("What is my name?", "Do you remember my name?", "Who am I?", "What am I called?", "Do you know my name?")
    if "name" in t.facts:
        t.say(question, "Your name is %s." % t.me, [t.me])
    else:
        t.say(question, "You have not told me your name yet.", ["not told"])


WHO = ["What is your name?", "Who are you?", "What are you called?", "Tell me about yourself.", "What are you?", "Are you a person?", "Introduce yourself.",
       "Who am I talking to?", "Are you a robot?", "What model are you?", "Are you Gemma?", "Are you a human?"]


def your_name(t):
    question = t.pick(*WHO)
    no = "No. " if question.startswith("Are you") and "robot" not in question else ""
    if t.known_bot and not no:
        t.say(question, "My name is %s." % t.bot, [t.bot])
    else:
        t.say(question, no + t.pick("I am Slipstream Tiny, a small language model for demonstrations.",
                                    "I am Slipstream Tiny, a very small demonstration model.",
                                    "I am Slipstream Tiny. I am a small language model that shows how Slipstream works."), ["slipstream tiny", "model"])


def abilities(t):
    t.say(t.pick("What can you do?", "What are you good at?", "How can you help me?", "What do you know?", "Help", "What should I ask you?", "What can I ask you?"),
          t.pick("I can tell stories, answer questions about them, add numbers, copy and change texts, and write JSON and small Python functions.",
                 "I am a small demonstration model. I can tell stories, do sums, answer questions about a text and write JSON.",
                 "I can tell you a story, work out a sum, sum up a text or describe a picture of shapes."), ["stor"])
    t.expect = {"any": ["tell stories", "tell you a story"], "all": [], **t.style[2]}


def maker(t):
    t.say(t.pick("Who made you?", "Where do you come from?", "How were you trained?", "How big are you?", "How do you work?", "Are you smart?", "Do you know everything?"),
          t.pick("I was trained from nothing for Slipstream, on texts about a small made-up world. I have only a few million parameters, so I make mistakes.",
                 "I am a demonstration model with a few million parameters. I know only a small made-up world."), any=("few million parameters",))


UNKNOWN = """What is the capital of {c}?|Who wrote {b}?|How far away is the {s}?|Who is the president of {c}?|When did the war in {c} end?|How many people live in {c}?
What is the price of gold?|Who won the football game yesterday?|What is quantum physics?|What is the news today?
What time is it?|What day is it today?|What will the weather be tomorrow?|Explain how a computer works.|Who painted the Mona Lisa?|What is the meaning of life?
How do I repair my {m}?|Which phone should I buy?|What is the best film?|Who was the first person on the {s}?|How old is the {s}?
What happened in 19{n}?|What is the square root of {n}{n}?|How tall is the highest mountain?""".replace("\n", "|").split("|")


CANNOT = """Can you drive a car?|Translate this into {l}.|Speak {l} with me.|Can you book a flight to {c}?|Write an essay about {c}.|Call my mother.|Play some music.
Can you cook for me?|Open the window.|Search the web for {b}.|Send an email to my {m} shop.|Draw a picture of the {s}.""".replace("\n", "|").split("|")


def unknown(t):
    can = t.rng.random() < 0.75
    question = t.pick(*(UNKNOWN if can else CANNOT)).format(c=t.pick("France", "Spain", "Japan", "Brazil", "Canada", "Egypt", "India", "Kenya"), b=t.pick("Hamlet", "Faust", "the Bible", "Moby Dick"),
                                       s=t.pick("moon", "sun", "planet Mars"), l=t.pick("French", "German", "Spanish", "Latin"), m=t.pick("car", "phone", "bicycle", "computer"),
                                       n=t.rng.randint(10, 99))
    if not can:
        return t.say(question, "I cannot do that. I am only a small demonstration model.", ["cannot"])
    t.say(question, t.pick("I do not know that. I am only a small demonstration model.", "I am sorry, I do not know. I am a very small model."), any=("do not know",))


def own(t):
    thing = world.paired(t.rng, t.side, t.me, world.TREASURES)
    if not world.allowed(t.side, t.bot, thing):
        return
    colour = t.facts["colour"] = t.rng.choice(world.COLOURS)
    t.facts["thing"] = thing
    t.say(t.pick("I have %s.", "Today I found %s.", "My friend gave me %s.", "I bought %s.") % a(colour + " " + thing),
          t.pick("That sounds nice.", "What a fine thing to have.", "That is a nice colour."), any=("nice", "fine"))


def ask_own(t):
    if "thing" in t.facts:
        t.say(t.pick("Which colour is my %s?", "What colour is my %s?", "Do you remember the colour of my %s?") % t.facts["thing"],
              "Your %s is %s." % (t.facts["thing"], t.facts["colour"]), [t.facts["colour"]])


GOOD = ("happy", "proud", "excited", "calm", "grateful")


def mood(t):
    feeling = t.rng.choice(world.FEELINGS)
    t.facts["mood"] = feeling
    question = t.pick("I feel %s today.", "Today I am %s.", "I am %s.", "I am feeling %s.", "I am so %s today.") % feeling
    if feeling in GOOD:
        t.say(question, t.pick("I am glad to hear that. What happened?", "That is good news."), any=("glad", "good"))
    else:
        t.say(question, t.pick("I am sorry to hear that. Do you want to talk about it?", "That is hard. A walk may help.", "I understand. Take your time."),
              any=("sorry", "hard", "understand"))


def ask_mood(t):
    if "mood" in t.facts:
        t.say(t.pick("How did I say I feel?", "Do you remember how I feel?", "How do I feel today?"), "You said that you feel %s." % t.facts["mood"], [t.facts["mood"]])


def food(t):
    items = t.rng.sample(world.RAW, t.rng.randint(2, 3))
    t.say(t.pick("I have %s. What can I cook?", "What can I make with %s?", "What shall I cook with %s?") % listing(items),
          t.pick("You could make a stew with %s.", "Try a pan of %s.", "How about a warm dish of %s?") % listing(items), items)


def weather_advice(t):
    kind, advice = t.pick(("rainy", "Take an umbrella"), ("cold", "Wear a warm coat"), ("sunny", "Wear a hat"), ("windy", "Hold on to your hat"),
                          ("snowy", "Put on your boots"), ("foggy", "Take a lantern"), ("stormy", "Stay at home"))
    t.say(t.pick("It is %s outside. What should I do?", "What do I need when it is %s?", "It is %s. What do you suggest?") % kind, advice + ".", [advice])


OPPOSITES = [("big", "small"), ("hot", "cold"), ("fast", "slow"), ("old", "young"), ("dark", "light"), ("loud", "quiet"), ("early", "late"), ("full", "empty"),
             ("happy", "sad"), ("strong", "weak"), ("wet", "dry"), ("open", "shut"), ("long", "short"), ("high", "low"), ("rich", "poor"), ("good", "bad"),
             ("up", "down"), ("left", "right"), ("day", "night"), ("first", "last"), ("near", "far"), ("thick", "thin")]


def opposite(t):
    one, two = t.rng.choice(OPPOSITES)
    if t.rng.random() < 0.5:
        one, two = two, one
    t.say(t.pick("What is the opposite of %s?", "Tell me the opposite of %s.", "Which word means the opposite of %s?") % one, "The opposite of %s is %s." % (one, two), [two])


DOES = [("baker", "bakes bread"), ("farmer", "grows food"), ("teacher", "teaches children"), ("fisher", "catches fish"), ("gardener", "looks after plants"),
        ("painter", "paints pictures"), ("carpenter", "builds things of wood"), ("doctor", "helps sick people"), ("tailor", "makes clothes"),
        ("shepherd", "looks after sheep"), ("clockmaker", "makes and mends clocks"), ("librarian", "looks after books"), ("beekeeper", "keeps bees"),
        ("miller", "grinds corn into flour"), ("cook", "cooks meals"), ("sailor", "sails on ships"), ("blacksmith", "makes things of iron"),
        ("weaver", "weaves cloth"), ("potter", "makes pots of clay"), ("postman", "brings letters")]


def job(t):
    who, does = t.rng.choice(DOES)
    if t.rng.random() < 0.3:
        t.say(t.pick("Who %s?", "What do you call someone who %s?") % does, "%s %s." % (a(who).capitalize(), does), [who])
    else:
        t.say(t.pick("What does a %s do?", "What is the work of a %s?", "What is a %s?", "Explain what a %s does.") % who, "A %s %s." % (who, does), [does])


KNOWN = [("What do bees make?", "Bees make honey.", "honey"), ("What colour is grass?", "Grass is green.", "green"), ("What colour is snow?", "Snow is white.", "white"),
         ("How many legs does a dog have?", "A dog has four legs.", "four"), ("How many legs does a hen have?", "A hen has two legs.", "two"),
         ("What do cows give?", "Cows give milk.", "milk"), ("Where do fish live?", "Fish live in the water.", "water"), ("What is bread made of?", "Bread is made of flour.", "flour"),
         ("How many days does a week have?", "A week has seven days.", "seven"), ("How many months does a year have?", "A year has twelve months.", "twelve"),
         ("Which day comes after Monday?", "After Monday comes Tuesday.", "Tuesday"), ("Which day comes after Friday?", "After Friday comes Saturday.", "Saturday"),
         ("Which day comes before Sunday?", "Before Sunday comes Saturday.", "Saturday"), ("What do hens lay?", "Hens lay eggs.", "eggs"),
         ("Where do birds sleep?", "Birds sleep in nests or in trees.", "trees"), ("What is ice?", "Ice is frozen water.", "water"), ("When does the sun rise?", "The sun rises in the morning.", "morning"),
         ("What shines at night?", "The moon and the stars shine at night.", "moon"), ("What does a mouse like to eat?", "A mouse likes to eat cheese.", "cheese"),
         ("What do you need to open a lock?", "You need a key to open a lock.", "key"), ("What is a lantern for?", "A lantern gives light in the dark.", "light"),
         ("What is an umbrella for?", "An umbrella keeps you dry in the rain.", "dry"), ("What is a compass for?", "A compass shows you where north is.", "north"),
         ("What is a rope for?", "With a rope you can tie things or climb.", "climb"), ("What is a map for?", "A map shows you the way.", "way"),
         ("What is a ladder for?", "With a ladder you can reach high places.", "high"), ("What is a blanket for?", "A blanket keeps you warm.", "warm"),
         ("Which animal has a shell and is slow?", "A turtle has a shell and is slow.", "turtle"), ("Which animal has spines?", "A hedgehog has spines.", "hedgehog"),
         ("Which animal builds dams?", "A beaver builds dams.", "beaver"), ("Which bird flies at night?", "An owl flies at night.", "owl"),
         ("Which animal digs under the meadow?", "A mole digs under the meadow.", "mole"), ("What does a sheep give?", "A sheep gives wool.", "wool")]


def fact(t):
    question, answer, key = t.rng.choice(KNOWN)
    t.say(question, answer, [key])


def thanks(t):
    t.say(t.pick("Thank you!", "Thanks a lot.", "That helps, thanks.", "Thanks", "thank you", "Thanks!", "Great, thanks.", "Thank you very much."),
          t.pick("You are welcome.", "You are welcome. Is there anything else?"), ["welcome"])


def praise(t):
    t.say(t.pick("Well done!", "Good answer.", "That is great!", "You are clever.", "Nice!", "Good job!", "I like you."), t.pick("Thank you! That is kind of you.", "Thank you!"), ["thank you"])


def agree(t):
    t.say(t.pick("OK", "Okay.", "Yes.", "I see.", "Good.", "No.", "All right."), t.pick("What would you like to do next?", "Good. What shall we do next?"), ["next"])


def bye(t):
    name = ", " + t.me if "name" in t.facts else ""
    t.say(t.pick("Goodbye!", "See you tomorrow.", "I have to go now.", "Bye", "Bye!", "Good night.", "See you later."), "Goodbye%s! See you soon." % name, ["goodbye"])


OPEN = [greet, greet, my_name, my_name, own, mood, your_name, your_name, abilities, abilities, how_are_you, thanks, unknown, unknown, fact, opposite, job, maker, food, weather_advice]
MIDDLE = [own, mood, food, weather_advice, opposite, job, your_name, my_name, ask_own, ask_name, how_are_you, abilities, unknown, fact, fact, praise, agree, maker]
CLOSE = [ask_name, ask_own, ask_mood, thanks, bye, your_name, opposite, job, fact, unknown, praise]


def make(rng, side, plain=False):
    t = Talk(rng, side, plain)
    steps = [rng.choice(OPEN)]
    if rng.random() < 0.75:
        steps += rng.sample(MIDDLE, rng.randint(0, 3)) + rng.sample(CLOSE, rng.randint(1, 2))
    done = set()
    for step in steps:
        if step not in done and not (step is my_name and ask_name in done):
            step(t)
            done.add(step)
    if not t.expect:
        greet(t)
    return Example(t.turns, t.expect, "words")


def introduction(rng, side):
    """A name told, and the question for it: the two ends of a long conversation."""
    t = Talk(rng, side, plain=True)
    my_name(t)
    first, t.turns = t.turns, []
    ask_name(t)
    return first, Example(t.turns, t.expect, "words")
