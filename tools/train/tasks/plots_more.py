"""More plots: a mystery with a harmless answer, learning something hard, an unknown guest, two who disagree."""
import world
from grammar import a, count_word
from tasks.cast import Story
from tasks.story_parts import ending, give_thing, opening, trouble

# what is heard or seen, what everyone fears, what it really is, and what is done about it
MYSTERIES = [
    ("a knocking under the floor", "a ghost", "a mole who had lost its way", "[carry] the mole back to the field"),
    ("two green eyes in the dark", "a monster", "a hungry kitten", "[give] the kitten some warm milk"),
    ("a strange song in the dark", "a spirit", "an old kettle in the wind", "[hang] the kettle over the fire"),
    ("big footprints in the mud", "a giant", "a boy in his father's boots", "[lend] the boy a pair of smaller boots"),
    ("a white shape in the window", "a ghost", "a shirt on a line", "[fold] the shirt and [bring] it to the washerwoman"),
    ("a wandering light over the meadow", "a witch", "a doctor on her way to a sick child", "[show] the doctor the short way"),
    ("a rustling under the apple trees", "a thief", "a hedgehog with five young ones", "[put] a bowl of apples out for the hedgehog"),
    ("a bell ringing by itself", "bad luck", "a goat with a string around its horn", "[untie] the goat")]


def mystery(rng, side, hero=None, thing=None):
    """Something frightening turns out to be harmless, because the hero goes and looks."""
    s = Story(rng, side, hero)
    opening(s, rng.choice(world.OUTDOORS))
    noun = give_thing(s, items=[thing] if thing else ["lantern", "candle", "torch", "whistle", "bell", "rope"])
    s.other("W")
    sign, fear, truth, deed = rng.choice(MYSTERIES)
    s.slots.update(nights=count_word(rng.randint(2, 7)), fear=fear, truth=truth, sign=sign)
    many = "p" if sign.startswith(("two", "big")) else "w"
    s.say("For {nights} nights there [have/%s] been {sign}, and people [be/p] afraid." % many,
          "Then something odd [happen/w]. There [be/%s] {sign}, {nights} nights in a row." % many,
          "Nobody {inP} [sleep/w] well. For {nights} nights there [have/%s] been {sign}." % many)
    s.event("There [be/%s] {sign} for {nights} nights." % many)
    s.say("\"It is {fear},\" {Wi} [whisper/w]. \"Do not go near it.\"", "\"I am sure it is {fear},\" [say/w] {Wi}, who [be/w] pale with fear.")
    s.ask("what", "What did {W} think it was?", "{^W} thought that it was {fear}.", "{fear}")
    s.ask("how many", "For how many nights did it go on?", "It went on for {nights} nights.", "{nights}")
    s.para()
    s.say("But {H} [want] to know for sure. {^h} [take] {aX} and [wait] until midnight.",
          "\"I will go and look,\" {H} [say], and [take] {aX} along.",
          "That night {h} [can] not sleep. In the end {h} [get] up, [take] {aX} and [creep] out.")
    s.maybe(0.7, "{Hs} heart [beat/w] like a drum.", "Every leaf [seem/w] to whisper.", "The moon [hide/w] behind a cloud.",
            "An owl [call/w], and {h} [jump].")
    s.say("And what [do] {h} find? It [be/w] only {truth}!", "Then {h} [see] it, and {h} [must] laugh. It [be/w] {truth}.")
    s.event("{H} [go] to look and [find] {truth}.")
    s.ask("what", "What was it really?", "It was really {truth}.", "{truth}", [fear])
    s.ask("what", "What did {H} take along?", "{^H} took {aX} along.", "{X}")
    s.say("{H} " + deed + ".")
    s.event("{H} " + deed + ".")
    s.para()
    s.say("\"And I was so afraid!\" {W} [say/w] the next morning.", "{^W} [turn/w] red. \"Next time I will come with you,\" {Ws} [say/w].")
    ending(s, "it is better to look than to fear")
    s.gist = "Everyone [be/w] afraid of {fear}, but {H} [find] out that it [be/w] only {truth}."
    s.topic = [s.hero, noun]
    return s


