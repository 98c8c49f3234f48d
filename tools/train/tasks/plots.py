"""Plot grammars: what happens in a story and why.  Each plot plans a `Story`; none writes fixed text."""
import world
from grammar import a, count_word, listing
from tasks.cast import Story, Who
from tasks.troubles import TROUBLES

DAYPARTS = ["morning", "afternoon", "evening", "day"]


def _opening(s, place):
    rng = s.rng
    s.slots.update(P=place, inP=world.PLACES[place] + " the " + place, day=rng.choice(DAYPARTS), aw="",
                   weather=rng.choice(world.WEATHER), town=world.town(rng))
    s.slots["aw"] = a(s.slots["weather"])
    s.say("There [be/w] once {Hi} who [live/w] near the {P}.",
          "Once upon a time {Hi} [live/w] near the {P}.",
          "It [be/w] {aw} {day} in {town}, and {Hi} [be/w] {inP}.",
          "One {weather} {day} {Hi} [go/w] to the {P}.",
          "Near {town}, not far from the {P}, [live/w] {Hi}.",
          "Everybody in {town} [know/w] {Hi}, who [spend/w] every {day} {inP}.")
    first = s.paras[-1]
    # In the first person the narrator introduces himself instead.
    first[-1] = FirstLine(first[-1], s.rng.choice((
        "I [be] {Hi2}, and this [be/w] {aw} {day} {inP}.", "It [be/w] {aw} {day}, and I [be] {inP}.",
        "I [live] near the {P} in those days.")))
    s.slots["Hi2"] = s.hero.intro if not s.hero.name else s.hero.name


class FirstLine(str):
    """A template that has another wording when the hero tells the story."""

    def __new__(cls, third, first):
        self = super().__new__(cls, third)
        self.first = first
        return self


def _thing(s, who=None, items=None, slot="X"):
    """A thing for the hero, with looks; sets X, aX ('a rusty key') and returns the bare noun."""
    noun = world.paired(s.rng, s.side, (who or s.hero).key, items or world.THING_LIST)
    looks = world.THINGS[noun][1].split() if noun in world.THINGS else world.COLOURS + ["small", "old"]
    look = s.rng.choice(looks)
    s.slots.update({slot: noun, "a" + slot: a(look + " " + noun), "look" + slot: look})
    if noun in world.PLURAL_THINGS:
        s.slots["a" + slot] = "a pair of " + look + " " + noun
    return noun


def _getting(s):
    """How the hero comes to have X."""
    how = s.rng.choice(("found", "bought", "was given", "made"))
    if how == "found":
        s.say("Under a bush {h} [find] {aX}.", "On the way {h} [find] {aX} in the grass.",
              "Behind an old wall something [catch/w] {hp} eye. It [be/w] {aX}.")
    elif how == "bought":
        n = s.rng.randint(2, 9)
        s.slots["coins"] = count_word(n)
        s.say("At the market {h} [buy] {aX} for {coins} coins.",
              "{H} [pay] {coins} coins for {aX}, which [be/w] all the money {h} [have].")
        s.ask("how many", "How many coins did {H} pay for the {X}?", "{^H} paid {coins} coins.", "{coins}")
    elif how == "was given":
        s.slots["giver"] = s.rng.choice(("grandmother", "uncle", "aunt", "neighbour", "teacher", "brother"))
        s.say("That {day} {hp} {giver} [give/w] {ho} {aX}. \"You will need it one day,\" the {giver} [say/w].",
              "\"Take this,\" {hp} {giver} [say/w], and [put/w] {aX} into {hp} hands.")
        s.ask("who", "Who gave {H} the {X}?", "The {giver} gave it to {H}.", "{giver}")
    else:
        s.say("All week {h} [have] worked on {aX}, and now it [be/w] ready.",
              "{H} [be] good at making things. This time {h} [have] made {aX}.")
    s.event({"found": "{H} [find] {aX}.", "bought": "{H} [buy] {aX}.", "was given": "{H} [get] {aX} from {hp} {giver}.",
             "made": "{H} [make] {aX}."}[how])


