"""Plots of the heart: a present that has to be earned, a hunt with clues, a fear overcome, a lie that comes out."""
import world
from grammar import count_word
from tasks.cast import Story
from tasks.plots_home import BREAKS
from tasks.story_parts import ending, give_thing, opening

WORK = ["sweep the yard", "pick the plums", "carry water", "feed the hens", "paint the fence", "wash the windows", "stack the wood", "mend the nets", "clean the stable"]


def gift(rng, side, hero=None, thing=None):
    """A present for a friend costs more than the hero has, so the hero works for it."""
    s = Story(rng, side, hero)
    opening(s, rng.choice(world.OUTDOORS))
    noun = give_thing(s, items=[thing] if thing else [x for x in world.TREASURES if x != "coin"])
    friend = s.other("W")
    boss = s.other("B", avoid=(friend,), animal_share=0.1)
    price, own = rng.randint(5, 12), rng.randint(1, 4)
    s.slots.update(price=count_word(price), own=count_word(own) + (" coin" if own == 1 else " coins"), work=rng.choice(WORK))
    s.say("Soon it [will/w] be the birthday of {Wi}, {Hs} best friend.", "{^Wi} [be/w] {Hs} best friend, and tomorrow [be/w] {Wp} birthday.")
    s.say("In a shop window {H} [see] {aX} that [cost/w] {price} coins, but {h} only [have] {own}.",
          "{H} [want] to give {Wo} {aX}. It [cost/w] {price} coins, and in {hp} purse {h} [have] {own}.")
    s.event("{H} [want] to buy {aX} for {W}.")
    s.ask("how many", "How much did the {X} cost?", "The {X} cost {price} coins.", "{price}")
    s.ask("who", "Who was the present for?", "The present was for {W}.", "{W}", [boss.mention])
    s.para()
    s.say("So {h} [go] to {Bi}. \"Have you got any work for me?\" {h} [ask].", "\"I will earn it,\" {H} [say], and [knock] at the door of {Bi}.")
    s.say("\"You can {work},\" {B} [say/w]. \"Then I will pay you.\"", "\"If you {work}, I will pay you well,\" {B} [say/w].")
    s.say("It [be/w] hard work, but {H} [do] not stop before it [be/w] done.", "{H} [work] until {hp} arms [hurt/p].",
          "The whole day {h} [work], and in the evening {h} [be] paid.")
    s.event("{H} [work] for {B} to earn the money.")
    s.ask("who", "Who gave {H} work?", "{^B} gave {H} work.", "{B}", [friend.mention])
    s.ask("what", "What did {H} have to do for {B}?", "{^H} had to {work}.", "{work}")
    s.ask("why", "Why did {H} work for {B}?", "{^H} wanted to buy the {X} for {W}.", "buy the {X}")
    s.para()
    s.say("The next {day} {H} [give] {W} the {X}. \"For me?\" {W} [cry/w].", "When {W} [open/w] the little parcel, {Wp} eyes [shine/p].")
    s.say("\"It is the best present I ever got,\" {Ws} [say/w].", "\"How did you know?\" {Ws} [ask/w], and [hug/w] {ho}.")
    s.event("{H} [give] the {X} to {W}.")
    ending(s, rng.choice(("giving is better than getting", "work is worth it")))
    s.gist = "{H} [work] for {B} and [buy] {aX} for {W}."
    s.topic = [s.hero, noun]
    return s


