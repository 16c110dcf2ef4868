#!/bin/sh
# A market that pays somebody to look. Rounds, which nobody can foresee, draw who verifies a proof and who audits the verdict, and secrets say which
# witness of a verdict has to be false, so that an auditor who does not look is found. Alice buys three networks from Bob, all of them honest work:
#   found   Vera verifies, and misstates the witness that the rule names. Ada, who audits her, finds it, and the jackpot is hers.
#   unseen  Lara signs a verdict without having looked. Ada denies it and challenges it; Lara has nothing to answer, and loses her bond.
#   sold    Sam sells his secret before it is due. Mal, who buys it, reveals it: a quarter of Sam's bond is Mal's, and Sam has nothing left of it.
# A fourth, idle, is Ivan's, who does no work: what he loses is the jackpot. Then the operator is watched: a withdrawal of Alice's is refused, and Wendy
# and Will are shown two histories. What they signed convicts the operator.
#   sh examples/economy.sh [FOLDER [SECONDS]]     with dgx's programs in PATH, or in build/release/bin; leaves nothing but FOLDER, which is new
# Takes a minute; where programs are slow, give the windows more than 20 SECONDS.
set -eu
PATH=$PATH:$(cd "$(dirname "$0")/.." && pwd)/build/release/bin
clock= work=${1:-} window=${2:-20}000; if [ -n "$work" ]; then mkdir "$work"; else work=$(mktemp -d); gone=$work; fi
trap 'kill $clock 2>/dev/null || true; rm -rf "${gone:-}"' EXIT; trap 'exit 1' HUP INT TERM
cd "$work"; mkdir store bought; exec 3>&1 >log
say() { echo "$*" >&3; }
post='dgx-settle append ledger.jsonl --store store --wait --key operator.pem'     # hands statements to the operator
round='dgx-settle round ledger.jsonl --until-logged --wait --key operator.pem'    # the operator waits for the slot's end, and makes its round
respond() { task=$1 who=$2 out=$3; shift 3                                        # does what a task asks of a verifier or auditor
  dgx-verify respond ledger.jsonl $task.json --commit $task.$who.json --data data.h5 --key $who.pem --post "$post" -o $task.$out.json "$@"; }

say "== The market: every verdict is audited, and one of its three witnesses has to be false."
for name in operator alice bob ivan vera lara sam ada mal wendy will; do dgx-key new $name; done
cat > policy.json <<POLICY
{"beacon_source": 1, "beacon_slot_ms": 1000, "beacon_steps": 65536, "audit_ppm": 1000000, "forced_error_ppm": 1000000, "jackpot": 3001,
 "jackpot_tax_ppm": 500000, "margin_ppm": 1000000, "sample_ppm": 300000, "solver_bond": 1000000, "verifier_bond": 200000, "verifier_bond_ppm": 0, "verifier_fee": 20000,
 "challenger_bond": 100000, "window_move_ms": 4000, "window_proof_ms": $window, "window_reveal_ms": $window, "window_challenge_ms": $window}
POLICY
dgx-settle init ledger.jsonl --policy policy.json --key operator.pem
dgx-settle deposit ledger.jsonl --to alice.pub.pem bob.pub.pem ivan.pub.pem ada.pub.pem mal.pub.pem 90000000 \
  vera.pub.pem lara.pub.pem sam.pub.pem 2000000000000 --key operator.pem
dgx-settle make withdrawal --ledger ledger.jsonl --set amount=1000000 --key alice.pem -o withdrawal.json
dgx-settle cosign --saw withdrawal.json --ledger ledger.jsonl --key wendy.pem -o withdrawal.saw        # the operator does not want to see it
awk 'BEGIN { for (i = 0; i < 120; i++) print i % 7 / 7 "," i % 11 / 11 "," i % 13 / 13 "," i % 17 / 17 "," i % 3 }' > data.csv
dgx-pack csv data.csv --label 5 -o data.h5