GOALS = [("{H} [want] to get to {town} in time for {feast}.", "get to {feast}", "At {feast} everyone [cheer/w] when {h} [arrive]."),
         ("{Hs} friend [be/w] ill in {town}, and {H} [want] to bring {fp} some {food}.", "bring {food} to a sick friend",
          "The friend [eat/w] the {food} and [smile/w] for the first time in days."),
         ("{H} [have] to carry a letter to {town} before sunset.", "carry a letter to {town}",
          "The letter [arrive/w] just as the sun [touch/w] the roofs."),
         ("{H} [long] to see the sea, which [lie/w] behind {town}.", "see the sea",
          "And there [be/w] the sea at last, blue and endless."),
         ("{H} [hope] to sell {hp} {food} in {town}.", "sell {food} in {town}", "By noon all the {food} [be/w] sold."),
         ("Far away in {town} {hp} sister [be/w] waiting, and {H} [have] promised to visit her.", "visit a sister in {town}",
          "{Hs} sister [run/w] out of the house and [hug/w] {ho}."),
         ("A strange light [shine/w] every night above {town}, and {H} [want] to know why.", "find out about the light above {town}",
          "The light, it [turn/w] out, [be/w] only a mirror on the church tower. {H} [laugh] out loud.")]


def _goal(s):
    rng = s.rng
    want, goal, reached = rng.choice(GOALS)
    s.slots.update(feast=rng.choice(world.EVENTS), food=rng.choice(world.FOODS), fp=rng.choice(("him", "her")),
                   town=world.town(rng))
    s.say(want)
    s.event(want)
    s.ask("why", "Why did {H} set out?", "{^H} wanted to " + goal + ".", goal.split(" {")[0] if "{town}" in goal else goal)
    return reached


def _trouble(s, thing, slot="T"):
    trouble = TROUBLES[world.THINGS[thing][0]]
    s.slots[slot] = s.rng.choice(trouble["at"])
    return trouble


MORALS = ["kindness comes back", "a small thing can be a great help", "one should think before acting",
          "sharing makes things better", "it is never too late to say sorry", "patience pays",
          "a promise is a promise", "asking for help is no shame"]


def _ending(s, moral=None):
    s.slots["moral"] = moral or s.rng.choice(MORALS)
    s.slots["feel"] = s.rng.choice(("happy", "proud", "tired but happy", "grateful", "calm"))
    s.say("From that day on {h} [know] that {moral}.", "{H} [be] {feel} and [sleep] well that night.",
          "And whenever it [be/w] {weather}, {H} [think] of that day.", "{^h} [go] home {feel}.",
          "\"Well,\" {H} [say], \"I will not forget this.\"", "That night {h} [tell] the whole story at home, twice.",
          "{^h} [learn] something that {day}: {moral}.")


def tool(rng, side, hero=None, thing=None):
    """The hero gets a thing that later gets the hero out of trouble."""
    s = Story(rng, side, hero)
    _opening(s, rng.choice(world.OUTDOORS))
    s.maybe(0.4, "{^h} [be] known to be {trait}.", "People [say/p] that {h} [be] {trait}.")
    s.slots["trait"] = s.hero.trait
    noun = _thing(s, items=[thing] if thing else None)
    _getting(s)
    s.para()
    reached = _goal(s)
    s.say("So {h} [pack] {hp} things and [set] out.", "\"I will go today,\" {H} [say].",
          "Nobody [want/w] to come along, so {h} [go] alone.", "\"Take care,\" {hp} mother [say/w]. \"I will,\" {H} [say].")
    trouble = _trouble(s, noun)
    s.para()
    s.say(*trouble["meet"])
    s.maybe(0.6, "\"What now?\" {h} [whisper].", "{^h} [think] for a long time.", "For a moment {h} [want] to turn back.",
            "\"I must not give up,\" {H} [tell] {hr}.")
    s.say(*trouble["solve"])
    s.event("{H} [use] the {X} because " + trouble["why"] + ".")
    s.ask("why", "Why did {H} need the {X}?", "{^H} needed the {X} because " + trouble["why"] + ".", trouble["why"])
    s.ask("what", "What helped {H}?", "The {X} helped {H}.", "{X}", [x for x in ("rope", "key", "map") if x != noun])
    s.para()
    s.say(reached)
    s.event(reached)
    _ending(s, "a small thing can be a great help")
    s.gist = "{H} [get] {aX}, and later it [help/w] {ho} when {hp} way [be/w] blocked."
    s.topic = [s.hero, noun]
    return s


