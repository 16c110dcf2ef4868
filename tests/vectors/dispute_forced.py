"""The cases of dispute.py in a market with rounds that forces errors: dgx-dispute(7), WHAT IS DISPUTED; dgx-protocol(7), FORCED ERRORS."""

import hashlib

from spec import statements, worlds, written
from spec.games import SOLVER, STRANGER, VERIFIER, Proof, Table, Verdict
from spec.players import Fool, Lie, Party

POLICY = {**written.POLICY, "beacon_source": 1, "beacon_steps": 1 << 16, "forced_error_ppm": 10**6, "sample_ppm": 10**6}
LEDGER = hashlib.sha256(b"a ledger").hexdigest()


def secret(number):
    return hashlib.sha256(b"secret %d" % number).digest()


class Market:
    """A world in which every acceptance has a forced error, in the one or the other of its two segments."""

    def __init__(self, made):
        self.made = made
        self.world = worlds.folds(policy=POLICY, ledger=LEDGER)
        self.story = self.world.story()
        self.proof = Proof(self.world, self.story)
        self.secrets = {self.verdict(secret=secret(n)).forced: secret(n) for n in range(8)}
        assert set(self.secrets) == {0, 1}

    def verdict(self, **more):
        return Verdict(self.world, self.proof, self.story, **{"secret": secret(0), **more})

    def forced_in(self, segment, **more):
        return self.verdict(secret=self.secrets[segment], **more)

    def table(self, verdict, about="witness", segment=1, **changes):
        return Table(self.world, self.proof, about, segment, verdict, **changes)

    def refused(self, name, table, sources):
        """The transcript with other statements for the round, the offer and the secret."""
        texts = [*table.texts[:3], *sources, table.texts[-1]]
        self.made.case(f"refused: forced, {name}", b"".join(text + b"\n" for text in texts), "refused")


def witnesses(market):
    party, made = Party(market.world, market.story), market.made
    for forced, how in ((1, "the false one"), (0, "the true one of another row")):
        table = market.table(market.forced_in(forced))
        assert not table.play(party, Fool(market.world, market.story, 13))["falls"]
        made.case(f"forced: {how} stands", table.text())
    true, other = Verdict(market.world, market.proof, market.story, policy=False).rows[1]["witness"], hashlib.sha256(b"an invention").hexdigest()
    honest = market.forced_in(0).rows[1]["witness"]
    for forced, witness, how in ((1, honest, "the true one where it has to be false"), (1, other, "an invention"), (1, true, "that of another draw"),
                                 (0, market.forced_in(1).rows[1]["witness"], "the false one where it has to be true")):
        table = market.table(market.forced_in(forced, changes={1: {"witness": witness}}))
        assert table.play(party, party)["reason"] == "post", how
        made.case(f"post: forced, {how}", table.text())
    lie = market.world.story(Lie(3, 14))
    table = market.table(market.forced_in(1, interior={1: lie}))
    assert table.play(Party(market.world, lie), party)["falls"]
    made.case("forced: the false one of another state", table.text())


def rows(market):
    """A row that is stated and not opened; one that is demanded."""
    party, made = Party(market.world, market.story), market.made
    idle = market.forced_in(1, changes={1: {"witness": hashlib.sha256(b"unseen").hexdigest()}})
    stated = {**idle.opened(1), "path": ""}
    table = market.table(idle, row=stated)
    assert table.play(party, party)["reason"] == "post"
    made.case("post: forced, a row that is stated", table.text())
    table = market.table(market.forced_in(0), about="row")
    verdict = market.forced_in(0)
    table.move({"kind": "row", "index": 1, "path": verdict.opened(1)["path"], "row": verdict.rows[1]})
    table.move({"kind": "name", "index": 1})
    assert not table.play(party, Fool(market.world, market.story, 13))["falls"]
    made.case("forced: the witness of a row that was demanded stands", table.text())
    for name, opened in (("a stated witness at another place", {**stated, "index": 0}), ("a stated witness that is another", {**stated, "row": {**stated["row"], "witness": "11" * 32}})):
        texts = market.table(idle).texts
        fields = {"task": market.world.task_id, "proof": market.proof.id, "about": "witness", "segment": 1, "start": market.proof.opened(1), "end": market.proof.opened(2),
                  "verdict": idle.id, "row": opened}
        text, _ = market.world.sign("challenge", fields, STRANGER, [("statement", idle.id), ("start", fields["start"]["digest"])])
        made.case(f"refused: forced, {name}", b"".join(each + b"\n" for each in (*texts[:-1], text)), "refused")


def sources(market):
    """Round, offer and secret that are missing, another's, or of something else."""
    verdict = market.forced_in(1)
    table, (made, offer, shown) = market.table(verdict), verdict.sources
    other, another = verdict.secret_of(STRANGER, market.secrets[1]), verdict.secret_of(VERIFIER, market.secrets[0])
    for name, found in {"no secret": (made, offer), "no offer": (made, shown), "neither": (made,), "no round": (offer, shown), "the secret before the offer": (made, shown, offer),
                        "somebody else's offer": (made, *other), "another secret": (made, offer, another[1]), "another offer": (made, another[0], shown),
                        "two secrets": (made, offer, shown, another[1]), "a beacon for a round": (shown,)}.items():
        market.refused(name, table, found)
    fields = {**fields_of(made), "ledger": hashlib.sha256(b"another ledger").hexdigest()}
    foreign, _ = market.world.sign("round", fields, SOLVER, [("head", fields["head"]["root"]), ("value", fields["value"])])
    market.refused("a round of another ledger", table, (foreign, offer, shown))
    chosen = Verdict(market.world, market.proof, market.story)
    market.refused("a secret for a chosen draw", market.table(chosen), verdict.sources)


def fields_of(text):
    return {key: value for key, value in statements.Statement(text).predicate.items() if key != "signer"}


def add_to(script):
    """Adds the cases to those of dispute.py, the module given."""
    market = Market(script)
    witnesses(market)
    rows(market)
    sources(market)
