#!/bin/sh
# The whole life of a task on Fashion-MNIST: an honest solver trains, proves and is paid; then a cheat flips one bit, is led to one
# scalar operation by signed moves, convicted by a referee who holds neither model nor data, and slashed. Installs what it needs, builds, and leaves everything in build/quickstart.
#
#   sh examples/quickstart.sh            set up, build, run
#   DGX_BIN=DIR sh examples/quickstart.sh    run with programs that are built already
#   DGX_WORK=DIR sh examples/quickstart.sh   leave everything in a new folder of that name instead
set -eu
cd "$(dirname "$0")/.."
root=$PWD

say() { printf '\n%s\n' "== $*"; }
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f s", b - a }'; }
# The value of a key in a program's --json output.
value() { /usr/bin/python3 -c 'import json,sys
value = json.loads(sys.stdin.read().splitlines()[-1])
for key in sys.argv[1].split("."):
    value = value[int(key)] if isinstance(value, list) else value[key]
print(value)' "$1"; }

if [ -z "${DGX_BIN:-}" ]; then
  say "setting up and building (build/release)"
  sh cmake/bootstrap.sh
  cmake --preset release -DDGX_TORCH="${DGX_TORCH:-pypi}" >build/release.log 2>&1 || { cat build/release.log >&2; exit 1; }
  cmake --build build/release -j "${JOBS:-2}" --target programs
  DGX_BIN=$root/build/release/bin
fi
PATH=$DGX_BIN:$PATH
images=$(dirname "$(dpkg -L dataset-fashion-mnist | grep train-images)")
work=${DGX_WORK:-build/quickstart}
[ -n "${DGX_WORK:-}" ] || rm -rf "$work"
[ ! -e "$work" ] || { echo "quickstart: $work already exists" >&2; exit 1; }
mkdir -p "$work"
cd "$work"

say "the market: four identities and the rules"
for name in operator submitter solver verifier cheat referee; do dgx-key new "$name" --json | value key_id >"$name.id"; done
cat >policy.json <<'POLICY'
{
  "sample_ppm": 50000,
  "solver_bond": 1000000,
  "verifier_bond": 200000,
  "verifier_fee": 20000,
  "window_proof_ms": 600000,
  "window_reveal_ms": 600000,
  "window_challenge_ms": 5000,
  "window_move_ms": 600000,
  "window_delivery_ms": 600000
}
POLICY
mkdir store
dgx-settle init ledger.jsonl --key operator.pem --policy policy.json
dgx-settle deposit ledger.jsonl --to submitter.pub.pem 20000000 solver.pub.pem verifier.pub.pem cheat.pub.pem 5000000 --key operator.pem --wait -q

say "the data: Fashion-MNIST as dataset bundles"
dgx-pack idx --images "$images/train-images-idx3-ubyte.gz" --labels "$images/train-labels-idx1-ubyte.gz" \
  --scale 0.00392156862745098 -o train.h5
dgx-pack idx --images "$images/t10k-images-idx3-ubyte.gz" --labels "$images/t10k-labels-idx1-ubyte.gz" \
  --scale 0.00392156862745098 -o test.h5

# submit NAME SEED: the submitter signs a task and posts it.
submit() {
  dgx-submit --data train.h5 --model mlp:784-256-128-10 --loss cross-entropy --optimizer sgd:lr=0.1,momentum=0.9 \
    --schedule cosine:warmup=100,min=0 --batch 128 --epochs 10 --seed "$2" --checkpoint-every 200 --ledger ledger.jsonl \
    --key submitter.pem -o "$1.json"
  dgx-settle append ledger.jsonl "$1.json" --wait --key operator.pem -q
}

# take NAME SOLVER: the verifier makes an offer (their beacon is committed), the solver takes the task; both bonds lock. Each first
# measures how long a segment takes them, since it must be replayed within a move of a dispute.
take() {
  for who in verifier "$2"; do
    dgx-profile "$1.json" --data train.h5 --quick --key "$who.pem" -o "$1.$who.profile.json" -q
  done
  dgx-verify beacon "$1.json" --profile "$1.verifier.profile.json" --key verifier.pem -o "$1.commit.json" -q
  dgx-settle make assign "$1.json" --about "$1.commit.json" --profile "$1.$2.profile.json" --key "$2.pem" -o "$1.assign.json" -q
  dgx-settle append ledger.jsonl "$1.commit.json" "$1.assign.json" --wait --key operator.pem -q
  keep_time
}

# The operator's clock: while a deadline runs the ledger may not fall silent, however long training and replays take. It ends when nothing waits.
keep_time() {
  dgx-settle run ledger.jsonl --until-settled --wait --key operator.pem -q &
  clocks="${clocks:-} $!"
}
stop_time() { kill ${clocks:-} 2>/dev/null || true; clocks=; }
trap stop_time EXIT

# prove NAME SOLVER: the proof is logged, then the verifier reveals their beacon, and the solver opens the drawn segments to everyone.
prove() {
  dgx-prove "$1.json" "$1.run" --key "$2.pem" -o "$1.proof.json"
  dgx-settle append ledger.jsonl "$1.proof.json" --wait --key operator.pem -o "$1.receipt.json" -q
  dgx-verify beacon "$1.commit.json" --reveal "$1.proof.json" --task "$1.json" --receipt "$1.receipt.json" --operator operator.pub.pem \
    --key verifier.pem -o "$1.beacon.json"
  dgx-settle append ledger.jsonl "$1.beacon.json" --wait --key operator.pem -q
  dgx-prove open "$1.json" "$1.proof.json" --beacon "$1.beacon.json" --run "$1.run" --store store --key "$2.pem" -o "$1.opening.json"
  dgx-settle append ledger.jsonl "$1.opening.json" --store store --wait --key operator.pem -q
  dgx-settle fetch ledger.jsonl "$1.json" -o "$1.opened"
}

# judge NAME: the verdict is committed, then revealed.
judge() {
  dgx-settle make verdict-commitment "$1.json" --about "$1.verdict.json" --key verifier.pem -o "$1.hidden.json" -q
  dgx-settle append ledger.jsonl "$1.hidden.json" "$1.verdict.json" --wait --key operator.pem -q
}

say "an honest solver: task, training, proof, verdict"
submit honest 1
take honest solver
start=$(now); dgx-train honest.json --data train.h5 -o honest.run --json >honest.train; train_time=$(since "$start")
dgx-train honest.json --data test.h5 --evaluate honest.run --json >honest.evaluation
start=$(now); prove honest solver; prove_time=$(since "$start")
start=$(now)
dgx-verify honest.json honest.proof.json --from honest.opened --data train.h5 --beacon honest.beacon.json --key verifier.pem \
  -o honest.verdict.json --json >honest.verify
verify_time=$(since "$start")
judge honest
dgx-inspect export honest.run -o honest.safetensors -q
dgx-settle make delivery honest.json --about honest.proof.json --model honest.safetensors --key submitter.pem \
  -o honest.delivery.json -q
dgx-settle append ledger.jsonl honest.delivery.json --wait --key operator.pem -q

say "a cheat: the same work with one wrong bit"
submit crooked 2
take crooked cheat
drill=step=1234,op=55,element=100000,bit=20
dgx-train crooked.json --data train.h5 -o crooked.run --drill "$drill" --json >crooked.train
prove crooked cheat
start=$(now)
dgx-verify crooked.json crooked.proof.json --from crooked.run --data train.h5 --all --key verifier.pem -o crooked.verdict.json \
  --expect refuted --json >crooked.verify
caught_time=$(since "$start")

say "a dispute: the verifier challenges the proof, both sides move, a referee rules"
dgx-bisect open crooked.json crooked.proof.json --verdict crooked.verdict.json --key verifier.pem -o dispute.jsonl
judge crooked
stop_time  # moves keep the ledger from falling silent, and a game that is over settles at once: the ruling is to be logged before
log="dgx-settle append ledger.jsonl --wait --key operator.pem -q"
# Each side answers the other's moves, which are logged as they come, so that nobody can say one came late. The cheat defends their fault.
play() { dgx-bisect play crooked.json dispute.jsonl --from crooked.run --data train.h5 --post "$log" --timeout 10m --key "$1.pem" ${2:+"$2"} -q --json >"$1.play"; }
start=$(now)
play cheat --drill &
play verifier
wait $!
dispute_time=$(since "$start")
dgx-bisect show dispute.jsonl --expect falls
dgx-referee dispute.jsonl --key referee.pem -o ruling.json --expect falls --json >ruled.json
dgx-settle append ledger.jsonl ruling.json --wait --key operator.pem -q

say "with both runs at hand the result is the same: an honest run compared with the cheat's"
dgx-train crooked.json --data train.h5 -o checked.run -q
dgx-bisect diff crooked.json checked.run crooked.run --data train.h5 --expect different --json >pinpoint.json

say "settlement: windows pass, the operator pays and slashes"
dgx-settle run ledger.jsonl --until-settled --wait --key operator.pem
dgx-settle check ledger.jsonl
dgx-settle balances ledger.jsonl --json >balances.json

say "the story of the cheat on one page, for somebody who has never heard of dgx"
dgx-inspect report ledger.jsonl crooked.json crooked.verdict.json ruling.json crooked.run --trust . -o report.html

balance() { value "accounts.$(cat "$1.id")" <balances.json; }
cat <<TABLE

  Fashion-MNIST, MLP 784-256-128-10, batch 128, 10 epochs
  ----------------------------------------------------------------------------
  test accuracy            $(value accuracy <honest.evaluation)
  final state              $(value state <honest.train)
  training                 $train_time
  proving                  $prove_time
  verifying                $verify_time, $(value segments <honest.verify | tr '}' '\n' | grep -c index) of $(value segments <honest.train) segments replayed: $(value verdict <honest.verify)
  the cheat                one bit, $drill
  caught                   $caught_time, all segments replayed: $(value verdict <crooked.verify)
  disputed                 $dispute_time, $(value turns <verifier.play) moves, $(wc -c <dispute.jsonl) bytes
  convicted by the referee segment $(value at.segment <ruled.json), step $(value at.step <ruled.json): one scalar operation,
                           $(value words <ruled.json)
  balances                 before       after
    submitter             20000000    $(balance submitter)
    honest solver          5000000    $(balance solver)   paid
    verifier               5000000    $(balance verifier)   paid
    cheat                  5000000    $(balance cheat)   slashed
  ----------------------------------------------------------------------------
  Everything is in $work. Read $work/report.html, or try: ${DGX_BIN#"$root/"}/dgx-inspect $work/honest.proof.json
TABLE