def kindness(rng, side, hero=None, thing=None):
    """The hero helps a stranger; later the stranger saves the hero with something else."""
    s = Story(rng, side, hero)
    _opening(s, rng.choice(world.OUTDOORS))
    noun = _thing(s, items=[thing] if thing else None)
    friend = s.other("W")
    s.say("{^h} [carry] {aX}, as {h} always [do].", "In {hp} bag [be/w] {aX}.", "{^h} [be] on the way home with {aX}.")
    trouble = _trouble(s, noun)
    s.para()
    s.say("There {h} [meet] {Wi}.", "By chance {Wi} [be/w] there too.", "Then {h} [hear] a noise and [see] {Wi}.")
    s.say(*trouble["other"])
    s.maybe(0.7, "\"Please help me!\" {W} [beg/w].", "\"Can you do something?\" {W} [ask/w].",
            "\"Do not worry, I am coming!\" {H} [call].", "\"Wait,\" {H} [say], \"I have an idea.\"")
    s.say(*trouble["rescue"])
    s.event("{H} [help] {W} with the {X}.")
    s.say("\"Thank you, {N},\" {W} [say/w]. \"I will not forget it.\"", "\"One day I will do the same for you,\" {W} [promise/w].",
          "{^W} [thank/w] {ho} and [go/w] on.")
    s.ask("who", "Who needed help first?", "{^W} needed help first.", "{W}", [s.hero.mention])
    s.ask("what", "What did {H} use to help {W}?", "{^H} used the {X}.", "{X}")
    second = rng.choice([x for x in world.THING_LIST if world.THINGS[x][0] != world.THINGS[noun][0]
                         and world.allowed(side, friend.key, x)])
    old = s.slots["T"]
    s.slots["later"] = rng.choice(("three days", "a week", "a month", "a year"))
    s.para()
    saved = TROUBLES[world.THINGS[second][0]]
    s.slots.update(T2=rng.choice([t for t in saved["at"] if t != old] or saved["at"]), Y=second, later=s.slots["later"])
    s.say(_second("{^later} later {h} [be] in trouble {hr}. " + rng.choice(saved["meet"])),
          _second("But {later} later it [be/w] {Hs} turn. " + rng.choice(saved["meet"])))
    s.say("Just then {W} [come/w] along with " + ("scissors" if second == "scissors" else a(second)) + ".",
          "And who [stand/w] there? {^W}, with " + ("scissors" if second == "scissors" else a(second)) + "!")
    s.say("\"You helped me, so now I help you,\" {W} [say/w]. With the {Y} it [be/w] soon done.",
          "{^Ws} [do/w] not waste a word, and with the {Y} everything [be/w] soon all right.",
          "\"Now it is my turn,\" {W} [say/w], and [use/w] the {Y} to help {ho}.")
    s.event("{^later} later {W} [help/w] {H} with the {Y}.")
    s.ask("what", "What did {W} bring to help {H}?", "{^W} brought the {Y}.", "{Y}", [noun])
    s.ask("why", "Why did {W} help {H}?", "{^W} helped because {H} had helped {Wo} before.", "had helped")
    s.ask("when", "How much later did {W} help {H}?", "It was {later} later.", "{later}")
    s.para()
    s.say("After that the two of {them} [be/p] friends.", "{they} [walk/p] home together and [talk/p] all the way.")
    _ending(s, "kindness comes back")
    s.event("The two of them [be/p] friends after that.")
    s.gist = "{H} [help] {W} with the {X}, and later {W} [help/w] {H} with the {Y}."
    s.topic = [s.hero, noun]
    return s


def _second(template):
    return template.replace("{T}", "{T2}")


