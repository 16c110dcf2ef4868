#!/usr/bin/python3
"""The conversations of ranks, between processes that mpirun starts; and how all end if one gives up or is killed.

usage: mpi.py PROGRAM MODULE [--large]

--large: only lengths beyond 2 GiB, which take 12 GiB of memory and a minute.
"""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import needs  # noqa: E402

# Ranks share processors here, and may run in a container, as root and without ptrace. Libraries of others leak.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0",
}
TIMEOUT_SECONDS = 300

# Ways in which messages may go instead: by each, Open MPI writes messages that are too long into memory, if they are not probed for.
BY_SYSTEM_CALL = {"OMPI_MCA_btl_vader_single_copy_mechanism": "cma"}
BY_TCP = {"OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": "lo"}
# Ranks (None: without mpirun), command, exit code, words that are said, and the way in which messages go.
CASES = [
    (None, "talk", 0, "", {}),
    (1, "talk", 0, "", {}),
    (2, "talk", 0, "", BY_SYSTEM_CALL),
    (2, "talk", 0, "", BY_TCP),
    (3, "talk", 0, "", {}),
    (2, "delayed", 0, "", {}),
    (3, "give-up", 42, "", {}),  # what Open MPI says of it is at times lost
    (3, "killed", 137, "exited on signal 9 (Killed).", {}),
]
LARGE = [(2, "large", 0, "", {})]


def run(ranks, *command, **variables):
    """(exit code, what was said)."""
    start = [] if ranks is None else [needs.program("mpirun"), "--oversubscribe", "-n", str(ranks)]
    done = subprocess.run([*start, *command], env=os.environ | ENVIRONMENT | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=TIMEOUT_SECONDS)
    return done.returncode, done.stdout


def main():
    program, module, *more = sys.argv[1:]
    needs.program("mpirun")
    cases = LARGE if more else CASES
    wrong = []
    for ranks, command, wanted, words, variables in cases:
        code, said = run(ranks, program, module, command, **variables)
        what = f"{command}, {ranks or 'no'} ranks by mpirun, {variables or 'as usual'}: exit code {code}"
        print(what)
        if code != wanted or words not in said:
            wrong.append(f"{what}, not {wanted}, or does not say {words!r}\n{said}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