SKILLS = ["swim", "ride a pony", "whistle", "skate", "bake bread", "juggle", "row a boat", "climb a rope", "read", "dance", "knit", "paint"]
TRIES = ["The first time everything [go/w] wrong.", "At first nothing [work/w] at all.", "On the first day {h} [give] up after a minute."]
AGAIN = ["The second time [be/w] not much better.", "On the second day it [go/w] a little better.", "The next try [end/w] in loud laughter."]
TIPS = ["go slowly", "count to three first", "look straight ahead", "breathe out", "start with something small", "never hurry"]


def apprentice(rng, side, hero=None, thing=None):
    """Learning something hard, with a teacher, a tip and a reason."""
    s = Story(rng, side, hero)
    opening(s, rng.choice(world.OUTDOORS))
    noun = give_thing(s, items=[thing] if thing else world.TREASURES)
    s.other("W")
    s.slots.update(skill=rng.choice(SKILLS), tip=rng.choice(TIPS), event=rng.choice(world.EVENTS), weeks=count_word(rng.randint(2, 9)))
    s.say("All the others [can/p] {skill}. Only {H} [can] not.", "{H} [have] one great wish: to learn to {skill}.",
          "\"You will never learn to {skill},\" {hp} brother [laugh/w].")
    s.event("{H} [want] to learn to {skill}.")
    s.ask("what", "What did {H} want to learn?", "{^H} wanted to learn to {skill}.", "{skill}")
    s.para()
    s.say(*TRIES)
    s.maybe(0.6, *AGAIN)
    s.say("\"I cannot do it,\" {h} [sigh].", "{H} [be] close to tears.", "{H} [kick] a stone.")
    s.say("{^Wi} [have/w] watched. \"Shall I tell you the secret?\" {Ws} [ask/w]. \"You must {tip}.\"",
          "\"You must {tip},\" [say/w] {Wi}. \"That is all.\"")
    s.event("{^W} [tell/w] {ho} to {tip}.")
    s.ask("who", "Who gave {H} the tip?", "{^W} gave {H} the tip.", "{W}", [s.hero.mention])
    s.ask("what", "What was the secret?", "The secret was to {tip}.", "{tip}")
    s.say("So {H} [practise] every day for {weeks} weeks.", "For {weeks} weeks {h} [try], morning and evening.")
    s.ask("how many", "How many weeks did {H} practise?", "{^H} practised for {weeks} weeks.", "{weeks}")
    s.para()
    s.say("And then, at {event}, {h} [can] {skill} better than anyone.", "One {day}, all at once, it [work/w]. {H} [can] {skill}!")
    s.say("{^W} [clap/w] and [give/w] {ho} {aX}. \"You have earned it,\" {Ws} [say/w].",
          "As a reward {h} [get] {aX} from {W}.")
    s.event("{H} [learn] it and [get] {aX} from {W}.")
    s.ask("what", "What did {H} get as a reward?", "{^H} got {aX}.", "{X}")
    ending(s, "patience pays")
    s.gist = "With the help of {W}, {H} [learn] to {skill}."
    s.topic = [s.hero, noun]
    return s


def guest(rng, side, hero=None, thing=None):
    """A stranger asks for shelter; one refuses, the hero does not; the stranger is more than he seemed."""
    s = Story(rng, side, hero)
    opening(s, rng.choice(world.OUTDOORS))
    noun = give_thing(s, items=[thing] if thing else world.TREASURES)
    s.other("W")
    real = rng.choice(("the ruler of the country", "the richest merchant of {town}", "a famous painter", "the judge of {town}", "a maker of maps"))
    s.slots.update(food=rng.choice(world.FOODS), real=real.replace("{town}", s.slots["town"]))
    s.say("One stormy night somebody [knock/w] at {Hs} door. Outside [stand/w] {Wi}, wet and tired.",
          "One night {Wi} [come/w] along the road and [ask/w] for a bed.")
    s.event("{^W} [ask/w] for a bed.")
    s.say("The rich neighbour [have/w] already shut his door. \"No room,\" he [have/w] said.", "\"Everyone else sent me away,\" {W} [say/w].")
    s.ask("who", "Who asked for a bed?", "{^W} asked for a bed.", "{W}", [s.hero.mention])
    s.para()
    s.say("\"Come in and sit by the fire,\" {H} [say]. There [be/w] not much to eat, only {food}, but {h} [share] it all.",
          "{H} [do] not ask many questions. {^h} [put] the last {food} on the table and [make] up a bed.")
    s.event("{H} [share] {hp} {food} with {W}.")
    s.ask("what", "What did {H} share with {W}?", "{^H} shared the {food}.", "{food}")
    s.maybe(0.6, "{they} [talk/p] until the candle [be/w] burnt down.", "\"Why are you so kind?\" {W} [ask/w]. \"Why not?\" {H} [say].")
    s.para()
    s.say("In the morning the guest [be/w] gone. On the table [lie/w] {aX} and a note: \"Thank you. I am {real}.\"",
          "When the sun [rise/w], {W} [tell/w] {ho} the truth. \"I am {real},\" {Ws} [say/w], \"and this is for you.\" It [be/w] {aX}.")
    s.event("The guest [turn/w] out to be {real} and [leave/w] {aX}.")
    s.ask("who", "Who was the guest really?", "The guest was {real}.", "{real}")
    s.ask("what", "What did the guest give {H}?", "The guest gave {H} {aX}.", "{X}")
    s.say("The neighbour [hear/w] of it and [be/w] very sorry for his words.", "And the rich neighbour? He [leave/w] his door open from then on.")
    ending(s, "kindness comes back")
    s.gist = "{H} [take] in {W}, who [be/w] really {real}."
    s.topic = [s.hero, noun]
    return s


