"""Vectors for what every outcome of a task pays, derived from dgx-money(7), MONEY, with whole numbers alone; it uses no code of dgx. It compares money.json
and the page's worked examples with what it derives; --accept writes both: /usr/bin/python3 tests/vectors/money.py --accept"""
import itertools
import json
import pathlib
import random
import sys
from collections import Counter

# The market and task of the page's worked examples. None of these divides evenly.
POLICY = {"solver_bond": 10_000, "solver_bond_ppm": 200_000, "verifier_bond": 10_001, "verifier_bond_ppm": 100_000, "challenger_bond": 10_001,
          "challenger_bond_ppm": 0, "verifier_fee": 100, "split_submitter_ppm": 500_000, "split_verifier_ppm": 250_000, "split_jackpot_ppm": 250_000}
ESTIMATE = {"reward": 100_003, "fee": 1_101, "tax": 2_000, "treasury": 501, "margin": 10_110}
ASSIGNED = ("accepted", "unverified", "refuted", "convicted", "overturned", "no-proof", "no-delivery")


def part(amount, ppm):
    return amount * ppm // 10**6


# The bond of a verifier whom the assign names; one who is drawn stakes as much or more.
NAMED = POLICY["verifier_bond"] + part(ESTIMATE["reward"], POLICY["verifier_bond_ppm"])
DRAWN, FIRST, SECOND_DRAWN, AUDITOR, VOLUNTEER = 25_003, 20_001, 30_005, 27_007, 10_001


def fallen(case, statement):
    """Keys that won a game against the statement, each once, in the order of their challenges."""
    return list(dict.fromkeys(who for who, about, result, _ in case["games"] if about == statement and result == "falls"))


