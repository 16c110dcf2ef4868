#!/usr/bin/python3
"""What the man pages promise: every program has one, it names every option, and what code and pages cite is there.

usage: pages.py --bin FOLDER       of the built programs
"""

import argparse
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CITING = {".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".txt", ".cmake", ".scd", ".md", ".mjs"}
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][a-z0-9-]*")
CITATION = re.compile(r'\b(dgx(?:-[a-z]+)?)\((\d)\)(?:,\s+"([^"\n]+)")?')


def pages():
    return {path.name.removesuffix(".scd"): path.read_text() for path in sorted((SOURCE / "man").glob("*.scd"))}


def unescaped(text):
    return re.sub(r"\\(.)", r"\1", text)


def headings(page):
    """What may be cited of a page: its headings, and the terms that begin a line."""
    titles = re.findall(r"^#+ (.+)$", page, re.M)
    terms = re.findall(r"^(?:\|\[?\s+)?[*_]([^*_\n]+?)\.?[*_]", page, re.M)
    return {unescaped(title).lower() for title in titles + terms}


def help_of(program, *words):
    run = subprocess.run([program, *words, "--help"], capture_output=True, text=True)
    return run.stdout


def options_of(program):
    """Its options, each as the set of its names, and its commands."""
    text = help_of(program)
    commands = set(re.findall(rf"^  {program.name} ([a-z][a-z-]*)\b", text, re.M))
    text += "".join(help_of(program, command) for command in sorted(commands))
    rows = {frozenset(OPTION.findall(row)) for row in re.findall(r"^  (-[^\s,]+(?:, -[^\s,]+)*)", text, re.M)}
    named = frozenset().union(*rows)
    alone = {option for line in re.findall(r"^ .*\[.*$|^  dgx-.*$", text, re.M) for option in OPTION.findall(line)}
    return rows | {frozenset([option]) for option in alone - named if option.startswith("--")}, commands


def check_program(program, page):
    wanted, commands = options_of(program)
    if not wanted:
        return [f"{program.name} --help names no option"]
    has = frozenset().union(*wanted)
    written = set(OPTION.findall(unescaped(page)))
    described = set(OPTION.findall(unescaped("\n".join(re.findall(r"^\*-.*$", page, re.M)))))
    name = f"{program.name}(1)"
    problems = [f"{name} does not name {' or '.join(sorted(option))}" for option in wanted if not option & written]
    problems += [f"{name} describes {option}, which it does not have" for option in described - has]
    problems += [f"{name} does not name the command {c}" for c in commands if not re.search(rf"\b{c}\b", page)]
    return sorted(problems)


def check_programs(folder, texts):
    problems = []
    for source in sorted((SOURCE / "tools").glob("dgx-*.cc")):
        page, program = texts.get(f"{source.stem}.1"), folder / source.stem
        if page is None:
            problems.append(f"{source.stem} has no man/{source.stem}.1.scd")
        elif not program.exists():
            problems.append(f"{source.stem} is not built")
        else:
            problems += check_program(program, page)
    return problems


def cited_files():
    folders = ["lib", "tools", "tests", "cmake", "man", "examples"]
    files = [p for f in folders for p in (SOURCE / f).rglob("*") if p.suffix in CITING and p.is_file()]
    return files + sorted(SOURCE.glob("*.md")) + [SOURCE / "CMakeLists.txt"]


def check_citations(texts):
    places = {name: headings(page) for name, page in texts.items()}
    problems = []
    for path in cited_files():
        # A citation may go on in the next comment line.
        text = re.sub(r"\n\s*(?://[/!]?|#)?<?\s*", " ", path.read_text(errors="replace")).replace("*", "")
        for page, section, title in CITATION.findall(text):
            name = f"{page}.{section}"
            if name not in texts:
                problems.append(f"{path.relative_to(SOURCE)} cites {page}({section}), which is not there")
            elif title and unescaped(title).lower() not in places[name]:
                problems.append(f'{path.relative_to(SOURCE)} cites {page}({section}), "{title}", which is not there')
    return sorted(set(problems))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    texts = pages()
    problems = check_programs(parser.parse_args().bin.resolve(), texts) + check_citations(texts)
    print("\n".join(problems) or f"{len(texts)} pages hold")
    return 1 if problems or not texts else 0


if __name__ == "__main__":
    sys.exit(main())
