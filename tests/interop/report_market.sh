# A market in which a solver cheats, is led to one operation and slashed, in the working folder: sh report_market.sh TESTS FAULT
# Leaves ledger.jsonl, task.json, cheat (the run), verdict.json, ruling.json, dispute.jsonl, and people, a folder of public keys by name.
set -e
now() { dgx-settle append ledger.jsonl "$@" --key operator.pem >>settle.log 2>&1; }
sh "$1/cli/tiny_task.sh" 300000 >tiny.log
rm task.json task.program.jsonl task.eval.jsonl run -rf
for name in operator referee; do dgx-key new $name >>keys.log; done
mkdir people store
cp submitter.pub.pem people/alice.pub.pem
cp verifier.pub.pem people/vera.pub.pem
cp operator.pub.pem people/olaf.pub.pem
cp referee.pub.pem people/ruth.pub.pem
cp solver.pub.pem "people/<b onclick=alert(1)>mal&'\"lory.pub.pem"
cat >policy.json <<'POLICY'
{"sample_ppm": 300000, "solver_bond": 1000000, "verifier_bond": 200000, "verifier_fee": 20000, "window_proof_ms": 600000,
 "window_reveal_ms": 600000, "window_challenge_ms": 2000, "window_move_ms": 600000, "window_delivery_ms": 600000}
POLICY
dgx-settle init ledger.jsonl --key operator.pem --policy policy.json >>settle.log
for name in submitter solver verifier; do
  dgx-settle make deposit --ledger ledger.jsonl --set account=$name.pub.pem amount=5000000 --key operator.pem -o $name.deposit.json >>settle.log
  now $name.deposit.json
done
dgx-submit --data data.h5 --model mlp:4-8-3 --loss cross-entropy --optimizer sgd:lr=0.1,momentum=0.9 --batch 8 --steps 40 \
  --checkpoint-every 4 --seed 7 --ledger ledger.jsonl --key submitter.pem -o task.json >>work.log
now task.json
for name in verifier solver; do dgx-profile task.json --data data.h5 --quick --key $name.pem -o $name.profile.json >>work.log 2>&1; done
dgx-verify beacon task.json --profile verifier.profile.json --key verifier.pem -o commit.json >>work.log
dgx-settle make assign task.json --about commit.json --profile solver.profile.json --key solver.pem -o assign.json >>settle.log
now commit.json assign.json
# The value that becomes the first layer's weight.
op=$(/usr/bin/python3 -c 'import json
print(next(line["next"] for line in map(json.loads, open("task.program.jsonl")) if line.get("src") == "state model/0.weight"))')
dgx-train task.json --data data.h5 -o cheat --drill "step=17,op=$op,$2" -q >>work.log 2>&1
dgx-prove task.json cheat --key solver.pem -o proof.json >>work.log 2>&1
now proof.json -o receipt.json
dgx-verify beacon commit.json --reveal proof.json --task task.json --receipt receipt.json --operator operator.pub.pem --key verifier.pem -o beacon.json >>work.log
now beacon.json
dgx-prove open task.json proof.json --beacon beacon.json --run cheat --store store --key solver.pem -o opening.json >>work.log
now opening.json --store store
! dgx-verify task.json proof.json --from cheat --data data.h5 --segments 2,4,7 --key verifier.pem -o verdict.json -q >>work.log
dgx-settle make verdict-commitment task.json --about verdict.json --key verifier.pem -o hidden.json >>settle.log
dgx-bisect open task.json proof.json --verdict verdict.json --key verifier.pem -o dispute.jsonl -q >>work.log
now hidden.json verdict.json dispute.jsonl
side=solver drill=--drill
while ! dgx-bisect show dispute.jsonl --json | grep -q '"over":true'; do
  dgx-bisect move task.json dispute.jsonl --from cheat $drill --data data.h5 --key $side.pem -q >>work.log 2>&1 || [ $? -eq 1 ]
  now dispute.jsonl
  [ $side = solver ] && side=verifier drill= || { side=solver; drill=--drill; }
done
! dgx-referee dispute.jsonl --key referee.pem -o ruling.json >>work.log
now ruling.json
dgx-settle run ledger.jsonl --until-settled --wait --key operator.pem >>settle.log 2>&1