def shares(pot, finders, most=32):
    """The finders' parts of a sum: a half, a quarter, ... for so many of them."""
    out = [(who, pot // 2 ** (k + 1)) for k, who in enumerate(finders[:most])]
    return out + [("jackpot", pot - sum(amount for _, amount in out))]


def refuter(case):
    """The drawn auditor whose refutation counts and stands, or None."""
    return next((one for one in case["rechecks"] if one["drawn"] and one["shown"] and one["refutes"] and one["early"] and not fallen(case, "audit of " + one["who"])), None)


def ordered(case, statement, winners):
    """Winners against a statement, before them an auditor whose refutation stands, and first of the others those who had committed to saying so."""
    committed = [one["who"] for one in case["rechecks"]
                 if one["shown"] and one["who"] in winners and (one["refutes"] and one["early"] if statement == "proof" else one["refutes"] or one["denies"])]
    first = [refuter(case)["who"]] if refuter(case) else []
    return list(dict.fromkeys(first + committed + winners))


def is_wrong(case, one):
    """Whether the bond of somebody who owed an audit, which did not fall, is lost."""
    verdict_fell = fallen(case, "verdict") or refuter(case)
    if one["refutes"] and not one["drawn"] and not fallen(case, "proof") and not refuter(case):
        return True
    unknown = case["secret"] == "withheld"
    if one["drawn"] and one["confirmed_forced"] and not verdict_fell:
        return True
    return not one["shown"] or bool(one["denies_more"] and not verdict_fell and not unknown)


def earns_fee(case, one):
    """Whether somebody who owed an audit is the auditor who has the fee."""
    unknown = case["secret"] == "withheld"
    earned = one["early"] if one["refutes"] else not one["overlooked"] and (one["found"] or not one["after_secret"] and (unknown or not one["denies_more"]))
    return one["drawn"] and earned and not is_wrong(case, one) and not fallen(case, "audit of " + one["who"])


def escrow_paid(case):
    """What the escrow has paid an auditor: where the solver's bond is lost, the submitter has it back."""
    return case["audit_fee_of_task"] if any(earns_fee(case, one) for one in case["rechecks"]) else 0


def rechecked(case):
    """What becomes of the bonds of those who owed audits, and of the fee that was locked."""
    paid = []
    for one in case["rechecks"]:
        finders = fallen(case, "audit of " + one["who"])
        if finders:
            paid += shares(one["bond"] // 2, finders, 2) + [("jackpot", one["bond"] - one["bond"] // 2)]
            continue
        paid.append(("jackpot" if is_wrong(case, one) else one["who"], one["bond"]))
        if earns_fee(case, one):
            paid.append((one["who"], case["audit_fee"]))
    if not any(earns_fee(case, one) for one in case["rechecks"]):
        paid.append(("jackpot", case["audit_fee"] - case["audit_fee_of_task"]))
    verdict_fell = fallen(case, "verdict") or refuter(case)
    claimants = [one["who"] for one in case["rechecks"] if one["claims"] and not one["overlooked"] and not fallen(case, "audit of " + one["who"])]
    if verdict_fell or case["secret"] != "kept":
        claimants = []
    shares_each = case["jackpot"] // 2 ** (len(claimants) - 1) if claimants else 0
    paid += [(who, shares_each) for who in claimants] + [("jackpot", case["jackpot"] - shares_each * len(claimants))]
    return paid


def settle(policy, estimate, case):
    """The payouts of a case, by account. `earned` and `fee` are those of the work that the proof and the verdict show."""
    reason, earned, fee = case["reason"], case["earned"], case["fee"]
    solver_bond = policy["solver_bond"] + part(estimate["reward"], policy["solver_bond_ppm"])
    verifier_bond, silent = case["verifier_bond"], case["silent_bonds"]
    paid = []
    verdict = fee is not None
    kept = case["secret"] == "kept"
    # An acceptance falls, too, while an auditor's refutation of the same segments stands.
    verdict_fell = bool(fallen(case, "verdict") or refuter(case))
    pot = sum(estimate.values())  # the escrow
    pot += case["audit_fee"] - case["audit_fee_of_task"] + case["jackpot"] + sum(one["bond"] for one in case["rechecks"])
    pot += sum(bond for _, _, result, bond in case["games"] if result == "stands")

    if reason in ASSIGNED:
        pot += solver_bond + verifier_bond + silent
        paid += [("jackpot", silent)]
        taxes = [("jackpot", earned["tax"]), ("treasury", earned["treasury"])] if case["proved"] else []
        if reason in ("accepted", "unverified", "overturned"):
            paid += [("solver", earned["reward"] + solver_bond), *taxes]
            paid += [("verifier", fee if verdict and kept and not verdict_fell else 0)]
        else:
            # What the lost bond pays, one after another while it lasts.
            refutation = verdict and case["refuted"] and not verdict_fell
            bills, rest = list(taxes), solver_bond
            if reason in ("refuted", "convicted") and refutation or reason == "no-delivery" and verdict and kept and not verdict_fell:
                bills.append(("verifier", fee))
            if reason == "no-proof" and case["drawn"] and not verdict_fell:
                bills.append(("verifier", policy["verifier_fee"]))
            if refuter(case) and reason in ("refuted", "convicted"):
                bills.append(("jackpot", case["audit_fee"] - case["audit_fee_of_task"]))  # from which the auditor is paid
            if reason != "no-proof":
                bills.append(("submitter", escrow_paid(case)))
            for who, amount in bills:
                paid.append((who, min(amount, rest)))
                rest -= paid[-1][1]
            if reason in ("refuted", "convicted"):
                finders = (["verifier"] if refutation else []) + ordered(case, "proof", fallen(case, "proof"))
                paid += shares(part(rest, policy["split_verifier_ppm"]), list(dict.fromkeys(finders)))
                paid += [("jackpot", part(rest, policy["split_jackpot_ppm"]))]
            else:
                paid += [("jackpot", rest)]
        # The verifier's bond.
        if verdict_fell or case["secret"] == "given away":
            robber = ["robber"] if case["secret"] == "given away" else []
            finders = list(dict.fromkeys(robber + ordered(case, "verdict", fallen(case, "verdict"))))
            paid += shares(verifier_bond // 2, finders) + [("jackpot", verifier_bond - verifier_bond // 2)]
        else:
            missed = case["proved"] and not verdict or not kept
            if reason == "no-proof" and case["drawn"]:
                missed = False  # the solver's silence, not the verifier's
            paid += [("jackpot" if missed else "verifier", verifier_bond)]

    for _, statement, result, bond in case["games"]:
        if result == "stands":
            answers = 0 if fallen(case, statement) or statement == "verdict" and verdict_fell else bond // 2
            defender = {"proof": "solver", "verdict": "verifier"}.get(statement, statement.removeprefix("audit of "))
            paid += [(defender, answers), ("jackpot", bond - answers)]
    paid += rechecked(case)
    total = Counter()
    for who, amount in paid:
        assert amount >= 0
        total[who] += amount
    total["submitter"] += pot - sum(total.values())
    assert total["submitter"] >= 0, case
    return {who: amount for who, amount in sorted(total.items()) if amount > 0}


def case(name, reason, proved=True, drawn=True, verdict=None, games=(), fee=None, earned=None, bond=NAMED, silent=(), rechecks=(), of_task=0, secret="kept", jackpot=0):
    """`verdict`: None, "accepts" or "refutes". `games`: (challenger, statement, result, bond). `bond`: the verifier's; `silent`: those of others who
    were drawn and gave no verdict; `rechecks`: by auditor and volunteers; `of_task`: what the jackpot lacked of the auditor's fee; `secret`: "kept",
    "given away" or "withheld"; `jackpot`: locked for claimants."""
    return {"name": name, "reason": reason, "proved": proved, "drawn": drawn, "refuted": verdict == "refutes",
            "named": bond == NAMED, "verifier_bond": bond if reason in ASSIGNED else 0, "silent_bonds": sum(silent),
            "earned": earned or {k: ESTIMATE[k] for k in ("reward", "tax", "treasury")}, "fee": (fee if fee is not None else ESTIMATE["fee"]) if verdict else None,
            "games": [list(game) for game in games], "rechecks": list(rechecks), "secret": secret, "jackpot": jackpot,
            "audit_fee": ESTIMATE["fee"] if any(one["drawn"] for one in rechecks) else 0, "audit_fee_of_task": of_task}


def recheck(who, shown=True, refutes=False, denies=False, early=True, found=False, overlooked=False, claims=False, confirms=False, after=False):
    """`found`: a game was won about what it denies; `overlooked`: about what it confirms; `claims`: it denies just the forced witness; `confirms`: it does not;
    `after`: it was committed to after somebody had revealed the secret before its time."""
    drawn = who == "auditor"
    return {"who": who, "bond": AUDITOR if drawn else VOLUNTEER, "drawn": drawn, "shown": shown, "refutes": refutes, "denies": denies or claims, "denies_more": denies,
            "early": early, "found": found, "overlooked": overlooked, "claims": claims, "confirmed_forced": confirms, "after_secret": after}


BOND = POLICY["challenger_bond"]
FIND = ("finder", "proof", "falls", BOND)
SECOND = ("second", "proof", "falls", BOND)
LOST = ("loser", "proof", "stands", BOND)
LOST_VERDICT = ("loser", "verdict", "stands", BOND)
TOPPLE = ("finder", "verdict", "falls", BOND)

# One example a cell of the page's table, in its order.
EXAMPLES = [
    case("accepted", "accepted", verdict="accepts"),
    case("accepted; a challenge of the proof was lost", "accepted", verdict="accepts", games=[LOST]),
    case("accepted; a challenge of the verdict was lost", "accepted", verdict="accepts", games=[LOST_VERDICT]),
    case("accepted; the verifier chose the segments", "accepted", verdict="accepts", fee=350),
    case("accepted; diverged half way", "accepted", verdict="accepts", fee=601, earned={"reward": 50_001, "tax": 1_000, "treasury": 250}),
    case("unverified; no beacon", "unverified", drawn=False),
    case("unverified; no verdict", "unverified"),
    case("unverified; the acceptance fell", "unverified", verdict="accepts", games=[TOPPLE]),
    case("refuted", "refuted", verdict="refutes"),
    case("refuted; a challenge of the verdict was lost", "refuted", verdict="refutes", games=[LOST_VERDICT]),
    case("convicted; no verdict, one finder", "convicted", games=[FIND]),
    case("convicted; no verdict, two finders", "convicted", games=[FIND, SECOND]),
    case("convicted; the verdict accepted", "convicted", verdict="accepts", games=[FIND]),
    case("convicted; the acceptance fell, too", "convicted", verdict="accepts", games=[FIND, TOPPLE]),
    case("convicted; the verdict refuted, then a finder", "convicted", verdict="refutes", games=[FIND]),
    case("convicted; the refutation fell", "convicted", verdict="refutes", games=[FIND, TOPPLE]),
    case("convicted; another's challenge was lost", "convicted", verdict="accepts", games=[LOST, FIND]),
    case("overturned", "overturned", verdict="refutes", games=[TOPPLE]),
    case("no-assignment", "no-assignment", proved=False, drawn=False),
    case("no-proof; none was logged", "no-proof", proved=False, drawn=False),
    case("no-proof; no beacon, no opening", "no-proof", drawn=False),
    case("no-proof; a beacon, no opening", "no-proof"),
    case("no-proof; no opening, and the refutation fell", "no-proof", verdict="refutes", games=[TOPPLE]),
    case("no-delivery", "no-delivery", verdict="accepts"),
    case("no-delivery; no verdict", "no-delivery"),
    case("no-delivery; the verdict fell", "no-delivery", verdict="accepts", games=[TOPPLE]),
]

# What drawn verifiers add: bonds of their own, silence of others, and rounds that did not come.
DRAWN_EXAMPLES = [
    case("accepted", "accepted", verdict="accepts", bond=DRAWN),
    case("accepted by the second; the first was silent", "accepted", verdict="accepts", bond=DRAWN, silent=[FIRST]),
    case("accepted by the third", "accepted", verdict="accepts", bond=DRAWN, silent=[FIRST, SECOND_DRAWN]),
    case("refuted by the second", "refuted", verdict="refutes", bond=DRAWN, silent=[FIRST]),
    case("unverified; all three were silent", "unverified", bond=DRAWN, silent=[FIRST, SECOND_DRAWN]),
    case("unverified; no round", "unverified", drawn=False, bond=0),
    case("unverified; the acceptance fell", "unverified", verdict="accepts", games=[TOPPLE], bond=DRAWN),
    case("convicted; all three were silent, one finder", "convicted", games=[FIND], bond=DRAWN, silent=[FIRST, SECOND_DRAWN]),
    case("overturned; the first was silent", "overturned", verdict="refutes", games=[TOPPLE], bond=DRAWN, silent=[FIRST]),
    case("no-proof; none was logged", "no-proof", proved=False, drawn=False, bond=0),
    case("no-proof; a round, no opening", "no-proof", bond=DRAWN),
    case("no-proof; no round, no opening", "no-proof", drawn=False, bond=0),
    case("no-delivery; the first was silent", "no-delivery", verdict="accepts", bond=DRAWN, silent=[FIRST]),
]

BY_AUDITOR = ("auditor", "verdict", "falls", BOND)
BY_VOLUNTEER = ("volunteer", "verdict", "falls", BOND)
OF_PROOF = ("volunteer", "proof", "falls", BOND)
OF_AUDIT = ("finder", "audit of auditor", "falls", BOND)
OF_VOLUNTEER = ("finder", "audit of volunteer", "falls", BOND)
LOST_AUDIT = ("loser", "audit of auditor", "stands", BOND)

# Payouts with re-checks of the verdict.
AUDIT_EXAMPLES = [
    case("accepted; confirmed by auditor and volunteer", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor"), recheck("volunteer")]),
    case("accepted; the auditor was silent", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", shown=False)]),
    case("accepted; the volunteer was silent", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("volunteer", shown=False)]),
    case("accepted; the auditor denied, and nothing fell", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", denies=True)]),
    case("accepted; the volunteer denied, nothing fell", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor"), recheck("volunteer", denies=True)]),
    case("accepted; the auditor's refutation fell", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", refutes=True)], games=[OF_AUDIT]),
    case("accepted; the volunteer's audit fell", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("volunteer")], games=[OF_VOLUNTEER]),
    case("accepted; a challenge of the audit was lost", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor")], games=[LOST_AUDIT]),
    case("unverified; the auditor denied, and won", "unverified", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", denies=True, found=True)], games=[BY_AUDITOR]),
    case("unverified; the auditor confirmed what fell", "unverified", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", overlooked=True)], games=[TOPPLE]),
    case("unverified; the auditor denied something else", "unverified", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", denies=True, overlooked=True)],
         games=[TOPPLE]),
    case("unverified; the volunteer committed first", "unverified", verdict="accepts", bond=DRAWN,
         rechecks=[recheck("volunteer", denies=True, found=True), recheck("auditor", denies=True, found=True)], games=[TOPPLE, BY_AUDITOR, BY_VOLUNTEER]),
    case("refuted by the auditor", "refuted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", refutes=True, denies=True), recheck("volunteer", refutes=True)]),
    case("convicted; the auditor and the volunteer said so", "convicted", verdict="accepts", bond=DRAWN,
         rechecks=[recheck("auditor", refutes=True), recheck("volunteer", refutes=True)], games=[FIND, OF_PROOF]),
    case("convicted; the auditor confirmed what fell", "convicted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", overlooked=True)], games=[FIND]),
    case("convicted outside of the draw", "convicted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor")], games=[FIND]),
    case("convicted; the auditor refuted late", "convicted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", refutes=True, early=False)], games=[FIND]),
    case("convicted; a finder before the commitment", "convicted", verdict="accepts", bond=DRAWN, rechecks=[recheck("volunteer", refutes=True, early=False)],
         games=[FIND, OF_PROOF]),
    case("no-delivery; audited", "no-delivery", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor")]),
    case("accepted; the jackpot was empty", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor")], of_task=1_101),
    case("accepted; it had 400 of the silent auditor's fee", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", shown=False)], of_task=701),
    case("refuted by the auditor; it had 400", "refuted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", refutes=True)], of_task=701),
    case("no-delivery; it had 400", "no-delivery", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor")], of_task=701),
]


JACKPOT = 4_003

# Payouts where errors are forced.
FORCED_EXAMPLES = [
    case("accepted; the auditor found the error", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", claims=True)], jackpot=JACKPOT),
    case("accepted; auditor and volunteer found it", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", claims=True), recheck("volunteer", claims=True)],
         jackpot=JACKPOT),
    case("accepted; only the volunteer found it", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", confirms=True), recheck("volunteer", claims=True)],
         jackpot=JACKPOT),
    case("accepted; the auditor confirmed it unseen", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", confirms=True)]),
    case("accepted; the volunteer confirmed it unseen", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", claims=True), recheck("volunteer", confirms=True)],
         jackpot=JACKPOT),
    case("accepted; the volunteer denied all rows", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", claims=True), recheck("volunteer", denies=True)],
         jackpot=JACKPOT),
    case("accepted; the claimant's audit fell", "accepted", verdict="accepts", bond=DRAWN, rechecks=[recheck("volunteer", claims=True)], games=[OF_VOLUNTEER], jackpot=JACKPOT),
    case("unverified; the secret was withheld", "unverified", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor"), recheck("volunteer", denies=True)], secret="withheld"),
    case("unverified; the secret was given away", "unverified", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", claims=True)], secret="given away"),
    case("unverified; it was, before the auditor committed", "unverified", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", claims=True, after=True)], secret="given away"),
    case("unverified; it was, and the forced row fell", "unverified", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", claims=True, found=True, after=True)],
         games=[BY_AUDITOR], secret="given away"),
    case("unverified; it was, and the verdict fell", "unverified", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", denies=True, found=True)], games=[BY_AUDITOR],
         secret="given away"),
    case("unverified; the forced row was true", "unverified", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", overlooked=True)], games=[BY_AUDITOR]),
    case("unverified; it was true, and another row fell", "unverified", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", confirms=True, overlooked=True)], games=[TOPPLE]),
    case("unverified; it was true, and another row found", "unverified", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", denies=True, found=True, confirms=True)],
         games=[BY_AUDITOR]),
    case("unverified; forced, and another row false", "unverified", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", denies=True, found=True), recheck("volunteer", claims=True,
         overlooked=True)], games=[BY_AUDITOR], jackpot=JACKPOT),
    case("convicted outside of the draw; it was found", "convicted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", claims=True)], games=[FIND], jackpot=JACKPOT),
    case("refuted by the auditor; it was given away", "refuted", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", refutes=True)], secret="given away"),
    case("no-delivery; the auditor found the error", "no-delivery", verdict="accepts", bond=DRAWN, rechecks=[recheck("auditor", claims=True)], jackpot=JACKPOT),
]


def drawn_cases(number):
    """Cases that can follow from a ledger, with drawn numbers: small bonds that do not cover what they owe, 40 finders, roles in one key."""
    rng = random.Random(20)
    for _ in range(number):
        policy = dict(POLICY)
        for key in ("solver_bond", "verifier_bond", "challenger_bond", "verifier_fee"):
            policy[key] = rng.choice((0, 1, rng.randrange(1 << 20)))
        for key in ("solver_bond_ppm", "verifier_bond_ppm"):
            policy[key] = rng.choice((0, 1, rng.randrange(2_000_000)))
        policy["split_submitter_ppm"] = rng.randrange(1_000_001)
        policy["split_verifier_ppm"] = rng.randrange(1_000_001 - policy["split_submitter_ppm"])
        policy["split_jackpot_ppm"] = 10**6 - policy["split_submitter_ppm"] - policy["split_verifier_ppm"]
        estimate = {"reward": rng.randrange(1 << 30), "fee": rng.randrange(1 << 20), "tax": rng.randrange(1 << 20), "treasury": rng.randrange(1 << 10),
                    "margin": rng.randrange(1 << 20)}
        estimate["fee"] = max(estimate["fee"], policy["verifier_fee"])
        some = dict(rng.choice(EXAMPLES + DRAWN_EXAMPLES + AUDIT_EXAMPLES + FORCED_EXAMPLES))
        if some["named"] and some["reason"] in ASSIGNED:
            some["verifier_bond"] = policy["verifier_bond"] + part(estimate["reward"], policy["verifier_bond_ppm"])
        elif some["verifier_bond"] > 0:
            some["verifier_bond"] = rng.randrange(1, 1 << 30)
            some["silent_bonds"] = sum(rng.randrange(1, 1 << 30) for _ in range(rng.randrange(3)))
        cut = rng.choice((1, 1, rng.random()))
        some["earned"] = {key: int(estimate[key] * cut) for key in ("reward", "tax", "treasury")}
        if some["fee"] is not None:
            some["fee"] = rng.randrange(estimate["fee"] + 1)
        proof_falls = any(about == "proof" and result == "falls" for _, about, result, _ in some["games"])
        some["rechecks"] = [{**one, "bond": rng.randrange(1 << 30), "early": not proof_falls or rng.random() < 0.7} for one in some["rechecks"]]
        if any(one["drawn"] for one in some["rechecks"]):
            some["audit_fee"] = rng.randrange(estimate["fee"] + 1)
            some["audit_fee_of_task"] = rng.choice((0, rng.randrange(min(some["audit_fee"], estimate["margin"]) + 1)))
        if some["rechecks"] and not any(one["refutes"] and one["drawn"] for one in some["rechecks"]):
            some["rechecks"] += [{**recheck(f"key {number}", rng.random() < 0.7, denies=rng.random() < 0.5), "bond": rng.randrange(1 << 20)} for number in range(rng.randrange(9))]
            for one in some["rechecks"]:
                one["refutes"] = one["refutes"] or one["shown"] and not one["drawn"] and not one["claims"] and rng.random() < 0.3
                one["after_secret"] = some["secret"] == "given away" and rng.random() < 0.5
                if some["jackpot"] and one["shown"] and not one["refutes"] and rng.random() < 0.5:
                    one |= {"denies": True, "denies_more": False, "claims": True, "confirmed_forced": False}
            some["jackpot"] = some["jackpot"] and rng.randrange(1 << 40)
            rng.shuffle(some["rechecks"])
        games = list(some["games"])
        for _ in range(rng.choice((0, 1, 3, 40))):
            # Nothing more falls than fell in the example.
            statements = {game[1] for game in games}
            shown = ["audit of " + one["who"] for one in some["rechecks"] if one["shown"]]
            about = rng.choice(("proof", "verdict", *shown) if some["fee"] is not None else ("proof",))
            fell = about in statements and any(game[1] == about and game[2] == "falls" for game in games)
            if some["proved"]:
                games.insert(rng.randrange(len(games) + 1), [f"key {rng.randrange(50)}", about, rng.choice(("falls", "stands", "returned") if fell else ("stands", "returned")),
                                                             rng.randrange(1 << 20)])
        some["games"] = games
        yield policy, estimate, some


def table(examples):
    """Examples as the page prints them."""
    audited = [name for name in ("auditor", "volunteer") if any(one["rechecks"] for one in examples)]
    robbed = ["robber"] if any(one["secret"] != "kept" for one in examples) else []
    columns = ("submitter", "solver", "verifier", *audited, *robbed, "finders", "jackpot", "treasury")
    lines = ["outcome".ljust(49) + "".join(f"{name:>11}" for name in columns)]
    for one in examples:
        paid = settle(POLICY, ESTIMATE, one)
        finders = [paid[who] for who in ("finder", "second") if who in paid]
        cells = [" ".join(map(str, finders)) if name == "finders" else str(paid.get(name, 0)) for name in columns]
        lines.append(one["name"].ljust(49) + "".join(f"{'-' if cell in ('', '0') else cell:>11}" for cell in cells))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def jackpots(number):
    """The sums that claimants may share, from the page's least of four."""
    rng = random.Random(22)
    for _ in range(number):
        some = [0, 1, 10**6, 2**43, rng.randrange(1 << 40), rng.randrange(1 << 20)]
        rates = [1, 50_000, 999_999, 10**6, rng.randrange(1, 10**6)]
        policy = {"audit_ppm": rng.choice([0, *rates]), "forced_error_ppm": rng.choice(rates), "jackpot": rng.choice(some), "verifier_bond": rng.choice(some),
                  "challenger_bond": rng.choice(some), "verifier_bond_ppm": 0, "challenger_bond_ppm": 0}
        fee, tax = rng.choice([0, 1, 2**50, rng.randrange(1 << 30)]), rng.choice([0, 1, 2**50, 2**53, rng.randrange(1 << 30)])
        replayed, pool = rng.choice([1, 2, 3, 1024, rng.randrange(1, 1024)]), rng.choice([0, 1, 2, 3, 2**53, rng.randrange(1 << 45)])
        c, rho = policy["audit_ppm"], policy["forced_error_ppm"]
        audit_fee = min(fee, tax * 10**6 // c) if c else 0
        bond = min(policy["verifier_bond"], policy["challenger_bond"])
        sums = [policy["jackpot"], pool // 3, (tax * 10**6 - c * audit_fee) // rho, max(bond * (replayed * 10**6 - rho) // rho - audit_fee, 0)]
        yield {"policy": policy, "fee": fee, "tax": tax, "replayed": replayed, "pool": pool, "sum": min(sums)}


def vectors():
    rows = []
    for policy, estimate, one in itertools.chain(((POLICY, ESTIMATE, one) for one in EXAMPLES + DRAWN_EXAMPLES + AUDIT_EXAMPLES + FORCED_EXAMPLES), drawn_cases(300)):
        stated = {key: value for key, value in one.items() if value is not None}
        rows.append(json.dumps({"policy": policy, "estimate": estimate, **stated, "payouts": settle(policy, estimate, one)}, separators=(",", ":")))
    sums = [json.dumps(one, separators=(",", ":")) for one in jackpots(300)]
    return '{"cases":[\n' + ",\n".join(rows) + '\n],"jackpots":[\n' + ",\n".join(sums) + "\n]}\n"


def main():
    here = pathlib.Path(__file__).resolve().parent
    page = here.parent.parent / "man" / "dgx-money.7.scd"
    text = page.read_text(encoding="utf-8")
    derived, at = text, 0
    for examples in (EXAMPLES, DRAWN_EXAMPLES, AUDIT_EXAMPLES, FORCED_EXAMPLES):
        begin = derived.index("```\noutcome", at) + 4
        at = derived.index("```", begin)
        derived = derived[:begin] + table(examples) + derived[at:]
        at = derived.index("```", begin) + 3
    if "--accept" in sys.argv:
        page.write_text(derived, encoding="utf-8")
        (here / "money.json").write_text(vectors(), encoding="utf-8")
    elif text != derived:
        sys.exit(f"{page.name}: the worked examples are not those that follow from its rules:\n{table(EXAMPLES)}\n{table(DRAWN_EXAMPLES)}\n{table(AUDIT_EXAMPLES)}\n{table(FORCED_EXAMPLES)}")
    elif (here / "money.json").read_text(encoding="utf-8") != vectors():
        sys.exit("money.json is not what this script writes")


if __name__ == "__main__":
    main()
