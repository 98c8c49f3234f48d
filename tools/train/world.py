"""The small world that all training text is about, and the line between training and evaluation.

`split(key)` is a hash: one name in eight, and one pair of (name, thing) in eight, belong to the
evaluation and never occur in training text.  Everything is drawn from a `random.Random` that the
caller owns, so the same seed gives the same text.
"""
import zlib

_seen = {}


def split(key):
    """'train' or 'eval', the same for a key for ever."""
    side = _seen.get(key)
    if side is None:
        side = "eval" if zlib.crc32(("slipstream/" + key).encode()) % 8 == 0 else "train"
        if len(_seen) < 200000:
            _seen[key] = side
    return side


SHE = """Anna Mara Lina Rosa Ella Nora Ida Clara Mina Tilda Greta Hanna Julia Lucy Sofia Vera Wanda Zoe
Alma Bella Carla Dora Emma Fiona Gina Helen Irma Jana Kira Lotte Maya Nina Olga Petra Rita Sara Tessa
Ursula Vilma Yara Agnes Berta Celia Delia Edith Frida Gerda Ines Judith Karin Leona Marta Nadia Odette
Paula Ramona Selma Thea Alice Martha Ruth Amina Leila Priya Mei Yuki Chloe Naomi Stella Ingrid""".split()
HE = """Adam Ben Carl David Emil Finn Georg Hugo Ivan Jakob Karl Leo Max Nils Oscar Paul Rolf Sam Tom
Udo Viktor Walter Anton Boris Conrad Dario Erik Felix Gustav Henry Igor Jonas Klaus Lars Martin Noah Otto
Peter Quentin Robert Simon Theo Ulrich Vincent Willem Yusuf Aron Bruno Cyril Dylan Edgar Frank Gregor
Harald Isak Julian Kasper Lukas Milo Norman Olaf Pablo Ravi Stefan Tobias Kenji Omar Rashid Arthur""".split()
PETS = """Pip Bim Tuff Momo Nib Dot Rusty Fizz Biscuit Pepper Hazel Bramble Pickle Tansy Mops Juno Bobo
Kiko Lulu Minka Toto Zuzu Fluff Nutmeg""".split()
_START = "Ba Bel Da Dor Fa Fen Ga Gil Ha Hol Jo Ka Kel La Lor Ma Mir Na Nel Or Pa Pel Ra Rin Sa Sel Ta Tor Va Wil Yo Za".split()
_MIDDLE = "a bi da di lo la mi na no ra ri sa ti va vo".split()
_END = {"she": "la na ra ri sa tha ya via".split(), "he": "bin dan lo mir nik ric tor vin".split()}
# Parts of names that could be anybody's: what begins a syllable, its vowel, what ends it.
_ONSETS = "b c d f g h j k l m n p r s t v w z b d g h j k l m n r s t br ch cl dr fl fr gr gw kl kr pl qu sc sh sk sl sp st sv sw th tr tw vl wh x y".split()
_VOWELS = "a e i o u a e i o u a e i o y ai au ea ee ei eo ia ie io oa oo ou ua ue ya".split()
_TOWN_ENDS = ["ford", "bury", "ham", "field", "port", "stead", "well", "by", "mouth", "ton", ""]
_CODAS = "n r l s t m k n r l s d b g p x th ck ff ll nn rr ss tt ld lf lm ls lt mp nd ng nk ns nt rd rg rk rl rm rn rs rt sk st tz".split()

ANIMALS = """fox bear rabbit hedgehog owl mouse cat dog duck goose squirrel badger otter crow frog turtle
goat sheep pony pig hen wolf beaver mole sparrow donkey swan deer""".split()
SMALL = set("rabbit hedgehog mouse cat duck squirrel crow frog turtle hen mole sparrow owl".split())
JOBS = """baker farmer teacher fisher gardener painter carpenter doctor miller tailor postman shepherd
clockmaker librarian cook sailor blacksmith beekeeper weaver potter""".split()
TRAITS = "brave shy curious careful stubborn clever quiet cheerful patient kind proud lazy".split()
FEELINGS = "happy proud tired worried angry lonely excited calm nervous grateful".split()
WEATHER = """sunny rainy windy foggy cloudy stormy snowy cold warm icy""".split()
COLOURS = "red blue green yellow white black brown grey purple orange pink golden".split()
FOODS = """bread cheese soup apples honey porridge pancakes plums nuts cake berries carrots pears dumplings
beans rice""".split()
DISHES = "bread soup porridge pancakes cake dumplings rice beans".split()
RAW = "cheese apples honey plums nuts berries carrots pears beans rice".split()
COATS = "white black brown grey golden red".split()
TOWNS = """Ashford Brookdale Millbrook Stonebridge Eastham Fernhill Greyport Harrow Lakeside Oakwell
Pinehurst Redcliff Saltmarsh Thornbury Westbay Windmoor Elmstead Larkfield""".split()
EVENTS = ["the harvest feast", "the spring fair", "the lantern parade", "the boat race", "the winter market",
          "the village dance", "the school play", "the midsummer fire", "the kite day", "the apple fair"]

# place -> the preposition one is there with
PLACES = {"forest": "in", "market": "at", "river": "by", "mill": "at", "harbour": "at", "meadow": "in",
          "garden": "in", "school": "at", "library": "in", "bridge": "on", "hill": "on", "barn": "in",
          "lake": "by", "village": "in", "orchard": "in", "station": "at", "castle": "in", "beach": "on",
          "well": "by", "tower": "in", "kitchen": "in", "bakery": "in", "cave": "in", "field": "in",
          "church": "in", "island": "on", "workshop": "in", "stable": "in"}
