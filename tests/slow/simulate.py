#!/usr/bin/python3
"""Simulated markets beside the closed forms of dgx-money(7), for five policies of which two are bad, and four of which force errors.

usage: simulate.py DGX-SETTLE TASKS

Tasks cost C = 10^6 = R in 100 segments. For each policy: the bond at which a cheat who fakes everything with accomplices breaks even, from the rate at
which they are caught, within 2 % of form 1; the bonds of a lazy verifier and of a lazy auditor, from the rates at which they are caught, within 2 % of form 2;
the bond of a guesser within 2 % of form 5; that farmers lose; the rates of audits, draws, forced errors and guesses by chi-square; and that the jackpot account is
never negative. For three markets more, the number of volunteers at which one gains nothing, within 5 % of form 4. `bounds` warns of the bad policies and not of the
others, and of none with its mends.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile

SETTLE, TASKS = sys.argv[1], int(sys.argv[2])
COST = 1_000_000
SAFE = {"beacon_source": 1, "solver_bond": 1_500_000, "jackpot_tax_ppm": 100_000}
BRIBED = {"cheating pays if the verifier can be bribed", "lazy auditing pays if the verifier can be bribed"}
# name: policy, alpha, warnings
POLICIES = {
    "forced-40": (SAFE | {"audit_ppm": 500_000, "verifier_bond": 200_000, "forced_error_ppm": 400_000, "jackpot": 150_000, "challenger_bond": 20_000}, 0.4, set()),
    "forced-20": (SAFE | {"audit_ppm": 400_000, "verifier_bond": 400_000, "forced_error_ppm": 200_000, "jackpot": 200_000}, 0.2, set()),
    "forced-50": (SAFE | {"audit_ppm": 600_000, "verifier_bond": 300_000, "sample_ppm": 100_000, "forced_error_ppm": 500_000}, 0.5, set()),
    "bad-bonds": (SAFE | {"audit_ppm": 500_000, "solver_bond": 310_000, "solver_bond_ppm": 0, "verifier_bond": 300_000, "unsafe_bonds": 1}, 0.4,
                  BRIBED | {"cheating pays", "lazy auditing pays"}),
    "bad-audits": (SAFE | {"audit_ppm": 100_000, "verifier_bond": 10_000, "forced_error_ppm": 200_000, "jackpot": 600_000}, 0.3,
                   BRIBED | {"lazy verifying pays", "lazy auditing pays", "farming pays", "guessing pays"}),
}
# T, rho J / C_w
VOLUNTEERS = [(10, 4), (30, 3), (100, 2.5)]
failures = []


def expect(what, true):
    print(("ok      " if true else "FAILED  ") + what, flush=True)
    if not true:
        failures.append(what)


def run(*words):
    done = subprocess.run([SETTLE, *map(str, words), "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{words}: {done.stderr}")
    return json.loads(done.stdout), [json.loads(line).get("warning", "") for line in done.stderr.splitlines()]


def written(folder, name, value):
    path = pathlib.Path(folder, name)
    path.write_text(json.dumps(value))
    return path


def rate(result, name):
    return next(row for row in result["rates"] if row["rate"] == name)


def earned(result, kind, role):
    return next(row for row in result["earnings"] if (row["kind"], row["role"]) == (kind, role))


def simulate(folder, policy, agents, tasks=TASKS, opened=100):
    out, _ = run("simulate", "--policy", policy, "--agents", written(folder, "agents.json", agents), "--tasks", tasks, "--markets", 20, "--seed", 7,
                 "--threads", 2, "--open", opened, "-q")
    expect("the jackpot account is never negative", out["pool_least"] >= 0 and all(point["least"] >= 0 for point in out["pool"]))
    for name in ("audit", "forced_error", "guess_right"):
        for row in out["rates"]:
            if row["rate"] == name and row["p"] is not None:
                expect(f"{name} by chi-square: p = {row['p']:.3f} of {row['of']}", row["p"] > 0.01)
    return out


def check_cheat(folder, policy, keys, alpha):
    """Form 1. An accomplice does not audit themselves, so there are many of them."""
    audits = keys["audit_ppm"] / 1e6
    stake = 250 * (keys["verifier_bond"] + 100_000)
    out = simulate(folder, policy, {"honest": {"count": 2, "bond": stake}, "cheat": {"count": 64}, "colluder": {"count": 60, "share_ppm": round(alpha * 1e6)}})
    caught = rate(out, "false_proof_caught")["mean"]
    form = COST / ((1 - alpha) * (1 + alpha * audits)) - COST
    found = COST / caught - COST
    expect(f"a cheat breaks even at {form:.0f}, simulated {found:.0f}", abs(found - form) < 0.02 * form)
    bond = keys["solver_bond"] + keys.get("solver_bond_ppm", 200_000)
    gain = earned(out, "cheat", "solver")
    # The cheat's gain beside an honest solver's, with R = C.
    expect(f"the gain has the sign of the difference: {gain['mean']:.0f} at {bond}", (gain["mean"] > 0) == (bond < form))
    expect("verifiers are drawn by their bonds", rate(out, "verifier_colluder")["p"] > 0.01)


def check_lazy(folder, policy, keys):
    """Form 2, with alpha 0: a lazy one among twenty who look."""
    out = simulate(folder, policy, {"honest": {"count": 12}, "lazy": {"count": 1, "bond": 144 * (keys["verifier_bond"] + 100_000)}})
    audits, replay = keys["audit_ppm"] / 1e6, COST * keys.get("sample_ppm", 50_000) / 1e6
    fee = replay + 100
    form = replay / audits - fee
    found = replay / rate(out, "unseen_verdict_caught")["mean"] - fee
    # Relative to fee and bond, which are lost together: the bond alone may be near 0.
    expect(f"a lazy verifier breaks even at {form:.0f}, simulated {found:.0f}", abs(found - form) < 0.02 * (form + fee))


def parts_of(keys):
    return keys.get("audit_ppm", 0) / 1e6, keys.get("forced_error_ppm", 0) / 1e6, COST * keys.get("sample_ppm", 50_000) / 1e6


def check_lazy_auditor(folder, policy, keys):
    """Form 2. First lazy ones who know nothing of each other; then a sybil's keys, which tell each other: of the 11 others 6 are honest."""
    audits, forced, replay = parts_of(keys)
    fee = replay + 100
    for agents, honest in (({"honest": {"count": 1}, "lazy": {"count": 10}}, 1), ({"honest": {"count": 6}, "sybil": {"count": 1, "keys": 6}}, 6 / 11)):
        lazy, caught = (10 / 11 if honest == 1 else 1 / 2), forced * honest
        if lazy < 0.9 and audits < 0.4:
            continue  # too few are caught
        out = simulate(folder, policy, agents, max(TASKS, round(14_000 * (1 - caught) / (audits * lazy * caught))))
        form = replay / caught - fee
        found = replay / rate(out, "unseen_audit_caught")["mean"] - fee
        expect(f"a lazy auditor breaks even at {form:.0f}, simulated {found:.0f}", abs(found - form) < 0.02 * (form + fee))