def lost(rng, side, hero=None, thing=None):
    """Something is missing; the hero searches, and someone had a reason to take it."""
    s = Story(rng, side, hero)
    _opening(s, rng.choice(world.OUTDOORS))
    noun = _thing(s, items=[thing] if thing else world.TREASURES)
    helper = s.other("W")
    spots = rng.sample([p for p in world.PLACE_LIST if p != s.slots["P"]], 3)
    n = rng.choice((2, 3))
    s.say("{^h} [have] {aX} and [love] it more than anything.", "{Hs} dearest thing [be/w] {aX}.")
    s.say("One {day} the {X} [be/w] gone.", "But when {h} [wake] up, the {X} [be/w] not there.",
          "Then {h} [put] {hp} hand in {hp} pocket. The {X} [be/w] missing!")
    s.event("{Hs} {X} [be/w] gone.")
    s.maybe(0.6, "\"Where can it be?\" {h} [cry].", "\"I had it yesterday,\" {H} [say].", "{^h} [search] under the bed first.")
    s.para()
    words = ("First", "Then", "After that")
    for i, spot in enumerate(spots[:n]):
        s.slots["S%d" % i] = spot
        s.slots["inS%d" % i] = world.PLACES[spot] + " the " + spot
    found = n - 1
    for i in range(found):
        s.say(words[i] + " {h} [look] {inS%d}, but it [be/w] not there." % i,
              words[i] + " {h} [go] to the {S%d}. Nothing." % i)
        s.event("{H} [search] {inS%d}." % i)
    s.slots.update(F=spots[found], inF=s.slots["inS%d" % found])
    s.say("At last, {inF}, {h} [meet] {Wi}.", "{^inF} [stand/w] {Wi}.")
    reason, deed = rng.choice((
        ("{Ws} wanted to show it to {Wp} children", "show it to {Wp} children"),
        ("{Ws} thought that nobody wanted it", "keep it, because nobody seemed to want it"),
        ("{Ws} wanted to give it a good clean", "give it a good clean"),
        ("{Ws} needed it for {feast}", "take it to {feast}"),
        ("{Ws} wanted to keep it safe from the rain", "keep it safe from the rain")))
    s.slots["feast"] = rng.choice(world.EVENTS)
    s.slots["reason"] = reason.replace("{Ws}", s.slots["Ws"]).replace("{Wp}", s.slots["Wp"]).replace("{feast}", s.slots["feast"])
    s.slots["deed"] = deed.replace("{Wp}", "my").replace("{feast}", s.slots["feast"])
    s.say("\"Is that my {X}?\" {H} [ask].", "In {Wp} hands [be/w] the {X}. \"That is mine!\" {H} [say].")
    s.say("\"I found it on the road,\" {W} [say/w]. \"I wanted to {deed}. I am sorry.\"",
          "{^W} [blush/w]. \"I only wanted to {deed},\" {Ws} [say/w].")
    s.event("{H} [find] {W} with the {X} {inF}.")
    s.ask("who", "Who had the {X}?", "{^W} had the {X}.", "{W}", [s.hero.mention])
    s.ask("where", "Where did {H} find the {X}?", "{^H} found it {inF}.", "{F}", spots[:found])
    s.ask("why", "Why had {W} taken the {X}?", "{^W} had taken it because {reason}.", s.slots["reason"].split(" ", 1)[1])
    if found == 2:
        s.ask("order", "Where did {H} look first?", "{^H} looked {inS0} first.", "{S0}", [spots[1]])
        s.slots["tried"] = count_word(3)
    s.ask("what", "What did {H} lose?", "{^H} lost {aX}.", "{X}")
    s.para()
    if rng.random() < 0.5:
        s.say("{H} [be] angry at first. Then {h} [think] about it and [nod].", "{H} [take] a deep breath.")
        s.say("\"You can borrow it on Sundays,\" {h} [say], and {W} [laugh/w] with joy.",
              "\"Let us share it,\" {h} [say]. \"You have it one week, and I the next.\"")
        s.event("{H} [share] the {X} with {W}.")
        _ending(s, "sharing makes things better")
    else:
        s.say("{^W} [give/w] it back at once, and {H} [say] thank you.", "{^W} [hand/w] it over with both hands.")
        s.say("To make up for it, {W} [invite/w] {ho} to supper.", "\"Next time, ask me,\" {H} [say], and {they} [shake/p] hands.")
        s.event("{^W} [give/w] the {X} back.")
        _ending(s, "it is never too late to say sorry")
    s.gist = "{H} [lose] the {X} and [find] it again with {W} {inF}."
    s.topic = [s.hero, noun]
    return s