def hunt(rng, side, hero=None, thing=None):
    """A note leads from place to place, and the last one holds something."""
    s = Story(rng, side, hero)
    opening(s, rng.choice(world.OUTDOORS))
    noun = give_thing(s, items=[thing] if thing else world.TREASURES)
    s.other("W")
    spots = rng.sample([p for p in world.PLACE_LIST if p != s.slots["P"]], 3)
    for i, spot in enumerate(spots):
        s.slots["S%d" % i], s.slots["inS%d" % i] = spot, world.PLACES[spot] + " the " + spot
    s.slots["where"] = rng.choice(("in an old book", "in an empty bottle", "under the door", "in a coat pocket", "behind a loose stone"))
    s.say("One day {H} [find] a note {where}.", "{^where} {h} [find] a folded note.")
    s.say("\"Go to the {S0},\" it [say/w], \"and look up.\"", "\"Look {inS0},\" it [say/w], and nothing more.")
    s.event("{H} [find] a note {where}.")
    s.ask("where", "Where was the first note?", "The first note was {where}.", "{where}")
    s.para()
    s.say("{^inS0} there [be/w] a second note. It [point/w] to the {S1}.", "{H} [run] to the {S0}. There [hang/w] another note: \"Now to the {S1}!\"")
    s.say("On the way {h} [meet] {Wi}. \"May I come along?\" {Ws} [ask/w], and {H} [nod].", "{^Wi} [be/w] curious and [come/w] along.")
    s.event("{^W} [join/w] {H} on the way to the {S1}.")
    s.ask("who", "Who came along?", "{^W} came along.", "{W}")
    s.say("{^inS1} {they} [look/p] everywhere. It [be/w] {W} who [find/w] the last note, under a stone.",
          "{^inS1} the last note [be/w] hidden high up. {^W} [have/w] to climb.")
    s.ask("who", "Who got the last note?", "{^W} got the last note.", "{W}", [s.hero.mention])
    s.ask("order", "Which place came first, the {S0} or the {S1}?", "The {S0} came first.", "{S0}", [spots[1]])
    s.para()
    s.say("It [lead/w] {them} to the {S2}, and there [stand/w] a small box.", "The way [end/w] {inS2}, in front of a wooden box.")
    s.say("In it [be/w] {aX}. \"For those who do not give up,\" [say/w] the card beside it.", "{they} [open/p] it together. Inside [lie/w] {aX}.")
    s.event("{they} [find/p] {aX} {inS2}.")
    s.ask("what", "What did they find in the end?", "They found {aX}.", "{X}")
    s.ask("where", "Where was the box?", "The box was {inS2}.", "{S2}", spots[:2])
    s.maybe(0.7, "\"We found it together, so it belongs to us both,\" {H} [say].", "\"You keep it,\" {W} [say/w]. \"I liked the way best.\"")
    ending(s, rng.choice(("two find more than one", "the way can be better than the prize")))
    s.gist = "{H} [follow] three notes and [find] {aX} with {W}."
    s.topic = [s.hero, noun]
    return s


POCKET = ["marble", "button", "feather", "ring", "coin", "shell", "ribbon", "doll", "spoon", "stone", "letter", "picture"]
FEARS = [("thunder", "a storm [break/w] loose", "{^W} [be/w] alone in the rain"), ("the dark", "the lamps [go/p] out", "{^W} [be/w] calling from the cellar"),
         ("deep water", "a boat [turn/w] over", "{^W} [be/w] holding on to it"), ("high places", "a branch [crack/w]", "{^W} [hang/w] in the top of a tree"),
         ("big dogs", "there [be/w] a loud bark", "{^W} [stand/w] with {Wp} back to the wall")]


