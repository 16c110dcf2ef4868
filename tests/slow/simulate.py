#!/usr/bin/python3
"""Simulated markets beside the closed forms of dgx-money(7), for five policies of which two are bad.

usage: simulate.py DGX-SETTLE TASKS

Tasks cost C = 10^6 = R in 100 segments. For each policy: the bond at which a cheat who fakes everything with accomplices breaks even, from the rate at
which they are caught, within 2 % of form 1; the bond of a lazy verifier, from the rate at which they are caught, within 2 % of form 2; the rates of audits
and draws by chi-square; and that the jackpot account is never negative. `bounds` warns of the bad policies and not of the others, and of none with its
mends. (Errors are not forced here, so what it says of lazy auditors is left out.)
"""

import json
import pathlib
import subprocess
import sys
import tempfile

SETTLE, TASKS = sys.argv[1], int(sys.argv[2])
COST = 1_000_000
SAFE = {"beacon_source": 1, "solver_bond": 1_500_000, "jackpot_tax_ppm": 100_000}
# name: policy, alpha, warnings of what is simulated
POLICIES = {
    "audits-50": (SAFE | {"audit_ppm": 500_000, "verifier_bond": 200_000}, 0.4, set()),
    "audits-40": (SAFE | {"audit_ppm": 400_000, "verifier_bond": 400_000}, 0.2, set()),
    "audits-60": (SAFE | {"audit_ppm": 600_000, "verifier_bond": 300_000, "sample_ppm": 100_000}, 0.5, set()),
    "bad-bonds": (SAFE | {"audit_ppm": 500_000, "solver_bond": 310_000, "solver_bond_ppm": 0, "verifier_bond": 300_000, "unsafe_bonds": 1}, 0.4, {"cheating pays", "cheating pays if the verifier can be bribed"}),
    "bad-audits": (SAFE | {"audit_ppm": 100_000, "verifier_bond": 10_000}, 0.3, {"cheating pays if the verifier can be bribed", "lazy verifying pays"}),
}
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


def simulate(folder, policy, agents):
    out, _ = run("simulate", "--policy", policy, "--agents", written(folder, "agents.json", agents), "--tasks", TASKS, "--markets", 20, "--seed", 7,
                 "--threads", 2, "-q")
    expect("the jackpot account is never negative", out["pool_least"] >= 0 and all(point["least"] >= 0 for point in out["pool"]))
    expect(f"audits by chi-square: p = {rate(out, 'audit')['p']:.3f}", rate(out, "audit")["p"] > 0.01)
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


def bounds(path, alpha):
    result, warnings = run("bounds", "--policy", path, "--alpha", round(alpha * 1e6))
    return result["mends"], {warning.split(":")[0] for warning in warnings}


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, (keys, alpha, warnings) in POLICIES.items():
            print(f"{name}: alpha {alpha}")
            policy = written(folder, "policy.json", keys)
            mends, warned = bounds(policy, alpha)
            warned -= {"lazy auditing pays"}
            expect(f"bounds warns: {sorted(warned)}", warned == warnings)
            left = bounds(written(folder, "mended.json", keys | mends), alpha)[1]
            expect("no warning is left with every mend", left == set())
            check_cheat(folder, policy, keys, alpha)
            check_lazy(folder, policy, keys)
    sys.exit(1 if failures else 0)


main()
