"""A report is one page on which a stranger finds who lied, where, by how much, when, and who paid: report.py --bin FOLDER … [--part pictures]

A market is played in which a solver with a hostile name cheats (report_market.sh). Its page is read by Python's parser (support/page.py): content, order of
headings, contrast of its colours, words for pictures, nothing that loads or runs. The commands that it gives are run. Its text says the same.
--part pictures: headless Chromium draws the page, light and dark, into --pictures FOLDER. Exits 77 without NumPy, or without Chromium.
"""

import os
import re
import struct
import subprocess
import sys
import zlib

import support
from support import needs

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import page  # noqa: E402

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FAULT = "element=21,bit=20"  # of the new weight of layer 0, in step 17
NAME = "<b onclick=alert(1)>mal&'\"lory"
FILES = ["ledger.jsonl", "task.json", "verdict.json", "ruling.json", "cheat", "--trust", "people"]
MOST_PICTURE_BYTES = 200_000


def shell(bench, command, **more):
    environment = os.environ | {"PATH": f"{bench.bin}:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    return subprocess.run(command, shell=True, cwd=bench.folder, capture_output=True, text=True, timeout=300, env=environment, **more)


def play(bench):
    done = shell(bench, f"sh {TESTS}/interop/report_market.sh {TESTS} {FAULT}")
    if done.returncode:
        for name in ("work.log", "settle.log"):
            print(open(bench.path(name)).read()[-3000:] if os.path.exists(bench.path(name)) else f"no {name}")
        sys.exit(f"FAILED: the market: exit {done.returncode}: {done.stdout}{done.stderr}")


def report(bench, name):
    made = bench.run("dgx-inspect", "report", *FILES, "-o", name)
    bench.check(made["disputes"] == 1, f"{name} tells {made['disputes']} disputes")
    with open(bench.path(name), encoding="utf-8") as file:
        return file.read()


def sections(root):
    """The text of each section by its heading."""
    return {next(section.all("h2")).text(): section for section in root.all("section")}


def rows_of(section):
    return [[cell.text() for cell in row.all("td")] for row in section.all("tr")][1:]


def check_content(bench, root):
    ruling = bench.run("dgx-inspect", "ruling.json")["predicate"]
    scalar, at = ruling["scalar"], ruling["at"]
    title = next(root.all("h1")).text()
    bench.check(title == f"{NAME}'s proof is shown to be false", f"the title is {title}")
    lead = " ".join(p.text() for p in root.all("p") if p.attributes.get("class") == "lead")
    right, claimed = (decimal(scalar[key]) for key in ("result", "claimed"))
    for words in (f"In step {at['step']}, the new weight of layer 0, number {at['element']}", f"is {right}; {NAME} signed {claimed}", "% off.",
                  f"vera disputed {NAME}'s proof, and won on 20", "alice asked on 20", f"{NAME} pays "):
        bench.check(words in lead, f"the top does not say \"{words}\": {lead}")
    found = sections(root)
    wanted = {"Who", "What was bought", "Training", "What was replayed", f"vera disputes {NAME}'s proof", "Money", "When", "Check it yourself", "Whole ids"}
    bench.check(wanted <= set(found), f"no section on {wanted - set(found)}")
    check_dispute(bench, found[f"vera disputes {NAME}'s proof"], at, scalar)
    check_segments(bench, found["What was replayed"])
    check_money(bench, found["Money"])
    people = {row[0] for row in rows_of(found["Who"])}
    bench.check({"alice", "vera", "ruth", "olaf", NAME} <= people, f"the people are {people}")
    dates = [row[0] for row in rows_of(found["When"])]
    bench.check(len(dates) > 10 and all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", date) for date in dates), f"the dates are {dates}")
    bench.check(dates == sorted(dates), "events are not in order")


def decimal(bits):
    """The shortest decimal of a binary32, as the page writes it."""
    value = struct.unpack(">f", bytes.fromhex(bits[2:]))[0]
    return next(text for digits in range(1, 10) for text in [f"{value:.{digits}g}"] if struct.pack(">f", float(text)) == bytes.fromhex(bits[2:]))


def check_dispute(bench, section, at, scalar):
    picked = [span.text() for span in section.all("span") if span.attributes.get("class") == "picked"]
    bench.check(picked[:4] == [f"segment {at['segment']}, steps {4 * at['segment']} to {4 * at['segment'] + 3}", f"step {at['step']}",
                               f"value {at['value']}: the new weight of layer 0", f"number {at['element']}"], f"the funnel goes {picked}")
    bench.check(picked[4:] == ["fma: a × b + c, rounded once"], f"the funnel ends {picked[4:]}")
    widths = [float(span.attributes["style"].removeprefix("width:").removesuffix("%")) for span in section.all("span") if span.attributes.get("class") == "bar"]
    bench.check(widths == sorted(widths, reverse=True) and widths[0] == 100, f"the funnel's bars are {widths}")
    text = section.text()
    for bits in [operand["bits"] for operand in scalar["operands"]] + [scalar["result"], scalar["claimed"]]:
        bench.check(bits in text and decimal(bits) in text, f"{bits}, {decimal(bits)} is not told")
    for words in ("minus the learning rate", "recomputed here from the moves, it is right", "The proof falls", "accepts the state before step"):
        bench.check(words in text, f"the dispute does not say \"{words}\"")


def check_segments(bench, section):
    told = dict(rows_of(section))
    wanted = {"segment 2": "replayed, agrees", "segment 4": "disputed, and fell", "segment 7": "replayed, agrees"}
    bench.check(wanted.items() <= told.items(), f"the segments are {told}")


def check_money(bench, section):
    rows = rows_of(section)
    numbers = [[int(cell.replace(",", "")) for cell in row[1:]] for row in rows]
    bench.check(all(end == got - put for put, got, end in numbers), f"money: {rows}")
    bench.check(sum(end for _, _, end in numbers) == 0, f"money comes from nowhere: {rows}")


def check_commands(bench, root):
    """Those that need no data or key work as they are written; the judge's also finds a ruling that was changed."""
    commands = [code.text() for code in root.all("code")]
    kinds = [" ".join(command.split()[:2]) for command in commands]
    wanted = ["dgx-settle check", "dgx-inspect task.json", "dgx-settle extract", f"dgx-referee {transcript(commands)}", "sh examples/audit.sh"]
    bench.check(kinds[:5] == wanted, f"the commands are {kinds}")
    for command, code in zip(commands, (0, 0, 0, 0, 1)):
        done = shell(bench, command.replace("examples/audit.sh", os.path.join(os.path.dirname(TESTS), "examples", "audit.sh")))
        bench.check(done.returncode == code, f"{command}: exit {done.returncode}: {done.stdout[-500:]}{done.stderr}")
    shown = shell(bench, f"dgx-bisect show {transcript(commands)} --program task.program.jsonl --trust people").stdout
    for words in ("vera disputes", "the new weight of layer 0", "minus the learning rate", " UTC  "):
        bench.check(words in shown, f"dgx-bisect show does not say \"{words}\": {shown}")


def transcript(commands):
    return next(command.split()[-1] for command in commands if command.startswith("dgx-settle extract"))


def check_text(bench, root, text):
    """The same sentences and cells, wherever the lines break."""
    flat = re.sub(r"\s+", " ", text)
    for element in root.all("p", "td"):
        words = re.sub(r"\s+", " ", element.text()).strip()
        if len(words) < 40 and element.tag == "td" or element.attributes.get("class", "").startswith("verdict"):
            continue
        bench.check(words in flat or words.rstrip(".") in flat, f"the text does not say \"{words}\"")


def first_pixel(path):
    """The colour in the corner of a PNG: whatever filter its first row has, its first pixel is as it is."""
    packed = b""
    with open(path, "rb") as file:
        file.seek(8)
        while head := file.read(8):
            length, kind = struct.unpack(">I4s", head)
            packed += file.read(length) if kind == b"IDAT" else file.read(length)[:0]
            file.seek(4, os.SEEK_CUR)
    return zlib.decompressobj().decompress(packed, 4)[1:4]


def draw(bench, chromium, folder):
    os.makedirs(folder, exist_ok=True)
    for scheme, number, ground in (("light", 1, b"\xff\xff\xff"), ("dark", 0, b"\x0d\x11\x17")):
        path = os.path.join(os.path.abspath(folder), f"report-{scheme}.png")
        done = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=900,1100",
                               f"--blink-settings=preferredColorScheme={number}", f"--user-data-dir={bench.path('profile')}", f"--screenshot={path}",
                               f"file://{bench.path('report.html')}"], capture_output=True, text=True, timeout=120)
        bench.check(done.returncode == 0 and os.path.exists(path), f"chromium: exit {done.returncode}: {done.stderr[-800:]}")
        bench.check(os.path.getsize(path) <= MOST_PICTURE_BYTES, f"{path} has {os.path.getsize(path)} bytes")
        bench.check(first_pixel(path) == ground, f"the {scheme} page has the ground {first_pixel(path).hex()}")
        print(path)


def main():
    parser = support.parser()
    parser.add_argument("--part", choices=("page", "pictures"), default="page")
    parser.add_argument("--pictures")
    options = support.parsed(parser)
    needs.modules("numpy")
    chromium = needs.program("chromium") if options.part == "pictures" else None
    with support.Bench(options.bin) as bench:
        play(bench)
        text = report(bench, "report.html")
        if chromium:
            return draw(bench, chromium, options.pictures or bench.folder)
        root, problems = page.problems_of(text)
        for problem in problems:
            bench.check(False, problem)
        bench.check("<b onclick" not in text, "a name became markup")
        check_content(bench, root)
        check_commands(bench, root)
        check_text(bench, root, report(bench, "report.txt"))
        print(f"report.html: {len(text)} characters")


if __name__ == "__main__":
    main()
