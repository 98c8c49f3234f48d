"""Plots of a way: a thing that helps, kindness returned, a warning ignored, a race."""
import world
from grammar import a, count_word
from tasks.cast import Story
from tasks.story_parts import ending, getting, give_thing, goal, opening, trouble
from tasks.troubles import TROUBLES


def tool(rng, side, hero=None, thing=None):
    """The hero gets a thing that later gets the hero out of trouble."""
    s = Story(rng, side, hero)
    opening(s, rng.choice(world.OUTDOORS))
    if s.hero.trait not in s.hero.intro:
        s.maybe(0.4, "{^h} [be] known to be {trait}.", "People [say/p] that {h} [be] {trait}.")
    s.slots["trait"] = s.hero.trait
    noun = give_thing(s, items=[thing] if thing else None)
    getting(s)
    s.para()
    reached = goal(s)
    s.say("So {h} [pack] {hp} things and [set] out.", "\"I will go today,\" {H} [say].",
          "Nobody [want/w] to come along, so {h} [go] alone.", "\"Take care,\" {hp} mother [say/w]. \"I will,\" {H} [say].")
    danger = trouble(s, noun)
    s.para()
    s.say(*danger["meet"])
    s.maybe(0.6, "\"What now?\" {h} [whisper].", "{^h} [think] for a long time.", "For a moment {h} [want] to turn back.",
            "\"I must not give up,\" {H} [tell] {hr}.")
    s.say(*danger["solve"])
    s.event("{H} [use] the {X} because " + danger["why"] + ".")
    s.ask("why", "Why did {H} need the {X}?", "{^H} needed the {X} because " + danger["why"] + ".", danger["why"])
    s.ask("what", "What helped {H}?", "The {X} helped {H}.", "{X}", [x for x in ("rope", "key", "map") if x != noun])
    s.para()
    s.say(reached)
    s.event(reached)
    ending(s, "a small thing can be a great help")
    s.gist = "{H} [get] {aX}, and later it [help/w] {ho} when {hp} way [be/w] blocked."
    s.topic = [s.hero, noun]
    return s


LARGE = ("ladder", "boat", "raft", "plank", "pole", "tent")


def kindness(rng, side, hero=None, thing=None):
    """The hero helps a stranger; later the stranger saves the hero with something else."""
    s = Story(rng, side, hero)
    opening(s, rng.choice(world.OUTDOORS))
    noun = give_thing(s, items=[thing] if thing else None)
    friend = s.other("W")
    s.say("{^h} [carry] {aX} that {day}.", "{^h} [be] on the way home with {aX}.", "With {ho} {h} [have] {aX}.",
          "In {hp} bag [be/w] {aX}." if noun not in LARGE else "{^h} [have] just borrowed {aX}.")
    danger = trouble(s, noun)
    s.para()
    s.say("There {h} [meet] {Wi}.", "By chance {Wi} [be/w] there too.", "Then {h} [hear] a noise and [see] {Wi}.")
    s.say(*danger["other"])
    s.maybe(0.7, "\"Please help me!\" {W} [beg/w].", "\"Can you do something?\" {W} [ask/w].",
            "\"Do not worry, I am coming!\" {H} [call].", "\"Wait,\" {H} [say], \"I have an idea.\"")
    s.say(*danger["rescue"])
    s.event("{H} [help] {W} with the {X}.")
    s.say("\"Thank you, {N},\" {W} [say/w]. \"I will not forget it.\"", "\"One day I will do the same for you,\" {W} [promise/w].",
          "{^W} [thank/w] {ho} and [go/w] on.")
    s.ask("who", "Who needed help first?", "{^W} needed help first.", "{W}", [s.hero.mention])
    s.ask("what", "What did {H} use to help {W}?", "{^H} used the {X}.", "{X}")
    tool2 = rng.choice([x for x in world.THING_LIST if world.THINGS[x][0] != world.THINGS[noun][0]
                         and world.allowed(side, friend.key, x)])
    old = s.slots["T"]
    s.slots["later"] = rng.choice(("three days", "a week", "a month", "a year"))
    s.para()
    saved = TROUBLES[world.THINGS[tool2][0]]
    s.slots.update(T2=rng.choice([t for t in saved["at"] if t != old] or saved["at"]), Y=tool2, later=s.slots["later"])
    s.say(second("{^later} later {h} [be] in trouble {hr}. " + rng.choice(saved["meet"])),
          second("But {later} later it [be/w] {Hs} turn. " + rng.choice(saved["meet"])))
    s.say("Just then {W} [come/w] along with " + a(tool2) + ".",
          "And who [stand/w] there? {^W}, with " + a(tool2) + "!")
    s.say("\"You helped me, so now I help you,\" {W} [say/w]. With the {Y} it [be/w] soon done.",
          "{^Ws} [do/w] not waste a word, and with the {Y} everything [be/w] soon all right.",
          "\"Now it is my turn,\" {W} [say/w], and [use/w] the {Y} to help {ho}.")
    s.event("{^later} later {W} [help/w] {H} with the {Y}.")
    s.ask("what", "What did {W} bring to help {H}?", "{^W} brought the {Y}.", "{Y}", [noun])
    s.ask("why", "Why did {W} help {H}?", "{^W} helped because {H} had helped {Wo} before.", "had helped")
    s.ask("when", "How much later did {W} help {H}?", "It was {later} later.", "{later}")
    s.para()
    s.say("So the two of {them} [become/p] friends.", "{they} [walk/p] home together and [talk/p] all the way.")
    ending(s, "kindness comes back")
    s.event("The two of them [be/p] friends after that.")
    s.gist = "{H} [help] {W} with the {X}, and later {W} [help/w] {H} with the {Y}."
    s.topic = [s.hero, noun]
    return s


