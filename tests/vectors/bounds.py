"""Vectors for the closed forms of dgx-money(7), derived from what each party gains, in exact fractions; it uses no code of dgx. Nothing is solved for a number:
what is least or most is searched for, and a cheat may fake any number of segments. It compares bounds.json with what it derives; --accept writes it:
/usr/bin/python3 tests/vectors/bounds.py --accept"""
import itertools
import json
import math
import pathlib
import sys
from fractions import Fraction

M = 10**6
N = 100  # segments of the task that costs C = R = 10^6
C = R = 10**6
MOST = 1 << 43

STANDARD = {"audit_ppm": 0, "beacon_slot_ms": 60_000, "beacon_source": 0, "beacon_steps": 1 << 33, "challenger_bond": 10_000, "challenger_bond_ppm": 0,
            "forced_error_ppm": 0, "jackpot": 0, "jackpot_tax_ppm": 20_000, "sample_ppm": 50_000, "solver_bond": 10_000, "solver_bond_ppm": 200_000,
            "split_verifier_ppm": 250_000, "treasury_ppm": 0, "verifier_bond": 10_000, "verifier_bond_ppm": 100_000, "verifier_fee": 100,
            "window_challenge_ms": 86_400_000, "window_reveal_ms": 86_400_000}
AUDITED = {"beacon_source": 1, "audit_ppm": 180_000, "forced_error_ppm": 50_000, "solver_bond_ppm": 4 * M, "verifier_bond_ppm": M}
# A market without a fault, one that bribes alone endanger, and others.
CASES = [
    ("audited", AUDITED, 0, 1),
    ("baited", AUDITED | {"sample_ppm": 10_000, "jackpot": 800_000, "jackpot_tax_ppm": 60_000, "challenger_bond": 50_000, "treasury_ppm": 1_000}, 100_000, 20),
    ("standard", {}, 0, 1),
    ("greedy", AUDITED | {"sample_ppm": 10_000, "jackpot": 10**9, "forced_error_ppm": M, "solver_bond_ppm": 0, "audit_ppm": 100_000}, 300_000, 7),
    ("asleep", {"beacon_source": 1, "audit_ppm": 10_000, "verifier_fee": 10**9, "verifier_bond": 0, "verifier_bond_ppm": 1, "solver_bond": 3,
                "solver_bond_ppm": 0, "beacon_slot_ms": 86_400_000, "beacon_steps": 1 << 16, "jackpot": 10**7, "challenger_bond": 0}, 250_000, 3),
    ("hasty", AUDITED | {"window_challenge_ms": 60_000, "window_reveal_ms": 600_000}, 0, 1),
    ("pulsed", AUDITED | {"beacon_source": 2, "window_challenge_ms": 122_999, "window_reveal_ms": 62_999}, 0, 1)]


# Guessing is found less than confirming: a draw of one row that is nearly always forced, and one that always is. Then one where a bribe for the verifier makes guessing pay.
FORCED = AUDITED | {"jackpot": 100_000, "jackpot_tax_ppm": 200_000, "challenger_bond": 500_000}
CASES += [("forced", FORCED | {"sample_ppm": 10_000, "forced_error_ppm": 950_000, "verifier_bond_ppm": 100_000}, 0, 1),
          ("overforced", FORCED | {"forced_error_ppm": M, "sample_ppm": 10_000, "audit_ppm": M, "verifier_bond": 0, "verifier_bond_ppm": 0}, 200_000, 1),
          ("saved", FORCED | {"jackpot": 2_000_000, "forced_error_ppm": 400_000, "challenger_bond": 2_000_000, "jackpot_tax_ppm": M, "verifier_bond_ppm": 50_000}, 100_000, 1)]