def check_guesser(folder, policy, keys):
    """Form 5, of volunteers, and form 2 of auditors who guess. They verify little: their bonds are small."""
    audits, forced, replay = parts_of(keys)
    rows, jackpot = replay / 10_000, keys.get("jackpot", 0) or 1
    stake = 5_000 * (keys["verifier_bond"] + 100_000)
    out = simulate(folder, policy, {"honest": {"count": 2, "bond": stake}, "guesser": {"count": 20}}, opened=10)
    form = forced * jackpot / (rows - forced)
    right = rate(out, "guess_right")["mean"]
    found = right * jackpot / (1 - right)
    expect(f"a guesser breaks even at {form:.3f}, simulated {found:.3f}", abs(found - form) < 0.02 * form)
    gain = earned(out, "guesser", "volunteer")["mean"]
    expect(f"guessers lose: {gain:.0f}", gain < 0)
    out = simulate(folder, policy, {"honest": {"count": 6}, "guesser": {"count": 1, "bond": 6 * (keys["verifier_bond"] + 100_000)}})
    # Where a guesser has given the verdict, nobody is told; an honest auditor's denials fell it.
    caught, wrong = rate(out, "guessed_audit_caught"), 1 - forced / rows
    expect(f"an auditor who guesses is found with {wrong:.3f}, simulated {caught['mean']:.3f}", abs(caught["mean"] - wrong) < 0.02 * wrong)


