#!/usr/bin/python3
"""The policy keys of dgx-money(7), made from `dgx-settle bounds --json` on standard input.

usage: policy_page.py [PAGE]        with PAGE: says whether it has exactly this text
"""

import json
import pathlib
import sys


def escaped(text):
    return text.replace("_", "\\_")


def entry(row):
    return f"_{escaped(row['key'])}_, {row['low']} to {row['high']}, default {row['default']}\n\t{escaped(row['meaning'])}.\n"


def main():
    text = "\n".join(entry(row) for row in json.load(sys.stdin)["policy"])
    if len(sys.argv) == 1:
        print(text, end="")
    else:
        print("the page has the keys" if text in pathlib.Path(sys.argv[1]).read_text() else "the page differs")


main()