class Market:
    def __init__(self, policy, alpha, tasks):
        self.policy, self.alpha, self.tasks = policy, Fraction(alpha, M), tasks
        self.c, self.rho = Fraction(policy["audit_ppm"], M), Fraction(policy["forced_error_ppm"], M)
        self.q = max(1, -(-N * policy["sample_ppm"] // M))
        self.segment = C // N
        self.recheck = self.segment * self.q
        self.fee = policy["verifier_fee"] + self.recheck
        self.tax, self.treasury = (R * policy[key] // M for key in ("jackpot_tax_ppm", "treasury_ppm"))
        self.bond = {who: policy[f"{who}_bond"] + R * policy[f"{who}_bond_ppm"] // M for who in ("solver", "verifier", "challenger")}

    def caught(self, faked):
        missed = Fraction(math.comb(N - faked, self.q), math.comb(N, self.q))
        # An honest verifier; or an accomplice, and an audit by somebody honest.
        return (1 - missed) * ((1 - self.alpha) + self.alpha * self.c * (1 - self.alpha))

    def gain(self, faked, bond, benefit=0):
        """Of a cheat, less that of an honest solver."""
        p, f = self.caught(faked), Fraction(faked, N)
        return (1 - p) * (R + benefit) - p * bond - (1 - f) * C - (R - C)

    def cheats_lose(self, bond, benefit=0):
        return all(self.gain(faked, bond, benefit) <= 0 for faked in range(1, N + 1))

    def paid_out(self):
        """What audits and jackpots pay for a task, whatever number of claimants there is."""
        return self.c * self.fee + self.rho * max(Fraction(k, 2 ** (k - 1)) for k in range(1, 40)) * self.policy["jackpot"]


    def forced(self):
        """What may be forced, with its chance: no row, or one of q."""
        return [(None, 1 - self.rho)] + [(row, self.rho / self.q) for row in range(self.q)]

    def denials(self):
        """What somebody may deny unseen: any rows."""
        return itertools.chain.from_iterable(itertools.combinations(range(self.q), k) for k in range(self.q + 1))

    def auditor(self, bond, saves):
        """The most that an auditor who does not look has on average; with `saves` the verifier loses a game on purpose where they were wrong, and both share."""
        def has(denied, forced):
            wrong = set(denied) - {forced} or (forced is not None and forced not in denied)
            if not wrong:
                return self.fee
            if not saves:
                return -bond
            # The verifier's fee and half of the bond are gone, half is the finders'; the auditor's fee is kept if the game is about a row that they denied.
            return (self.fee if denied else 0) - self.fee - Fraction(bond, 2)
        return max(sum(p * (self.alpha * self.fee + (1 - self.alpha) * has(denied, forced)) for forced, p in self.forced()) for denied in self.denials())

    def guesser(self, bond, verifier_bond, saves):
        """The most that a volunteer has on average who denies rows unseen."""
        lost = self.fee + Fraction(verifier_bond, 2) if saves else bond
        has = lambda denied, forced: self.policy["jackpot"] if (forced,) == denied else -lost
        return max(sum(p * has(denied, forced) for forced, p in self.forced()) for denied in self.denials() if denied)


def least(holds, high):
    """The least number for which it holds, from 0 to `high`; None if there is none. Once it holds it holds for all that are greater."""
    if not holds(high):
        return None
    low, top = -1, high
    while top - low > 1:
        middle = (low + top) // 2
        low, top = (low, middle) if holds(middle) else (middle, top)
    return top


def most(holds, high):
    """The greatest number for which it holds, from 0 to `high`; None if there is none. Once it does not hold it never does."""
    first_wrong = least(lambda number: not holds(number), high)
    return high if first_wrong is None else first_wrong - 1 if first_wrong > 0 else None


ENOUGH = 1 << 62


def rules(m):
    """Name, what the policy has, and whether a number in its place would do."""
    policy, bond = m.policy, m.bond
    watched = lambda rate: lambda number: m.recheck <= rate * (1 - m.alpha) * (m.fee + number)
    audited = lambda saves: lambda number: m.c == 0 or m.auditor(number, saves) <= m.fee - m.recheck
    return {
        "named_verifier": (policy["beacon_source"], lambda number: number >= 1),
        "solver_bond": (bond["solver"], m.cheats_lose),
        "bribed_verifier": (policy["audit_ppm"], lambda number: C + m.recheck <= Fraction(number, M) * (R + bond["solver"] + bond["verifier"])),
        "delay_steps": (policy["beacon_steps"], lambda number: policy["beacon_source"] != 1 or number >= 10 * policy["beacon_slot_ms"] * 12_700),
        "proof_round": (policy["window_reveal_ms"], lambda number: number >= after_slot(policy)),
        "verdict_round": (policy["window_challenge_ms"], lambda number: m.c == 0 or not policy["beacon_source"] or number >= policy["beacon_slot_ms"] + after_slot(policy)),
        "audit_fee": (R, lambda number: number >= m.c * m.fee),
        "lazy_verifier": (bond["verifier"], watched(m.c)),
        "lazy_auditor": (bond["verifier"], audited(False)),
        "saved_auditor": (bond["verifier"], audited(True)),
        "farming": (m.tax, lambda number: number >= m.paid_out()),
        "guessing": (bond["challenger"], lambda number: m.guesser(number, 0, False) <= 0),
        "saved_guesser": (bond["verifier"], lambda number: m.guesser(0, number, True) <= 0),
        "challenger_bond": (bond["challenger"], lambda number: number >= m.segment),
        "planting": (bond["challenger"], planting(m))}


def after_slot(policy):
    """Milliseconds from a slot's end to its round: of the delay, or a slot more and the time between two pulses."""
    return {0: 0, 1: Fraction(policy["beacon_steps"], 12_700), 2: policy["beacon_slot_ms"] + 3_000}[policy["beacon_source"]]


def planting(m):
    stake, finders = m.bond["solver"] + R, m.bond["solver"] * m.policy["split_verifier_ppm"] // M
    if stake <= C:
        return lambda number: False
    # Rounded down: the first share, against half of the bond.
    return lambda number: number >= finders * C // (stake - C)


# The keys that mend a rule: the one to search, the ends of its range, and what is set beside it. The first that helps is taken.
LEAST = lambda key, high=MOST, low=0, **beside: (least, key, low, high, beside)
MOST_OF = lambda key, **beside: (most, key, 0, MOST, beside)
MENDS = {
    "named_verifier": [LEAST("beacon_source", 1)],
    "solver_bond": [LEAST("solver_bond")],
    "bribed_verifier": [LEAST("audit_ppm", M), LEAST("verifier_bond", audit_ppm=M)],
    "delay_steps": [LEAST("beacon_steps", 1 << 40)],
    "proof_round": [LEAST("window_reveal_ms")],
    "verdict_round": [LEAST("window_challenge_ms")],
    "audit_fee": [MOST_OF("verifier_fee")],
    "lazy_verifier": [LEAST("verifier_bond")],
    "lazy_auditor": [LEAST("verifier_bond")],
    "saved_auditor": [LEAST("verifier_bond")],
    "farming": [LEAST("jackpot_tax_ppm", M), MOST_OF("jackpot", jackpot_tax_ppm=M)],
    "guessing": [LEAST("challenger_bond"), MOST_OF("jackpot")],
    "saved_guesser": [LEAST("verifier_bond"), MOST_OF("jackpot")],
    "challenger_bond": [LEAST("challenger_bond")],
    "planting": [LEAST("challenger_bond")]}


def keeps(name, policy, alpha, tasks):
    own, would_do = rules(Market(policy, alpha, tasks))[name]
    return would_do(own)


def mend(name, policy, alpha, tasks):
    if name == "delay_steps" and 10 * policy["beacon_slot_ms"] * 12_700 > 1 << 40:
        slot = (1 << 40) // 127_000
        return {"beacon_slot_ms": slot, "beacon_steps": 127_000 * slot}
    for search, key, low, high, beside in MENDS[name]:
        found = search(lambda number: keeps(name, policy | beside | {key: number}, alpha, tasks), high)
        if found is not None and found >= low:
            return beside | {key: found}
    return mend_rate(policy, alpha, tasks) if name == "lazy_auditor" else {}


def mend_rate(policy, alpha, tasks):
    """The nearest rate of forced errors that watches auditors. Confirming is found the more often the greater it is, denying a row the less: the rate at which both are
    found as often is the best, and if the bond does not suffice with that, it has to be greater."""
    holds = lambda rate: keeps("lazy_auditor", policy | {"forced_error_ppm": rate}, alpha, tasks)
    q = Market(policy, alpha, tasks).q
    best = q * M // (q + 1)
    if not holds(best):
        beside = {"forced_error_ppm": best}
        return beside | {"verifier_bond": least(lambda number: keeps("lazy_auditor", policy | beside | {"verifier_bond": number}, alpha, tasks), MOST)}
    if policy["forced_error_ppm"] < best:
        return {"forced_error_ppm": least(holds, best)}
    return {"forced_error_ppm": best + least(lambda more: not holds(best + more), M - best) - 1}


def volunteers(m):
    if m.rho * m.policy["jackpot"] / 2 < m.recheck:
        return 0
    worth = lambda n: m.rho * m.policy["jackpot"] / 2 * (1 - Fraction(1, 2 * m.tasks)) ** (n - 1)
    return most(lambda n: n == 0 or worth(n) >= m.recheck, 10_000)


def row(case):
    name, keys, alpha, tasks = case
    policy, better = STANDARD | keys, STANDARD | keys
    m, out = Market(policy, alpha, tasks), {}
    for rule, (own, would_do) in rules(m).items():
        value = least(would_do, ENOUGH)
        # Rates are at most a million; audits that would have to be more often are told all the same.
        out[rule] = {"policy": own, "holds": would_do(own), "value": value, "mend": {}}
        if not keeps(rule, better, alpha, tasks):
            out[rule]["mend"] = mend(rule, better, alpha, tasks)
            better |= out[rule]["mend"]
    for rule in rules(m):
        assert keeps(rule, better, alpha, tasks) or rule == "planting", (name, rule)
    told = {"alpha_tolerated": most(lambda ppm: Market(policy, ppm, tasks).cheats_lose(m.bond["solver"]), M - 1),
            "benefit_deterred": most(lambda benefit: m.cheats_lose(m.bond["solver"], benefit), ENOUGH) or 0,
            "volunteers": volunteers(m), "rechecking": math.ceil(m.paid_out()),
            "overhead_ppm": math.ceil(Fraction(M * (R - C + m.fee + m.tax + m.treasury), C))}
    return {"name": name, "policy": keys, "alpha_ppm": alpha, "tasks": tasks, "rules": out, "told": {key: value for key, value in told.items() if value is not None},
            "mended": {key: value for key, value in better.items() if value != STANDARD[key]}}


def vectors():
    text = lambda value: json.dumps(value, separators=(",", ":"), sort_keys=True)
    drop = lambda one: one | {"rules": {name: {k: v for k, v in each.items() if v is not None} for name, each in one["rules"].items()}}
    return '{"cases":[\n' + ",\n".join(text(drop(row(case))) for case in CASES) + "\n]}\n"


def main():
    path = pathlib.Path(__file__).resolve().parent / "bounds.json"
    if "--accept" in sys.argv:
        path.write_text(vectors(), encoding="utf-8")
    elif path.read_text(encoding="utf-8") != vectors():
        sys.exit("bounds.json is not what this script writes")


if __name__ == "__main__":
    main()