def check_farmers(folder, policy):
    """Form 3. Their training costs nothing, and they verify their own tasks as often as they are drawn."""
    out = simulate(folder, policy, {"honest": {"count": 2}, "farmer": {"count": 2}})
    rows = [row for row in out["earnings"] if row["kind"] == "farmer"]
    tasks = next(row["tasks"] for row in rows if row["role"] == "submitter")
    total = sum(row["total"] for row in rows) / tasks
    expect(f"farmers lose: {total:.0f} a task", total < 0)


def check_volunteers(folder, opened, worth):
    """Form 4: the maker of each error claims, too. The gain is an exponential function of the number of volunteers, so it is 0 where a line through two logarithms says."""
    replay, forced = 10_000, 0.5
    bond = 200_000
    policy = written(folder, "policy.json", {"beacon_source": 1, "sample_ppm": 10_000, "forced_error_ppm": round(forced * 1e6), "jackpot": round(worth * replay / forced),
                                             "jackpot_tax_ppm": 200_000, "challenger_bond": bond, "verifier_bond": bond, "unsafe_bonds": 1})
    form = 1 + math.log(2 / worth) / math.log(1 - 1 / (2 * opened))
    points = []
    for count in (round(0.7 * form), min(64, round(1.3 * form))):
        agents = {"honest": {"count": 1}, "insider": {"count": 4, "bond": 2_500 * (bond + 100_000)}, "volunteer": {"count": count}}
        out = simulate(folder, policy, agents, 2 * TASKS, opened)
        expect(f"the program says {math.floor(form)} volunteers", out["volunteers_paid_for"] == str(math.floor(form)))
        points.append((count, math.log((earned(out, "volunteer", "volunteer")["mean"] + replay) / replay)))
    (few, high), (many, low) = points
    found = few + (many - few) * high / (high - low)
    expect(f"{opened} tasks, rho J = {worth} C_w: volunteers gain up to {form:.2f} of them, simulated {found:.2f}", abs(found - form) < 0.05 * form)


def check_saved(folder, forced):
    """Form 2, of auditors whom the verifier saves: what they lose together has to be C_w. The finders are 15 keys, and all but one in 1,000 verdicts is a venal verifier's."""
    replay, fee = 50_000, 50_100
    bond = round(2 * replay / forced - 4 * fee)
    policy = written(folder, "policy.json", SAFE | {"audit_ppm": 500_000, "verifier_bond": bond // 60, "verifier_bond_ppm": 0, "forced_error_ppm": round(forced * 1e6)})
    out = simulate(folder, policy, {"honest": {"count": 1}, "venal": {"count": 16, "bond": bond}})
    verdicts, audits = (earned(out, "venal", role)["tasks"] for role in ("verifier", "auditor"))
    total = sum(row["total"] for row in out["earnings"] if row["kind"] == "venal")
    lost = 100 * (verdicts + audits) / audits + replay - total / audits
    found = 2 * replay / (lost / (2 * fee + bond / 2)) - 4 * fee
    expect(f"a saved auditor breaks even at {bond}, simulated {found:.0f}", abs(found - bond) < 0.02 * (bond + 4 * fee))


def bounds(path, alpha):
    result, warnings = run("bounds", "--policy", path, "--alpha", round(alpha * 1e6))
    return result["mends"], {warning.split(":")[0] for warning in warnings}


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, (keys, alpha, warnings) in POLICIES.items():
            print(f"{name}: alpha {alpha}")
            policy = written(folder, "policy.json", keys)
            mends, warned = bounds(policy, alpha)
            expect(f"bounds warns: {sorted(warned)}", warned == warnings)
            left = bounds(written(folder, "mended.json", keys | mends), alpha)[1]
            expect("no warning is left with every mend", left == set())
            check_cheat(folder, policy, keys, alpha)
            check_lazy(folder, policy, keys)
            if keys.get("forced_error_ppm"):
                check_lazy_auditor(folder, policy, keys)
                check_guesser(folder, policy, keys)
                check_farmers(folder, policy)
        for forced in (0.1, 0.2):
            check_saved(folder, forced)
        for opened, worth in VOLUNTEERS:
            check_volunteers(folder, opened, worth)
    sys.exit(1 if failures else 0)


main()