def partners(rng, side, hero=None, thing=None):
    """Two go together and disagree about the way; events show who was right, or that both were."""
    s = Story(rng, side, hero)
    opening(s, rng.choice(world.OUTDOORS))
    noun = give_thing(s, items=[thing] if thing else None)
    s.other("W")
    one, two = rng.sample(("through the forest", "along the river", "over the hill", "by the old road", "across the moor"), 2)
    right = rng.random() < 0.5
    s.slots.update(one=one, two=two, goal=rng.choice(("the treasure of the old miller", "a doctor", "an old friend", "the lost sheep", "a place to sleep")))
    s.say("Together with {Wi}, {H} [set] out to find {goal}.", "{^Wi} and {H} [be/p] looking for {goal}.")
    s.event("{H} and {W} [look/p] for {goal}.")
    s.ask("what", "What were they looking for?", "They were looking for {goal}.", "{goal}")
    s.say("Soon the path [part/w].", "Before noon {they} [come/p] to a crossroads.")
    s.say("\"We must go {one},\" {H} [say]. \"No, {two},\" {W} [say/w].", "\"Let us go {one}!\" {H} [say]. But {W} [point/w] the other way. \"I would go {two},\" {Ws} [say/w].")
    s.ask("where", "Which way did {H} want to go?", "{^H} wanted to go {one}.", "{one}", [two])
    s.ask("where", "Which way did {W} want to go?", "{^W} wanted to go {two}.", "{two}", [one])
    s.para()
    danger = trouble(s, noun)
    way = "one" if right else "two"
    first = "two" if right else "one"
    s.say("{they} [toss/p] a coin and [go/p] {%s}." % first, "In the end {they} [go/p] {%s}." % first)
    s.say(*danger["meet"])
    s.say("Luckily {H} [have] {aX} with {ho}.", "It [be/w] good that {H} [have] brought {aX}.")
    s.say(*danger["solve"])
    s.event("{they} [go/p] {%s} and [need/p] the {X} because " % first + danger["why"] + ".")
    s.ask("why", "Why did they need the {X}?", "They needed the {X} because " + danger["why"] + ".", danger["why"])
    s.para()
    s.say("But that way [lead/w] nowhere. So {they} [turn/p] round and [go/p] {%s} after all." % way,
          "Still, what {they} [look/p] for [be/w] not there. So {they} [try/p] the other way and [go/p] {%s}." % way)
    s.say("There {they} [find/p] {goal}.", "And before evening {they} [find/p] {goal}.")
    s.event("{they} [find/p] {goal} when {they} [go/p] {%s}." % way)
    wise, other = ("H", "W") if right else ("W", "H")
    s.ask("who", "Who was right about the way?", "{^%s} was right." % wise, "{%s}" % wise, [s.slots[other]])
    s.say("\"You were right,\" {W} [say/w], and [laugh/w]." if right else "\"You were right,\" {H} [say], and [bow] deeply.")
    ending(s, "two heads are better than one")
    s.gist = "{H} and {W} [look/p] for {goal} and at first [go/p] the wrong way."
    s.topic = [s.hero, noun]
    return s
