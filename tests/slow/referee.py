#!/usr/bin/python3
"""Has every transcript of tests/vectors/dispute.json judged by several referees and compares exit codes and the bytes of the rulings:
referee.py FOLDER COMMAND…, with the key FOLDER/referee.pem."""

import base64
import json
import pathlib
import subprocess
import sys


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def envelope(line):
    if isinstance(line, str):
        return line
    payload = base64.b64encode(canonical(line["statement"]).encode()).decode()
    signatures = [{"keyid": line["keyid"], "sig": line["sig"]}]
    return canonical({"payload": payload, "payloadType": "application/vnd.in-toto+json", "signatures": signatures})


def judge(command, folder, transcript):
    output = folder / "ruling.json"
    output.unlink(missing_ok=True)
    done = subprocess.run([*command.split(), transcript, "--key", folder / "referee.pem", "-o", output], capture_output=True, check=False)
    return done.returncode, output.read_bytes() if output.exists() else b""


def main():
    folder, commands = pathlib.Path(sys.argv[1]), sys.argv[2:]
    vectors = json.loads((pathlib.Path(__file__).parents[1] / "vectors" / "dispute.json").read_text())
    lines = [envelope(line) for line in vectors["lines"]]
    rulings = differing = 0
    for case in vectors["cases"]:
        transcript = folder / "dispute.jsonl"
        transcript.write_text("".join(lines[n] + "\n" for n in case["lines"]))
        first, *others = [judge(command, folder, transcript) for command in commands]
        assert bool(first[1]) == isinstance(case["ruling"], dict), f"{case['name']}: exit code {first[0]}"
        rulings += bool(first[1])
        for command, other in zip(commands[1:], others):
            if other != first:
                print(f"{case['name']}: {command}: exit code {other[0]}, not {first[0]}, or another ruling")
                differing += 1
    print(f"{len(vectors['cases'])} transcripts, {rulings} rulings, {len(commands)} referees: {differing} differences")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
