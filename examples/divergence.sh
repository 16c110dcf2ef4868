#!/bin/sh
# A training that diverges, in a market: the learning rate is too high, the run ends where its numbers do, and everybody is paid for what was
# done. Then a solver who claims that of a training that does not diverge is led to one scalar operation and convicted. Takes seconds; leaves
# everything in build/divergence.
#
#   sh examples/divergence.sh              with the programs of build/release
#   DGX_BIN=DIR sh examples/divergence.sh  with others
set -eu
cd "$(dirname "$0")/.."
PATH=${DGX_BIN:-$PWD/build/release/bin}:$PATH
rm -rf build/divergence
mkdir -p build/divergence/store
cd build/divergence

say() { printf '\n%s\n' "== $*"; }
# diverges COMMAND...: runs a training that must diverge, exit 1.
diverges() {
  "$@" && found=0 || found=$?
  [ "$found" -eq 1 ] || { echo "divergence: exit $found, not 1: $*" >&2; exit 1; }
}
log() { dgx-settle append ledger.jsonl "$@" --store store --wait --key operator.pem -q; }

say "the market, and a text to learn"
for name in operator submitter solver verifier; do dgx-key new "$name" -q; done
cat >policy.json <<'POLICY'
{"sample_ppm": 300000, "solver_bond": 1000000, "verifier_fee": 20000, "window_challenge_ms": 15000, "window_move_ms": 60000}
POLICY
dgx-settle init ledger.jsonl --key operator.pem --policy policy.json -q
dgx-settle deposit ledger.jsonl --to submitter.pub.pem solver.pub.pem verifier.pub.pem 20000000 --key operator.pem -q
i=0
while [ $i -lt 200 ]; do echo "line $i of a text that says little, $((i * i)) times"; i=$((i + 1)); done >text.txt
dgx-pack text text.txt --context 16 -o data.h5 -q

# post NAME RATE: the submitter signs a task with this learning rate; verifier and solver take it.
post() {
  dgx-submit --data data.h5 --model gpt:layers=1,width=16,heads=2,context=16 --loss cross-entropy --optimizer "sgd:lr=$2" --batch 8 \
    --steps 60 --checkpoint-every 10 --price 1000000 --ledger ledger.jsonl --key submitter.pem -o "$1.json" -q
  dgx-verify beacon "$1.json" --segment-milliseconds 100 --key verifier.pem -o "$1.commit.json" -q
  dgx-settle make assign "$1.json" --about "$1.commit.json" --set segment_milliseconds=100 --key solver.pem -o "$1.assign.json" -q
  log "$1.json" "$1.commit.json" "$1.assign.json"
}

# prove NAME: proof, beacon, opening, and the operator's copy of what was opened.
prove() {
  dgx-prove "$1.json" "$1.run" --key solver.pem -o "$1.proof.json" -q
  log "$1.proof.json"
  dgx-verify beacon "$1.commit.json" --reveal "$1.proof.json" --task "$1.json" --ledger ledger.jsonl --key verifier.pem -o "$1.beacon.json" -q
  log "$1.beacon.json"
  dgx-prove open "$1.json" "$1.proof.json" --beacon "$1.beacon.json" --run "$1.run" --store store --key solver.pem -o "$1.opening.json" -q
  log "$1.opening.json"
  dgx-settle fetch ledger.jsonl "$1.json" -o "$1.opened" -q
}

say "a learning rate of 100000: the run diverges, exit 1, and is proved as it is"
post wild 100000
diverges dgx-train wild.json --data data.h5 -o wild.run
prove wild

say "the verifier replays the drawn segments, and the step that diverges"
dgx-verify wild.json wild.proof.json --from wild.opened --data data.h5 --beacon wild.beacon.json --key verifier.pem -o wild.verdict.json
dgx-prove deliver wild.json wild.proof.json --run wild.run --store store --key solver.pem -o wild.delivery.json -q
log wild.verdict.json wild.delivery.json

say "a good learning rate, and a solver who stops and claims that the run diverges"
post tame 0.1
# One exponential of the attention's softmax gets a wrong exponent, so that later numbers overflow.
op=$(/usr/bin/python3 -c 'import json
lines = [json.loads(line) for line in open("tame.program.jsonl")]
print(next(line["v"] for line in lines if any("exp" in step for step in line.get("do", []))))')
diverges dgx-train tame.json --data data.h5 -o tame.run --drill "step=33,op=$op,element=0,bit=30"
prove tame
dgx-verify tame.json tame.proof.json --from tame.opened --data data.h5 --beacon tame.beacon.json --key verifier.pem -o tame.verdict.json \
  --expect refuted
log tame.verdict.json
dgx-bisect open tame.json tame.proof.json --verdict tame.verdict.json --from tame.opened --key verifier.pem -o dispute.jsonl
log dispute.jsonl  # the window to challenge is short; a move has a minute
play="dgx-bisect play tame.json dispute.jsonl --data data.h5 --timeout 10m -q"
$play --from tame.run --drill --key solver.pem >solver.play &
$play --from tame.opened --key verifier.pem >verifier.play
wait $!
dgx-bisect show dispute.jsonl --expect falls
log dispute.jsonl
dgx-referee dispute.jsonl --key verifier.pem -o ruling.json --expect falls

say "settled: the first solver is paid for the steps made, the second lost the bond"
dgx-settle run ledger.jsonl --until-settled --wait --key operator.pem -q
dgx-settle status ledger.jsonl --trust .
dgx-settle check ledger.jsonl -q
