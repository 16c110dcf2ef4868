#!/usr/bin/python3
"""Hides one optional thing from the tests, and compares which of them are then skipped with tests/without.txt.

usage: without.py list
       without.py run NAME --build FOLDER [-- CTEST-ARGUMENT …]     runs the tests (default: all), then compares
       without.py check [NAME …] --build FOLDER [--all]             runs those of the table that are skipped whole; --all: all tests

A Python module is hidden by one of its name that raises ImportError, a program by a PATH without it, the dataset by another place, a GPU from CUDA, NVRTC
by a library that is not there. What a build is configured with is taken from a second folder, BUILD/without/NAME, in which nothing is built: there the
tests must be stand-ins that skip. Where the thing is a module that programs open, all else must be compiled and linked as in BUILD: so what BUILD's tests say of
programs that do not find it is said of a build without it. A test that passes without the thing that it needs fails the comparison, as does one that is skipped and not listed.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import cases

TESTS = pathlib.Path(__file__).resolve().parent
TABLE = TESTS / "without.txt"
MODULES = {"numpy": "numpy", "h5py": "h5py", "cryptography": "cryptography", "safetensors": "safetensors", "torch-python": "torch"}
PROGRAMS = ("bash", "zsh", "fish", "chromium", "ssh-keygen", "cuobjdump", "compute-sanitizer", "clang-format-14", "strace")
PLACES = {"fashion-mnist": {"DGX_FASHION_MNIST": "/nonexistent"}, "gpu": {"CUDA_VISIBLE_DEVICES": ""}, "nvrtc": {"DGX_NVRTC": "/nonexistent/libnvrtc.so"}}
CONFIGURED = {"nvcc": ["-DDGX_CUDA=off"], "libtorch": ["-DDGX_TORCH=off"], "libcurl": ["-DDGX_HTTP=off"], "mpi": ["-DDGX_MPI=off"]}
MODULES_OF_PROGRAMS = ("libcurl", "mpi")  # those of CONFIGURED without which every other file is as with them


def table():
    """{thing: {test: whether it is skipped whole}}"""
    found, tests = {}, {}
    for line in TABLE.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith(" "):
            name, _, part = line.strip().partition(" ")
            tests[name] = part != "+"
        else:
            tests = found[line] = {}
    return found


def path_without(program, folder):
    """PATH, of folders of links in place of those that have the program."""
    places = []
    for number, place in enumerate(os.environ["PATH"].split(os.pathsep)):
        if not os.path.exists(os.path.join(place, program)):
            places.append(place)
            continue
        places.append(os.path.join(folder, str(number)))
        os.mkdir(places[-1])
        for name in set(os.listdir(place)) - {program}:
            os.symlink(os.path.join(place, name), os.path.join(places[-1], name))
    return os.pathsep.join(places)


def hidden(thing, folder):
    """The environment in which the thing is not there."""
    environment = dict(os.environ, DGX_TESTS_WITHOUT=thing)
    if thing in MODULES:
        module = MODULES[thing]
        pathlib.Path(folder, f"{module}.py").write_text(f'raise ImportError("No module named {module!r}: hidden by --without {thing}")\n')
        environment["PYTHONPATH"] = folder
    elif thing in PROGRAMS:
        environment["PATH"] = path_without(thing, folder)
    return environment | PLACES.get(thing, {})


def configured(thing, build):
    """A folder of the same build but for the thing, configured and not built."""
    folder = pathlib.Path(build, "without", thing)
    cache = pathlib.Path(build, "CMakeCache.txt").read_text()
    kept = re.findall(r"^(CMAKE_BUILD_TYPE|CMAKE_CXX_COMPILER|CMAKE_C_COMPILER|CMAKE_\w*FLAGS\w*|DGX_(?:TORCH|SANITIZE|FUZZERS|MPI|HTTP|CUDA)):\w+=(.+)$", cache, re.M)
    words = [f"-D{name}={value}" for name, value in kept] + CONFIGURED[thing]
    done = subprocess.run(["cmake", "-G", "Ninja", "-S", TESTS.parent, "-B", folder, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"without.py: {folder} cannot be configured\n{done.stdout}{done.stderr}")
    return folder


def names_of(build):
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout
    return {test["name"]: test.get("command", []) for test in json.loads(listed)["tests"]}


def ctest(build, folder, environment, words):
    """{name: (status, output)} of the tests of a build, run from another folder: CTest's own log of the build stays as it is."""
    pathlib.Path(folder, "CTestTestfile.cmake").write_text(f'subdirs("{build}")\n')
    command = ["ctest", "--test-dir", folder, "--output-junit", os.path.join(folder, "junit.xml"), "--test-output-size-passed", "10000000", *words]
    subprocess.run(command, env=environment, capture_output=True)
    return cases.results(os.path.join(folder, "junit.xml"))