def second(template):
    return template.replace("{T}", "{T2}")


# troubles that one meets alone and out of doors, and what helps against them
OUT_THERE = {"dark", "lost", "fog", "rain", "cold", "water", "pit", "high"}
OUT_THINGS = [x for x in world.THING_LIST if world.THINGS[x][0] in OUT_THERE]
# the rule, how it is broken, what comes of it, the words of the answer, and the things that help (None: any)
RULES = [
    ("Do not go out after sunset", "[go] out after sunset", "{h} [can] not find the way back", "go out after sunset", None),
    ("Do not leave the path", "[leave] the path to pick flowers", "{h} [be] far from home", "leave the path", None),
    ("Do not cross the old bridge", "[run] across the old bridge", "the bridge [crack/w] behind {ho}",
     "cross the old bridge", None),
    ("Do not follow the geese", "[follow] the geese over the hill", "the geese [be/p] gone and {h} [be] alone",
     "follow the geese", None),
    ("Do not open the blue box", "[open] the blue box", "a swarm of bees [fly/w] out and [chase/w] {ho}",
     "open the blue box", ["blanket", "coat", "tent"]),
    ("Do not feed the big dog", "[feed] the big dog", "the dog [want/w] more and [will/w] not let {ho} go",
     "feed the big dog", ["sausage", "loaf", "pie"]),
    ("Do not climb the tower", "[climb] the tower", "the stairs [break/p] behind {ho}", "climb the tower",
     ["ladder", "rope"]),
    ("Do not shut the cellar door", "[shut] the cellar door from inside", "the lock [snap/w] shut",
     "shut the cellar door", ["key", "hairpin"])]


