#!/bin/sh
# A market: Alice buys three networks, Bob and Carl train them, Vera and Vito verify. Carl cheats once: he is challenged, led to one
# scalar operation, convicted and slashed. All others are paid. Run again in the same folder, it does what is missing.
#   sh examples/market.sh [FOLDER]     with dgx's programs in PATH, or in build/release/bin
set -eu
PATH=$PATH:$(cd "$(dirname "$0")/.." && pwd)/build/release/bin
work=${1:-$(mktemp -d)}; mkdir -p "$work/store"; cd "$work"; echo "the market is in $work"; exec 3>&1 >>log
post='dgx-settle append ledger.jsonl --store store --key operator.pem'              # hands a statement to the operator
sign() { file=$1; shift; [ -e "$file" ] || "$@" -o "$file"; $post "$file"; }        # makes one, unless it is there, and hands it on

for name in operator alice bob carl vera vito; do dgx-key new $name --skip-existing; done
echo '{"sample_ppm": 1000000, "solver_bond": 1000000, "window_challenge_ms": 5000}' > policy.json
dgx-settle init ledger.jsonl --policy policy.json --key operator.pem --skip-existing
dgx-settle deposit ledger.jsonl --to alice.pub.pem bob.pub.pem carl.pub.pem vera.pub.pem vito.pub.pem 90000000 --reference 1 --key operator.pem
awk 'BEGIN { for (i = 0; i < 120; i++) print i % 7 / 7 "," i % 11 / 11 "," i % 13 / 13 "," i % 17 / 17 "," i % 3 }' > data.csv
dgx-pack csv data.csv --label 5 -o data.h5 --skip-existing

buy() { # TASK SEED SOLVER VERIFIER VERDICT [DRILL]
  sign $1.json dgx-submit --data data.h5 --model mlp:4-8-3 --loss cross-entropy --optimizer sgd:lr=0.1 --batch 8 --steps 40 \
    --checkpoint-every 8 --price 100000000 --seed $2 --ledger ledger.jsonl --key alice.pem --skip-existing
  sign $1.offer.json dgx-verify beacon $1.json --segment-milliseconds 100 --key $4.pem
  sign $1.assign.json dgx-settle make assign $1.json --about $1.offer.json --set segment_milliseconds=100 --key $3.pem
  dgx-train $1.json --data data.h5 -o $1.run ${6:+--drill $6}
  sign $1.proof.json dgx-prove $1.json $1.run --key $3.pem
  respond="dgx-verify respond ledger.jsonl $1.json --commit $1.offer.json --data data.h5 --key $4.pem -o $1.verdict.json"
  $respond --post "$post" --expect waiting,$5     # the verifier reveals what will be replayed
  sign $1.opening.json dgx-prove open $1.json $1.proof.json --beacon $1.offer.beacon.json --run $1.run --store store --key $3.pem
  $respond --post "$post" --expect $5             # and replays it
  [ -e $1.safetensors ] || dgx-inspect export $1.run -o $1.safetensors
  sign $1.delivery.json dgx-settle make delivery $1.json --about $1.proof.json --model $1.safetensors --key alice.pem
}
buy first 1 bob vera accepted
buy second 2 carl vito accepted
buy third 3 carl vera refuted step=17,op=24,element=5,bit=12
sign dispute.jsonl dgx-bisect open third.json third.proof.json --verdict third.verdict.json --key vera.pem
dgx-bisect play third.json dispute.jsonl --from third.run --data data.h5 --key carl.pem --drill &
dgx-bisect play third.json dispute.jsonl --from third.run --data data.h5 --key vera.pem
wait $!; $post dispute.jsonl; dgx-bisect show dispute.jsonl --expect falls
dgx-settle run ledger.jsonl --until-settled --key operator.pem
dgx-settle balances ledger.jsonl --trust . >&3
