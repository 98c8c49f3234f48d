"""All plots, and the choice among them.  A plot plans a `Story`; none writes fixed text."""
import world
from tasks.plots_heart import POCKET, fear, gift, hunt, lie
from tasks.plots_home import BREAKS, feast, lost, quarrel, trade
from tasks.plots_more import apprentice, guest, mystery, partners
from tasks.plots_way import OUT_THERE, contest, kindness, tool, warning

PLOTS = [tool, tool, kindness, kindness, lost, lost, quarrel, trade, warning, contest, feast, mystery, apprentice, guest, partners,
         gift, gift, hunt, hunt, fear, lie]


def story(rng, side, hero=None, thing=None):
    """A planned story of any plot; with `thing`, one in which that thing matters."""
    if thing and thing not in world.THINGS:
        return rng.choice((lost, quarrel, trade, contest, feast, apprentice, guest, hunt)
                          + (gift,) * (thing != "coin") + (fear,) * (thing in POCKET) + (lie,) * (thing in BREAKS))(rng, side, hero, thing)
    if thing:
        fitting = (tool, kindness, partners, warning, trade) if world.THINGS[thing][0] in OUT_THERE else (tool, kindness, partners, trade)
        return rng.choice(fitting)(rng, side, hero, thing)
    return rng.choice(PLOTS)(rng, side, hero)