def fear(rng, side, hero=None, thing=None):
    """The hero is afraid of something, and goes all the same because somebody needs help."""
    s = Story(rng, side, hero)
    opening(s, rng.choice(world.OUTDOORS))
    noun = give_thing(s, items=[thing] if thing else POCKET)
    s.other("W")
    what, happens, need = rng.choice(FEARS)
    s.slots["what"] = what
    s.say("{^h} often [play] with {Wi}.", "{Hs} neighbour [be/w] {Wi}.", "{^h} [share] a house with {Wi}.")
    s.say("There [be/w] one thing that {H} [fear]: {what}.", "{H} [be] afraid of nothing but {what}.", "All the others [laugh/p] because {H} [be] afraid of {what}.")
    s.event("{H} [be] afraid of {what}.")
    s.ask("what", "What was {H} afraid of?", "{^H} was afraid of {what}.", "{what}")
    s.say("When {h} [be] frightened, {h} [hold] on to {hp} {X}, {aX} from {hp} grandmother.", "In {hp} pocket {h} [carry] {aX}. It [make/w] {ho} feel safe.")
    s.para()
    s.say("One {day} " + happens + ". " + need + ".", "Then it [happen/w]: " + happens + ". " + need + ".")
    s.say("\"Help!\" {W} [call/w].", "\"Is anybody there?\" {W} [call/w].", "Nobody else [be/w] near.")
    s.say("{Hs} knees [shake/p], but {h} [take] the {X} in {hp} hand and [go].", "{H} [close] {hp} eyes, [press] the {X} to {hp} heart and [run].")
    s.say("Step by step {h} [come] closer, until {h} [can] take {W} by the hand.", "A moment later {h} [be] there, and {W} [be/w] safe.")
    s.event("{H} [help] {W} in spite of {hp} fear.")
    s.ask("who", "Who needed help?", "{^W} needed help.", "{W}", [s.hero.mention])
    s.ask("what", "What made {H} feel safe?", "The {X} made {H} feel safe.", "{X}")
    s.para()
    s.say("\"You came,\" {W} [say/w], \"although you were afraid.\"", "\"Were you not afraid?\" {W} [ask/w] later. \"Yes,\" {H} [say], \"but you needed me.\"")
    s.say("Then {H} [give] {Wo} the {X}. \"I do not need it any more,\" {h} [say].", "From then on {h} [be] a little less afraid.")
    s.event("{^W} [thank/w] {H}.")
    ending(s, "one can be brave and afraid at once")
    s.gist = "{H} [be] afraid of {what} but [help] {W} all the same."
    s.topic = [s.hero, noun]
    return s


def lie(rng, side, hero=None, thing=None):
    """Something breaks, the hero tells a lie about it, and the truth turns out to be easier."""
    s = Story(rng, side, hero)
    opening(s, rng.choice(world.OUTDOORS))
    noun = give_thing(s, items=[thing] if thing else list(BREAKS))
    s.other("W")
    s.slots["blame"] = rng.choice([x for x in ("cat", "wind", "dog", "goat") if x != s.hero.kind])
    s.slots["days"] = count_word(rng.randint(2, 6))
    s.say("{H} [have] borrowed {aX} from {Wi}.", "{^Wi} [have/w] lent {ho} {aX}.")
    s.event("{H} [borrow] {aX} from {W}.")
    s.ask("who", "Whose was the {X}?", "It belonged to {W}.", "{W}", [s.hero.mention])
    s.say("\"Be careful with it,\" {W} [say/w]. But {H} [drop] it, and it [break/w].", "{H} [do] not look where {h} [go], [fall], and the {X} [break/w].")
    s.event("{H} [break] the {X}.")
    s.para()
    s.say("\"It was the {blame},\" {H} [say] when {W} [ask/w].", "\"The {blame} did it,\" {H} [tell] {W}, and [look] at the floor.")
    s.event("{H} [say] that it [be/w] the {blame}.")
    s.ask("who", "Whom did {H} blame?", "{^H} blamed the {blame}.", "{blame}")
    s.say("For {days} days {h} [can] neither eat nor sleep.", "For {days} days {h} [feel] as if a stone [lie/w] in {hp} stomach.")
    s.ask("how many", "For how many days did {H} feel bad?", "{^H} felt bad for {days} days.", "{days}")
    s.para()
    s.say("Then {h} [go] to {W}. \"It was me,\" {h} [say]. \"I am sorry.\"", "At last {h} [tell] {W} the truth, with a red face.")
    s.say("\"I know,\" {W} [say/w]. \"I was waiting for you to say so.\"", "{^W} [be/w] quiet for a while. \"Thank you for telling me,\" {Ws} [say/w] then.")
    s.event("{H} [tell] {W} the truth.")
    s.ask("what", "What did {H} do in the end?", "{^H} told {W} the truth.", "truth")
    s.say("Together {they} [mend/p] the {X}.", "The {X} [can/w] be mended, and {they} [do/p] it together.")
    ending(s, "the truth is lighter than a lie")
    s.gist = "{H} [break] the {X} of {W}, [say] that it [be/w] the {blame}, and then [tell] the truth."
    s.topic = [s.hero, noun]
    return s