def quarrel(rng, side, hero=None, thing=None):
    """Two want the same thing; the quarrel costs them something; they make up."""
    s = Story(rng, side, hero)
    _opening(s, rng.choice(world.OUTDOORS))
    noun = _thing(s, items=[thing] if thing else world.TREASURES)
    s.other("W")
    s.say("{Hs} best friend [be/w] {Wi}.", "{^h} often [play] with {Wi}.")
    s.say("One day {they} [find/p] {aX} {inP}.", "Together {they} [dig/p] up {aX} {inP}.")
    s.event("{H} and {W} [find/p] {aX}.")
    s.para()
    s.say("\"I saw it first!\" {H} [shout]. \"No, I did!\" {W} [shout/w] back.", "\"It is mine,\" {H} [say] at once.",
          "\"Give it to me,\" {H} [say]. \"I need it more than you.\"")
    s.say("\"Let go!\" {W} [shout/w].", "\"That is not fair,\" {W} [say/w] and [pull/w] at it.",
          "\"You always get everything,\" {W} [cry/w].")
    s.ask("why", "Why did {H} and {W} quarrel?", "They quarrelled because both wanted the {X}.", "both wanted the {X}")
    loss = rng.choice(("broke", "river", "thief"))
    thief = rng.choice([x for x in ("crow", "magpie", "raven") if x != s.hero.kind])
    s.slots["thief"] = thief
    if loss == "broke":
        s.say("{they} [pull/p] harder and harder, until the {X} [break/w] in two.", "Crack! The {X} [fall/w] down and [break/w].")
        s.ask("what happened", "What happened to the {X}?", "The {X} broke.", "broke")
        s.event("They [quarrel/p], and the {X} [break/w].")
    elif loss == "river":
        s.say("In the fight the {X} [fly/w] out of {their} hands and [fall/w] into the water.")
        s.ask("what happened", "What happened to the {X}?", "It fell into the water.", "water")
        s.event("They [quarrel/p], and the {X} [fall/w] into the water.")
    else:
        s.say("While {they} [shout/p], a {thief} [fly/w] down and [steal/w] the {X}.")
        s.ask("who", "Who stole the {X}?", "A {thief} stole it.", "{thief}", [s.hero.mention, s.slots["W"]])
        s.event("They [quarrel/p], and a {thief} [steal/w] the {X}.")
    s.say("Suddenly it [be/w] very quiet.", "Now neither of {them} [have/w] anything.", "Nobody [say/w] a word for a while.")
    s.para()
    first = rng.random() < 0.5
    s.slots["A"], s.slots["B"] = (s.hero.mention, s.slots["W"]) if first else (s.slots["W"], s.hero.mention)
    days = s.slots["days"] = rng.choice(("the next morning", "that evening", "two days later", "after an hour"))
    if first:
        s.say("{^days} {H} [knock] on {W}'s door. \"I am sorry,\" {h} [say].",
              "{^days} {H} [go] to {W} with a piece of cake. \"Will you forgive me?\" {h} [ask].")
        s.say("\"I am sorry too,\" {W} [say/w].", "{^W} [smile/w]. \"Of course,\" {Ws} [say/w].")
    else:
        s.say("{^days} {W} [stand/w] at {Hs} door. \"I was wrong,\" {Ws} [say/w].")
        s.say("\"So was I,\" {H} [say], and [let] {Wo} in.", "{H} [nod]. \"Let us be friends again,\" {h} [say].")
    s.ask("who", "Who said sorry first?", "{^A} said sorry first.", "{A}", [s.slots["B"]])
    s.ask("when", "When did they make up?", "They made up {days}.", "{days}")
    s.event("{^days} {A} [say/w] sorry first, and they [make/p] up.")
    end = {"broke": "Together {they} [mend/p] the {X} with glue, and it [look/w] almost like new.",
           "river": "Together {they} [fish/p] the {X} out of the water with a long stick.",
           "thief": "Together {they} [put/p] a shiny button on the wall, and the {thief} [drop/w] the {X} to take it."}[loss]
    s.say(end)
    s.event(end)
    _ending(s, "it is never too late to say sorry")
    s.gist = "{H} and {W} [quarrel/p] about the {X} and [make/p] up again."
    s.topic = [s.hero, noun]
    return s