def warning(rng, side, hero=None, thing=None):
    """A warning is ignored, and that has consequences."""
    s = Story(rng, side, hero)
    opening(s, rng.choice(world.OUTDOORS))
    rules = [r for r in RULES if not r[4] or (thing in r[4] if thing else
                                              any(world.split(s.hero.key + "/" + x) == side for x in r[4]))]
    rule, deed, result, key, items = rng.choice(rules)
    noun = give_thing(s, items=[thing] if thing else items or OUT_THINGS)
    s.other("W")
    danger = trouble(s, noun)
    s.slots["rule"] = rule
    s.say("\"{rule},\" {Wi} [tell/w] {ho}.", "\"Whatever you do, {N},\" [say/w] {Wi}, \"remember: {rule}!\"".replace("{rule}", rule[0].lower() + rule[1:]))
    s.say("\"Why not?\" {H} [ask]. But {W} only [shake/w] {Wp} head.", "\"Yes, yes,\" {H} [say], without listening.",
          "{H} [promise].")
    s.event("{^W} [tell/w] {H} not to " + key + ".")
    s.para()
    s.say("The same {day} {H} " + deed + ".", "But {h} [be] curious. As soon as nobody [look/w], {h} " + deed + ".")
    s.say("At first it [be/w] fun. Then " + result + ".", "A moment later " + result + ".")
    s.event("{H} " + deed + " all the same.")
    if not items:
        s.say(*danger["meet"])
    s.ask("what", "What did {W} tell {H} not to do?", "{^W} told {H} not to " + key + ".", key)
    s.ask("who", "Who warned {H}?", "{^W} warned {H}.", "{W}")
    s.para()
    s.say("\"Help!\" {h} [call]. It [take/w] a long time until {W} [come/w] with {aX}.",
          "Luckily {W} [have/w] followed {ho}, and [have/w] brought {aX}.")
    s.say("With the {X} {they} [get/p] home at last.", "The {X} [be/w] just what {they} [need/p].")
    s.event("{^W} [save/w] {H} with {aX}.")
    s.ask("what", "What did {W} bring?", "{^W} brought {aX}.", "{X}")
    s.say("\"I should have listened,\" {H} [say] in a small voice.", "\"I told you so,\" {W} [say/w], but {Ws} [smile/w].")
    ending(s, "one should think before acting")
    s.gist = "{H} [do] not listen to {W}, [get] into trouble and [be] saved with the {X}."
    s.topic = [s.hero, noun]
    return s


def contest(rng, side, hero=None, thing=None):
    """A race: the hero stops to help, loses the race and wins something else, or the other way round."""
    s = Story(rng, side, hero)
    opening(s, rng.choice(world.OUTDOORS))
    noun = give_thing(s, items=[thing] if thing else world.TREASURES)
    s.other("W")
    rivals = s.slots["n"] = count_word(rng.randint(3, 9))
    s.slots["sport"] = rng.choice(("running race", "sack race", "pony race", "cart race", "long run", "hill race"))
    s.slots["sick"] = rng.choice(("dropped all {Wp} things", "hurt {Wp} foot", "lost {Wp} hat", "forgotten {Wp} lunch")).replace("{Wp}", s.slots["Wp"])
    s.say("Every year there [be/w] a {sport} in {town}, and the prize [be/w] {aX}.",
          "The winner of the {sport} in {town} [will/w] get {aX}.")
    s.say("{n} others [take/p] part, and {H} [have] practised for weeks.", "{H} [be] one of {n} who [try/p]." if rivals != "three" else
          "{H} [want] to win it badly.")
    s.event("{H} [want] to win {aX} in the {sport}.")
    s.para()
    s.say("On the great day {h} [be] almost there when {h} [see] {Wi}, who [have/w] {sick}.")
    s.say("\"Go on, you will lose!\" someone [shout/w].", "\"Never mind me,\" {W} [say/w].", "The others [hurry/p] past.")
    won = rng.random() < 0.4
    s.say("But {H} [stop] and [help].", "{H} [look] at the others, then at {W}, and [stop].")
    s.event("{H} [stop] to help {W}, who [have/w] {sick}.")
    s.ask("why", "Why did {H} stop?", "{^H} stopped because {W} had {sick}.", s.slots["sick"])
    s.ask("what", "What was the prize?", "The prize was {aX}.", "{X}")
    s.para()
    if won:
        s.say("\"Then take the short way,\" {W} [say/w]. \"Hardly anyone knows it.\"")
        s.say("It [be/w] true. {H} [come] in first, and the {X} [be/w] {hp} own.")
        s.event("{^W} [show/w] {H} a short way, and {H} [win] the {X}.")
        s.ask("did", "Did {H} win?", "Yes, {H} won the {X}.", "yes", ["no"])
    else:
        s.say("{H} [be] the last of all. The {X} [go/w] to somebody else.", "When {h} [arrive], the prize [be/w] already gone.")
        s.say("But the judge [have/w] seen everything. \"The best heart also gets a prize,\" she [say/w], and [give/w] {ho} a golden ribbon.",
              "But {W} [wait/w] for {ho} with a warm cake. \"For a friend,\" {Ws} [say/w]. It [be/w] better than any {X}.")
        s.event("{H} [lose] the race but [find] a friend.")
        s.ask("did", "Did {H} win the {X}?", "No, {H} did not win the {X}.", "no", ["yes"])
    ending(s, "kindness comes back")
    s.gist = "{H} [stop] in the middle of the {sport} to help {W}."
    s.topic = [s.hero, noun]
    return s