PLACE_LIST = list(PLACES)
OUTDOORS = [p for p in PLACES if p not in ("kitchen", "bakery", "cave", "island", "library", "tower", "workshop")]

# thing -> (the trouble it gets one out of, what it may look like)
THINGS = {
    "lantern": ("dark", "brass old small green"), "candle": ("dark", "long white thick yellow"),
    "torch": ("dark", "bright heavy blue"), "rope": ("pit", "long strong thick grey"),
    "ladder": ("high", "tall wooden long"), "pole": ("high", "long wooden bent"),
    "boat": ("water", "small red leaky wooden"), "plank": ("water", "long broad wooden"),
    "raft": ("water", "flat wooden little"), "key": ("locked", "rusty silver tiny heavy iron"),
    "hairpin": ("locked", "silver thin bent"), "blanket": ("cold", "woollen warm grey striped"),
    "coat": ("cold", "thick brown long patched"), "scarf": ("cold", "red woollen long"),
    "pie": ("guard", "warm sweet big"), "sausage": ("guard", "fat smoked long"),
    "loaf": ("guard", "fresh brown round"), "map": ("lost", "old torn yellow folded"),
    "compass": ("lost", "brass small old"), "bell": ("fog", "silver little loud copper"),
    "whistle": ("fog", "tin shrill wooden"), "drum": ("fog", "round red loud"),
    "flute": ("sad", "wooden silver small"), "storybook": ("sad", "thick old blue"),
    "puppet": ("sad", "funny painted little"), "hammer": ("broken", "heavy old short"),
    "umbrella": ("rain", "big black blue striped"), "tent": ("rain", "small green patched"),
    "bucket": ("fire", "wooden tin old"), "knife": ("net", "sharp little folding"),
    "sickle": ("net", "sharp small silver"),
}
THING_LIST = list(THINGS)
TREASURES = ["marble", "button", "feather", "ring", "coin", "shell", "ribbon", "spoon", "kite", "ball", "doll",
             "basket", "hat", "cup", "stone", "clock", "mirror", "brush", "letter", "picture"]

_SIDES = {}


def _side(kind, items, side):
    key = (kind, side)
    if key not in _SIDES:
        _SIDES[key] = [x for x in items if split("name/" + x) == side]
    return _SIDES[key]


def eval_names():
    """Every listed name that training must not contain."""
    return _side("she", SHE, "eval") + _side("he", HE, "eval") + _side("pet", PETS, "eval")


def wild_name(rng):
    """Almost any word that can be said: short or long, open or closed.  A model cannot know these; it must copy."""
    out = ""
    for i in range(rng.choice((1, 1, 2, 2, 2, 3))):
        out += (rng.choice(_ONSETS) if i or rng.random() < 0.85 else "") + rng.choice(_VOWELS)
        if rng.random() < 0.45:
            out += rng.choice(_CODAS)
    if len(out) < 3:
        out += rng.choice(_CODAS)
    return out.capitalize()


def invented_name(rng, gender, side):
    """A name nobody has, of this side of the split: of pleasant syllables, or wild."""
    while True:
        if rng.random() < 0.7:
            name = wild_name(rng)
        else:
            name = rng.choice(_START) + (rng.choice(_MIDDLE) if rng.random() < 0.85 else "") + rng.choice(_END[gender])
        if split("name/" + name) == side:
            return name


def name(rng, side, gender):
    """A first name of that side of the split.  Half of those in training are invented, so that names are copied and not known."""
    if rng.random() < (0.5 if side == "train" else 0.2):
        return invented_name(rng, gender, side)
    return rng.choice(_side(gender, SHE if gender == "she" else HE, side))


def pet_name(rng, side):
    if rng.random() < (0.4 if side == "train" else 0.1):
        return invented_name(rng, "she", side)
    return rng.choice(_side("pet", PETS, side))


def names(rng, side, n):
    """n different names."""
    out = []
    while len(out) < n:
        one = name(rng, side, rng.choice(("she", "he")))
        if one not in out:
            out.append(one)
    return out


def paired(rng, side, who, items):
    """One of items that goes with `who` on this side: training never sees the held-out pairs."""
    for _ in range(8):
        item = rng.choice(items)
        if split(who + "/" + item) == side:
            return item
    fitting = [x for x in items if split(who + "/" + x) == side]
    if fitting:
        return rng.choice(fitting)
    if side == "eval":
        return item
    raise ValueError("no %s of %s is free for training" % (items, who))


def allowed(side, who, item):
    """Whether the pair may be used on this side (evaluation may use every pair)."""
    return side == "eval" or split(who + "/" + item) == "train"


def animal(rng):
    return rng.choice(ANIMALS)


def town(rng):
    if rng.random() < 0.25:
        return wild_name(rng) + rng.choice(_TOWN_ENDS)
    return rng.choice(TOWNS)


def towns(rng, n):
    """n different towns."""
    out = []
    while len(out) < n:
        one = town(rng)
        if one not in out:
            out.append(one)
    return out


def temperature(rng, weather):
    """Degrees that fit the weather."""
    low, high = {"sunny": (12, 34), "warm": (16, 30), "cold": (-5, 8), "snowy": (-9, 1), "icy": (-12, 0)}.get(weather, (4, 20))
    return rng.randint(low, high)
