# A dispute about a run with a fault, from training to ruling, in a folder made by tiny_task.sh with keys cheat and referee.
# usage: sh dispute.sh DRILL
set -e
rm -rf cheat cheat.proof.json cheat.states cheat.proof.states verdict.* dispute.jsonl* ruling.json
dgx-train task.json --data data.h5 -o cheat --drill "$1" -q
dgx-prove task.json cheat --key cheat.pem -o cheat.proof.json -q
! dgx-verify task.json cheat.proof.json --from cheat --data data.h5 --all --key verifier.pem -o verdict.json -q
dgx-bisect open task.json cheat.proof.json --verdict verdict.json --key verifier.pem -o dispute.jsonl -q
side=cheat drill=--drill
while ! dgx-bisect show dispute.jsonl --json | grep -q '"over":true'; do
  dgx-bisect move task.json dispute.jsonl --from cheat $drill --data data.h5 --key $side.pem -q || [ $? -eq 1 ]
  [ $side = cheat ] && side=verifier drill= || { side=cheat; drill=--drill; }
done
status=0
dgx-referee dispute.jsonl --key referee.pem -o ruling.json --json >ruling || status=$?
echo "referee $status"
dgx-bisect diff task.json run cheat --data data.h5 --json >diff || true
/usr/bin/python3 - <<'PY'
import json
ruling, diff = json.load(open("ruling")), json.load(open("diff"))
at = ruling["at"]
where = [diff["segment"], diff["step"], diff["value"]["number"], diff["element"]] == [at[k] for k in ("segment", "step", "value", "element")] \
    if "element" in at else "no element"
ours, theirs = diff["scalar"], ruling.get("scalar")
if theirs is None:
    print("no scalar")
else:
    same = where and all(ours.get(k) == theirs.get(k) for k in ("operation", "operands", "result")) and ours["theirs"] == theirs["claimed"]
    print("scalar as diff has it" if same else f"scalar is not diff's: {ours} {theirs}")
print(ruling["words"])
PY
