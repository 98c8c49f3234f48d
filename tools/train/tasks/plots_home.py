"""Plots near home: something lost, a quarrel, a chain of trades, a feast that goes wrong."""
import world
from grammar import a, count_word
from tasks.cast import Story
from tasks.story_parts import ending, give_thing, opening


def lost(rng, side, hero=None, thing=None):
    """Something is missing; the hero searches, and someone had a reason to take it."""
    s = Story(rng, side, hero)
    opening(s, rng.choice(world.OUTDOORS))
    noun = give_thing(s, items=[thing] if thing else world.TREASURES)
    helper = s.other("W")
    spots = rng.sample([p for p in world.PLACE_LIST if p != s.slots["P"]], 3)
    n = rng.choice((2, 3))
    s.say("{^h} [have] {aX} and [love] it more than anything.", "{Hs} dearest thing [be/w] {aX}.")
    s.say("One {day} the {X} [be/w] gone.", "But when {h} [wake] up, the {X} [be/w] not there.",
          "Then one {day} {h} [look] for it everywhere. The {X} [be/w] missing!")
    s.event("{Hs} {X} [be/w] gone.")
    s.maybe(0.6, "\"Where can it be?\" {h} [cry].", "\"I had it yesterday,\" {H} [say].", "{^h} [turn] the whole house upside down.")
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
        ending(s, "sharing makes things better")
    else:
        s.say("{^W} [give/w] it back at once, and {H} [say] thank you.", "{^W} [hand/w] it over with both hands.")
        s.say("To make up for it, {W} [invite/w] {ho} to supper.", "\"Next time, ask me,\" {H} [say], and {they} [shake/p] hands.")
        s.event("{^W} [give/w] the {X} back.")
        ending(s, "it is never too late to say sorry")
    s.gist = "{H} [lose] the {X} and [find] it again with {W} {inF}."
    s.topic = [s.hero, noun]
    return s


BREAKS = ("doll", "basket", "cup", "clock", "mirror", "brush", "kite", "shell", "spoon")
TEARS = ("ribbon", "letter", "picture", "hat", "kite")
SHINY = ("marble", "button", "feather", "ring", "coin", "shell", "ribbon", "spoon")


def quarrel(rng, side, hero=None, thing=None):
    """Two want the same thing; the quarrel costs them something; they make up."""
    s = Story(rng, side, hero)
    opening(s, rng.choice(world.OUTDOORS))
    noun = give_thing(s, items=[thing] if thing else world.TREASURES)
    s.other("W")
    s.say("{Hs} best friend [be/w] {Wi}.", "{^h} often [play] with {Wi}.")
    s.say("One day {they} [find/p] {aX} {inP}.", "{^inP} {they} [find/p] {aX}.", "Then {they} [come/p] upon {aX} that [belong/w] to nobody.")
    s.event("{H} and {W} [find/p] {aX}.")
    s.para()
    s.say("\"I saw it first!\" {H} [shout]. \"No, I did!\" {W} [shout/w] back.", "\"It is mine,\" {H} [say] at once.",
          "\"Give it to me,\" {H} [say]. \"I need it more than you.\"")
    s.say("\"Let go!\" {W} [shout/w].", "\"That is not fair,\" {W} [say/w] and [pull/w] at it.",
          "\"You always get everything,\" {W} [cry/w].")
    s.ask("why", "Why did {H} and {W} quarrel?", "They quarrelled because both wanted the {X}.", "both wanted the {X}")
    loss = rng.choice([x for x, fitting in (("broke", BREAKS), ("tore", TEARS), ("river", None), ("thief", SHINY)) if not fitting or noun in fitting])
    thief = rng.choice([x for x in ("crow", "magpie", "raven") if x != s.hero.kind])
    s.slots["thief"] = thief
    if loss == "broke":
        s.say("{they} [pull/p] harder and harder, until the {X} [break/w] in two.", "Crack! The {X} [fall/w] down and [break/w].")
        s.ask("what happened", "What happened to the {X}?", "The {X} broke.", "broke")
        s.event("They [quarrel/p], and the {X} [break/w].")
    elif loss == "tore":
        s.say("{they} [pull/p] harder and harder, until the {X} [tear/w] in two.", "There [be/w] an ugly sound, and the {X} [tear/w].")
        s.ask("what happened", "What happened to the {X}?", "The {X} tore.", "tore")
        s.event("They [quarrel/p], and the {X} [tear/w].")
    elif loss == "river":
        s.slots["deep"] = rng.choice([x for x in ("the pond", "a well", "a deep hole", "a ditch") if x != "a well" or s.slots["P"] != "well"])
        s.slots["thedeep"] = s.slots["deep"].replace("a ", "the ")
        s.say("In the fight the {X} [fly/w] out of {their} hands and [fall/w] into {deep}.", "{they} [pull/p] and [push/p], and the {X} [fall/w] into {deep}.")
        s.ask("what happened", "What happened to the {X}?", "It fell into {deep}.", s.slots["deep"].split(" ", 1)[1])
        s.event("They [quarrel/p], and the {X} [fall/w] into {deep}.")
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
        s.say("\"I am sorry too,\" {W} [say/w].", "{^W} [smile/w]. \"Let us forget it,\" {Ws} [say/w].")
    else:
        s.say("{^days} {W} [stand/w] at {Hs} door. \"I was wrong,\" {Ws} [say/w].")
        s.say("\"So was I,\" {H} [say], and [let] {Wo} in.", "{H} [nod]. \"Let us be friends again,\" {h} [say].")
    s.ask("who", "Who said sorry first?", "{^A} said sorry first.", "{A}", [s.slots["B"]])
    s.ask("when", "When did they make up?", "They made up {days}.", "{days}")
    s.event("{^days} {A} [say/w] sorry first, and they [make/p] up.")
    end = {"broke": "Together {they} [mend/p] the {X} with glue, and it [look/w] almost like new.",
           "tore": "Together {they} [sew/p] the {X} with a fine thread, and it [look/w] almost like new." if noun in ("hat", "ribbon", "kite") else
                   "Together {they} [glue/p] the {X}, and it [look/w] almost like new.",
           "river": "Together {they} [fish/p] the {X} out of {thedeep} with a long stick.",
           "thief": "Together {they} [put/p] a shiny bead on the wall, and the {thief} [drop/w] the {X} to take it."}[loss]
    s.say(end)
    s.event(end)
    ending(s, "it is never too late to say sorry")
    s.gist = "{H} and {W} [quarrel/p] about the {X} and [make/p] up again."
    s.topic = [s.hero, noun]
    return s