say "== Alice buys networks. Ada offers to look at each; Vera, Lara and Sam stake so much that one in a million draws is not theirs."
buy() { # TASK VERIFIER SEED
  dgx-submit --data data.h5 --model mlp:4-8-3 --loss cross-entropy --optimizer sgd:lr=0.1,momentum=0.9 --batch 8 --steps 40 --checkpoint-every 4 \
    --price 1000000000 --seed $3 --ledger ledger.jsonl --key alice.pem -o $1.json
  dgx-verify beacon $1.json --segment-milliseconds 100 --bond 900000000000 --key $2.pem -o $1.$2.json
  dgx-verify beacon $1.json --segment-milliseconds 100 --bond 200000 --key ada.pem -o $1.ada.json
}
buy found vera 1; buy unseen lara 2; buy sold sam 3; buy idle vera 4
$post found.json unseen.json sold.json idle.json ./*.vera.json ./*.lara.json ./*.sam.json ./*.ada.json
dgx-settle run ledger.jsonl --until-settled --wait --key operator.pem & clock=$!                       # the operator's clock
sleep 4                                                                  # so long everybody may offer, not only friends of the solver
assign() { dgx-settle make assign $1.json --set segment_milliseconds=100 --key $2.pem -o $1.assign.json; $post $1.assign.json; }
assign idle ivan
for task in found unseen sold; do
  assign $task bob
  dgx-train $task.json --data data.h5 -o $task.run
  dgx-prove $task.json $task.run --key bob.pem -o $task.proof.json
  $post $task.proof.json
done
$round
for task in found unseen sold; do
  dgx-settle extract ledger.jsonl --round $task.json -o $task.round.json
  dgx-prove open $task.json $task.proof.json --round $task.round.json --run $task.run --store store --key bob.pem -o $task.opening.json
  $post $task.opening.json
done

say "== Verdicts. Lara writes one by hand: the form of a verdict, and witnesses that are not witnesses of anything."
dgx-settle fetch ledger.jsonl unseen.json -o unseen.opened
dgx-verify unseen.json unseen.proof.json --from unseen.opened --data data.h5 --round unseen.round.json --commit unseen.lara.json \
  --key lara.pem -o form.json
dgx-key open form.json --pub lara.pub.pem | sed "s|\"witnesses\":\"[^\"]*\"|\"witnesses\":\"$(printf '%.128d' 0)\"|" |
  dgx-key sign - --statement --key lara.pem -o unseen.verdict.json
respond found vera verdict --expect waiting
respond sold sam verdict --expect waiting
$post unseen.verdict.json
say "== Sam sells his secret, and Mal reveals it at once."
cp sold.sam.json sold.sam.secret bought
dgx-verify beacon bought/sold.sam.json --reveal sold.proof.json --task sold.json --ledger ledger.jsonl --key mal.pem -o robbed.json
$post robbed.json
say "== Ada is drawn to audit all three: she replays them, and commits to what she finds."
$round
for task in found unseen sold; do respond $task ada audit --expect waiting; done

say "== When no more commitments are taken, secrets and audits are shown."
respond found vera verdict --timeout 2m --expect accepted
respond unseen lara verdict --timeout 2m --expect accepted
respond found ada audit --timeout 2m --expect denied
respond sold ada audit --timeout 2m --expect denied
respond unseen ada audit --expect waiting                     # the denial of what was not forced has to be won in a game
dgx-settle extract ledger.jsonl --secret unseen.json -o unseen.secret.json
dgx-bisect open unseen.json unseen.proof.json --against unseen.verdict.json --round unseen.round.json --secret unseen.secret.json \
  --offer unseen.lara.json --from unseen.opened --data data.h5 --key ada.pem -o dispute.jsonl
$post dispute.jsonl
for task in found unseen sold; do
  dgx-inspect export $task.run -o $task.safetensors
  dgx-settle make delivery $task.json --about $task.proof.json --model $task.safetensors --key alice.pem -o $task.delivery.json
  $post $task.delivery.json
done
say "== Windows pass; the operator pays, and everybody can check it, rounds included."
wait $clock; clock=
dgx-settle check ledger.jsonl --rounds --expect sound
dgx-settle status ledger.jsonl --trust . >&3
dgx-settle balances ledger.jsonl --trust . >&3

say "== The operator is watched. Wendy cosigns the ledger's head, which still lacks what she saw Alice ask for."
note() { # LEDGER WITNESS OLD [OPTION...]: the witness is shown how the ledger goes on from the entries that they saw last
  ledger=$1 who=$2 old=$3; shift 3
  dgx-settle head $ledger.jsonl --note --old $old --key operator.pem > $ledger.$who.request
  dgx-settle cosign $ledger.$who.request --operator operator.pub.pem --seen $who.note --key $who.pem -o $who.line --force "$@"
}
cp ledger.jsonl other.jsonl; cp ledger.receipts.jsonl other.receipts.jsonl
dgx-settle deposit ledger.jsonl --to bob.pub.pem 1 --key operator.pem
note ledger wendy 0 --first
dgx-settle check ledger.jsonl --cosigned wendy.note --witness wendy.pub.pem --saw withdrawal.json withdrawal.saw --expect unsound >&3
say "== Will is shown another history of as many entries. He cannot know; Wendy can, and whoever has both notes."
dgx-settle deposit other.jsonl --to mal.pub.pem 1000000 --key operator.pem
note other will 0 --first
note other wendy 0 --expect refused
dgx-settle check ledger.jsonl --cosigned wendy.note will.note --witness wendy.pub.pem will.pub.pem --quorum 1 --expect unsound >&3