def trade(rng, side, hero=None, thing=None):
    """A chain of trades that ends with what the hero wanted, or with something better."""
    s = Story(rng, side, hero)
    _opening(s, rng.choice(world.OUTDOORS))
    pool = [x for x in world.TREASURES + world.THING_LIST if world.allowed(side, s.hero.key, x) and x != "scissors" and x != thing]
    goods = rng.sample(pool, rng.choice((3, 4)))
    if thing:
        goods[-1] = thing
    for i, good in enumerate(goods):
        s.slots["G%d" % i], s.slots["aG%d" % i] = good, a(good)
    last = len(goods) - 1
    s.slots.update(Z=goods[last], aZ=a(goods[last]))
    s.say("{H} [want] {aZ} more than anything, but {h} only [have] {aG0}.",
          "All {h} [own] [be/w] {aG0}, and {h} [dream] of {aZ}.")
    s.event("{H} [want] {aZ} but only [have] {aG0}.")
    s.para()
    traders = []
    for i in range(last):
        letter = "ABC"[i]
        who = s.other(letter, avoid=traders)
        traders.append(who)
        s.say("{h} [meet] {%si}, who [need/w] {aG%d} and [offer/w] {aG%d} for it." % (letter, i, i + 1),
              "\"I will give you {aG%d} for your {G%d},\" [say/w] {%si}." % (i + 1, i, letter),
              "Then {h} [come] to {%si}. \"I have {aG%d}, but I need {aG%d},\" {%ss} [say/w]." % (letter, i + 1, i, letter))
        s.say("{H} [agree].", "\"Gladly,\" {H} [say].", "So {they} [trade/p].", "{H} [think] about it and [nod].")
        s.event("{H} [trade] the {G%d} for {aG%d}." % (i, i + 1))
        s.ask("who", "Who gave {H} the {G%d}?" % (i + 1), "{^%s} gave {H} the {G%d}." % (letter, i + 1), "{%s}" % letter,
              [w.mention for w in traders if w is not who])
    s.ask("what", "What did {H} have at the beginning?", "{^H} had {aG0}.", "{G0}", goods[1:])
    s.ask("what", "What did {H} have at the end?", "{^H} had {aZ}.", "{Z}", goods[:-1])
    s.ask("order", "What did {H} get first, the {G1} or the {G%d}?" % last if last > 1 else "What did {H} give away first?",
          "{^H} got the {G1} first." if last > 1 else "{^H} gave away the {G0} first.", "{G1}" if last > 1 else "{G0}",
          [goods[last]])
    s.slots["times"] = count_word(last)
    s.ask("how many", "How many times did {H} trade?", "{^H} traded {times} times.", "{times}")
    s.para()
    s.say("So at the end of the {day} {h} [hold] {aZ} in {hp} hands.", "And that [be/w] how {h} [get] {aZ}.")
    s.maybe(0.5, "It [be/w] not new, but to {ho} it [be/w] perfect.", "\"Was it worth it?\" {hp} mother [ask/w]. \"Oh yes,\" {H} [say].")
    _ending(s, "patience pays")
    s.gist = "{H} [trade] {aG0} step by step until {h} [have] {aZ}."
    s.topic = [s.hero, goods[last]]
    return s


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
    _opening(s, rng.choice(world.OUTDOORS))
    rules = [r for r in RULES if not r[4] or (thing in r[4] if thing else
                                              any(world.split(s.hero.key + "/" + x) == side for x in r[4]))]
    rule, deed, result, key, items = rng.choice(rules)
    noun = _thing(s, items=[thing] if thing else items or OUT_THINGS)
    s.other("W")
    trouble = _trouble(s, noun)
    s.slots["rule"] = rule
    s.say("\"{rule},\" {Wi} [tell/w] {ho}.", "\"Whatever you do, {N},\" [say/w] {Wi}, \"remember: {rule}!\"".replace("{rule}", rule[0].lower() + rule[1:]))
    s.say("\"Why not?\" {H} [ask]. But {W} only [shake/w] {Wp} head.", "\"Yes, yes,\" {H} [say], without listening.",
          "{H} [promise].")
    s.event("{^W} [warn/w] {H}: \"{rule}.\"")
    s.para()
    s.say("The same {day} {H} " + deed + ".", "But {h} [be] curious. As soon as nobody [look/w], {h} " + deed + ".")
    s.say("At first it [be/w] fun. Then " + result + ".", "A moment later " + result + ".")
    s.event("{H} " + deed + " all the same.")
    if not items:
        s.say(*trouble["meet"])
    s.ask("what", "What did {W} tell {H} not to do?", "{^W} told {H} not to " + key + ".", key)
    s.ask("who", "Who warned {H}?", "{^W} warned {H}.", "{W}")
    s.para()
    s.say("\"Help!\" {h} [call]. It [take/w] a long time until {W} [come/w], with {aX} under {Wp} arm.",
          "Luckily {W} [have/w] followed {ho}, and [have/w] brought {aX}.")
    s.say("With the {X} {they} [get/p] home at last.", "The {X} [be/w] just what {they} [need/p].")
    s.event("{^W} [save/w] {H} with {aX}.")
    s.ask("what", "What did {W} bring?", "{^W} brought {aX}.", "{X}")
    s.say("\"I should have listened,\" {H} [say] in a small voice.", "\"I told you so,\" {W} [say/w], but {Ws} [smile/w].")
    _ending(s, "one should think before acting")
    s.gist = "{H} [do] not listen to {W}, [get] into trouble and [be] saved with the {X}."
    s.topic = [s.hero, noun]
    return s


