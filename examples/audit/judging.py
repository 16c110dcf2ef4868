"""How the reasoning ends, and what is due or sure until then."""


class End(Exception):
    """The reasoning is over: `code` is the exit status."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def falls(why):
    raise End(1, why)


def stands(why):
    raise End(0, why)


def lost(game, why):
    """The signer of this move said what cannot be."""
    (falls if game["turn"] % 2 else stands)(f"{why}, so the {'defender' if game['turn'] % 2 else 'challenger'} has lost")


def due(game, *kinds):
    """What may be said next; whoever says anything else has lost, and no more is looked at."""
    game["due"] = kinds


def sure(condition, text):
    """What has to hold in any transcript."""
    if not condition:
        raise End(2, f"this transcript cannot be judged: not so: {text}")
    print(f"  {text}")