def trade(rng, side, hero=None, thing=None):
    """A chain of trades that ends with what the hero wanted, or with something better."""
    s = Story(rng, side, hero)
    opening(s, rng.choice(world.OUTDOORS))
    pool = [x for x in world.TREASURES + world.THING_LIST if world.allowed(side, s.hero.key, x) and x != thing]
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
    replies = rng.sample(("{H} [agree].", "\"Gladly,\" {H} [say].", "So {they} [trade/p].", "{H} [think] about it and [nod]."), 3)
    for i in range(last):
        letter = "ABC"[i]
        who = s.other(letter, avoid=traders)
        traders.append(who)
        s.say("{h} [meet] {%si}, who [need/w] {aG%d} and [offer/w] {aG%d} for it." % (letter, i, i + 1),
              "\"I will give you {aG%d} for your {G%d},\" [say/w] {%si}." % (i + 1, i, letter),
              "Then {h} [come] to {%si}. \"I have {aG%d}, but I need {aG%d},\" {%ss} [say/w]." % (letter, i + 1, i, letter),
              "{^%si} [look/w] at the {G%d} with big eyes. \"Will you swap it for {aG%d}?\" {%ss} [ask/w]." % (letter, i, i + 1, letter),
              "{^%si} [have/w] {aG%d} to spare, but no {G%d}." % (letter, i + 1, i))
        s.say(replies[i])
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
    ending(s, "patience pays")
    s.gist = "{H} [trade] {aG0} step by step until {h} [have] {aZ}."
    s.topic = [s.hero, goods[last]]
    return s


def feast(rng, side, hero=None, thing=None):
    """Cooking or building for an event goes wrong and turns out better, or teaches something."""
    s = Story(rng, side, hero)
    opening(s, rng.choice(world.OUTDOORS))
    s.other("W")
    foods = [rng.choice(world.DISHES)]
    foods += rng.sample([f for f in world.RAW if f != foods[0]], 2)
    amount = rng.randint(4, 12)
    noun = give_thing(s, items=[thing] if thing else world.TREASURES)
    s.slots.update(f0=foods[0], f1=foods[1], f2=foods[2], k=count_word(amount), feast=rng.choice(world.EVENTS))
    s.say("{H} [have] promised to bring {f0} to {feast}.", "For {feast} {H} [will] make {f0}, {hp} favourite food.")
    s.say("{k} guests [be/p] coming, and so [be/w] {Wi}.", "{^Wi} [have/w] invited {k} guests.")
    s.event("{H} [promise] to bring {f0} to {feast}.")
    s.ask("how many", "How many guests were there?", "There were {k} guests.", "{k}")
    s.para()
    bad, key = rng.choice((("the dog [eat/w] all the {f0}", "dog"), ("the {f0} [burn/w] black", "burned"),
                           ("the bowl with the {f0} [fall/w] into the pond", "pond"),
                           ("the mice [find/p] the {f0} first", "mice")))
    s.say("But {h} [play] with {hp} new {X} and [forget] the time, and " + bad + ".", "But while {h} [look] for {hp} {X}, " + bad + ".",
          "But {h} only [have] eyes for {hp} new {X}, and so " + bad + ".")
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
    ending(s, "asking for help is no shame")
    s.gist = "{H} [lose] the {f0} for {feast}, but with {W} {h} [cook] something better."
    s.topic = [s.hero, noun]
    return s