def contest(rng, side, hero=None, thing=None):
    """A race: the hero stops to help, loses the race and wins something else, or the other way round."""
    s = Story(rng, side, hero)
    _opening(s, rng.choice(world.OUTDOORS))
    noun = _thing(s, items=[thing] if thing else world.TREASURES)
    s.other("W")
    rivals = s.slots["n"] = count_word(rng.randint(3, 9))
    s.slots["sport"] = rng.choice(("running race", "swimming race", "sledge race", "pony race", "boat race", "rowing race"))
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
    _ending(s, "kindness comes back")
    s.gist = "{H} [stop] in the middle of the {sport} to help {W}."
    s.topic = [s.hero, noun]
    return s


def feast(rng, side, hero=None, thing=None):
    """Cooking or building for an event goes wrong and turns out better, or teaches something."""
    s = Story(rng, side, hero)
    _opening(s, rng.choice(world.OUTDOORS))
    s.other("W")
    foods = [rng.choice(world.DISHES)]
    foods += rng.sample([f for f in world.FOODS if f != foods[0]], 2)
    amount = rng.randint(2, 12)
    noun = _thing(s, items=[thing] if thing else world.TREASURES)
    s.slots.update(f0=foods[0], f1=foods[1], f2=foods[2], k=count_word(amount), feast=rng.choice(world.EVENTS))
    s.say("{H} [have] promised to bring {f0} to {feast}.", "For {feast} {H} [will] make {f0}, {hp} favourite food.")
    s.say("{k} guests [be/p] coming, and so [be/w] {Wi}.", "{^Wi} [have/w] invited {k} guests.")
    s.event("{H} [promise] to bring {f0} to {feast}.")
    s.ask("how many", "How many guests were there?", "There were {k} guests.", "{k}")
    s.para()
    bad, key = rng.choice((("the dog [eat/w] all the {f0}", "dog"), ("the {f0} [burn/w] black", "burn"),
                           ("the basket with the {f0} [fall/w] into the pond", "pond"),
                           ("the mice [find/p] the {f0} first", "mice")))
    s.say("But while {h} [look] for {hp} {X}, " + bad + ".", "But {h} [fall] asleep beside {hp} {X}, and " + bad + ".")
    s.event("But " + bad + ".")
    s.ask("what happened", "What went wrong?", bad + ".", key)
    s.say("\"Oh no!\" {H} [cry]. \"What shall I do now?\"", "{H} [sit] down and [hide] {hp} face.")
    s.say("\"I have some {f1},\" {W} [say/w], \"and you have {f2}. Let us see what we can do.\"",
          "\"Do not cry, {N},\" {W} [say/w]. \"We still have {f1} and {f2}.\"")
    s.say("{they} [mix/p] the {f1} with the {f2} and [hope/p] for the best.", "Side by side {they} [cook/p] {f1} with {f2}.")
    s.event("{H} and {W} [cook/p] {f1} with {f2} instead.")
    s.ask("what", "What did they cook in the end?", "They cooked {f1} with {f2}.", "{f1}", [foods[0]])
    s.ask("who", "Who helped {H}?", "{^W} helped {H}.", "{W}")
    s.para()
    s.say("The guests [eat/p] everything and [ask/p] for more.", "\"The best meal in years!\" the guests [say/p].")
    s.event("The guests [love/p] it.")
    _ending(s, "asking for help is no shame")
    s.gist = "{H} [lose] the {f0} for {feast}, but with {W} {h} [cook] something better."
    s.topic = [s.hero, noun]
    return s


PLOTS = [tool, tool, kindness, kindness, lost, lost, quarrel, trade, warning, contest, feast]


def story(rng, side, hero=None, thing=None):
    """A planned story of any plot; with `thing`, one in which that thing matters."""
    if thing and thing not in world.THINGS:
        return rng.choice((lost, quarrel, trade, contest))(rng, side, hero, thing)
    if thing:
        fitting = (tool, kindness, warning, trade) if world.THINGS[thing][0] in OUT_THERE else (tool, kindness, trade)
        return rng.choice(fitting)(rng, side, hero, thing)
    return rng.choice(PLOTS)(rng, side, hero)