def compare(thing, results, before, whole_only=False):
    """What is not as the table says, of the tests that ran; `before`: skipped with the thing, too."""
    wanted, problems = table().get(thing, {}), []
    for name, (status, output) in results.items():
        skips = status == "skipped"
        if skips and not cases.WHY.search(output):
            problems.append(f"{name} is skipped without {thing} and does not say why")
        if status == "fail":
            problems.append(f"{name} fails without {thing}, and is not skipped")
        elif wanted.get(name) and not skips:
            problems.append(f"{name} passes without {thing}, which it needs")
        elif wanted.get(name) is False and not skips and not cases.counted(output)[1]:
            problems.append(f"{name} skips no case without {thing}")
        elif name not in wanted and not whole_only and skips and name not in before:
            problems.append(f"{name} is skipped without {thing}, and {TABLE.name} does not say so")
        elif name not in wanted and not whole_only and cases.counted(output)[1] and name not in before:
            problems.append(f"{name} skips cases without {thing}, and {TABLE.name} does not say so")
    return problems


def skipped(results):
    return {name for name, (status, output) in results.items() if status == "skipped" or cases.counted(output)[1]}


def commands_of(build):
    """{command: output} of all that is compiled from C++ or linked, the build's folder left out."""
    listed = subprocess.run(["ninja", "-t", "compdb"], cwd=build, capture_output=True, text=True, check=True).stdout
    made = [each for each in json.loads(listed) if each["output"].endswith(".cc.o") or each["command"].startswith(": &&")]
    return {each["command"].replace(str(build), ""): each["output"] for each in made}


def check_configured(thing, build):
    """Stand-ins: what they say is all that they do, so that they run where nothing is built. All of them, and no other test."""
    folder = configured(thing, build)
    listed, commands, usual = table().get(thing, {}), names_of(folder), names_of(build)
    wanted = {name for name, whole in listed.items() if whole}
    stands, already = ({name for name, command in known.items() if "skipped: " in " ".join(command)} for known in (commands, usual))
    problems = [f"{name} is left out without {thing}, where it should be skipped" for name in sorted(set(usual) - set(commands))]
    problems += [f"{name} is no test that is skipped without {thing}" for name in sorted(wanted - stands)]
    problems += [f"{name} does not know that {thing} is missing" for name in set(listed) - wanted - already
                 if commands.get(name) == usual.get(name)]
    problems += [f"{name} is skipped without {thing}, and {TABLE.name} does not say so" for name in sorted(stands - wanted - already)]
    if thing in MODULES_OF_PROGRAMS:
        made, as_usual = commands_of(folder.resolve()), commands_of(build)
        problems += [f"{made[command]} is made in another way without {thing}" for command in sorted(set(made) - set(as_usual))]
    with tempfile.TemporaryDirectory(prefix="dgx-without-") as scratch:
        results = ctest(folder.resolve(), scratch, os.environ, ["-R", pattern(wanted)])
    return problems + compare(thing, results, set()), len(results)


def pattern(names):
    return f"^({'|'.join(map(re.escape, sorted(names)))})$"


def check(thing, build, before):
    """`before`: None for those tests alone that are skipped whole, else what all tests skip with the thing."""
    if thing in CONFIGURED:
        return check_configured(thing, build)
    wanted = table().get(thing, {})
    whole = {name for name, all_of_it in wanted.items() if all_of_it}
    missing = [f"{TABLE.name}: {name} is no test" for name in sorted(set(wanted) - set(names_of(build)))]
    with tempfile.TemporaryDirectory(prefix="dgx-without-") as scratch, tempfile.TemporaryDirectory(prefix="dgx-without-") as folder:
        words = ["-E", "^link/without$"] if before is not None else ["-R", pattern(whole)]
        results = ctest(build, scratch, hidden(thing, folder), words)
    return missing + compare(thing, results, before or set(), before is None), len(results)


def run(thing, build, words):
    """All the tests as they are, with the thing hidden: CTest's output, then the comparison."""
    if thing in CONFIGURED:
        problems, count = check_configured(thing, build)
        return report(thing, problems, count)
    with tempfile.TemporaryDirectory(prefix="dgx-without-") as folder:
        junit = os.path.join(folder, "junit.xml")
        words = words or ["--output-on-failure", "-E", "^link/without$"]
        code = subprocess.run([sys.executable, TESTS / "cases.py", junit, "--test-dir", build, *words], env=hidden(thing, folder)).returncode
        if not os.path.exists(junit):
            return code or 1
        results = cases.results(junit)
    anything = {name for tests in table().values() for name in tests}  # what else is missing here
    print()
    return report(thing, compare(thing, results, anything), len(results)) or code


def report(thing, problems, count):
    print("\n".join(problems) or f"without {thing}: {count} tests, skipped as {TABLE.name} says")
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=("list", "run", "check"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--all", action="store_true")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:cut])
    things = [*MODULES, *PLACES, *PROGRAMS, *CONFIGURED]
    if options.command == "list":
        print("\n".join(things))
        return 0
    for name in options.names:
        if name not in things:
            sys.exit(f"without.py: {name} is none of {', '.join(things)}")
    if options.command == "run":
        return run(options.names[0], options.build, words[cut + 1:])
    before = None
    if options.all:
        with tempfile.TemporaryDirectory(prefix="dgx-without-") as scratch:
            before = skipped(ctest(options.build, scratch, os.environ, ["-E", "^link/without$"]))
    done = [report(thing, *check(thing, options.build, before)) for thing in options.names or things]
    return max(done)


if __name__ == "__main__":
    sys.exit(main())
