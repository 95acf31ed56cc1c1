"""Command lines that are nearly right: words lost, doubled, swapped, replaced."""

from __future__ import annotations

import random

#: Words that may stand where a name, a number or a file should.
WORDS = (
    "", " ", "-", "--", "-h?", "7B", "nan", "inf", "-1", "0", "1e400", "1e-400", "x=y", "=", "N=",
    "=3", "N=7B", "N=nan", "N=1e9,D", "N=1e9,N=2e9", "N=-1", "N=1e9:1e8", ":", "é🙂", "'", "a b",
    ".", "..", "/", "/dev/null", "no-such-file", "runs.csv", "fit.json", "fit.json/x", "*", "$(ls)",
    "published:", "published:x", "published:hoffmann-2022", "runs.csv:law", "no.py:law", "--json",
    "--nope", "--level", "--at", "95", "0.95", "1" * 400, "split == 'fit'", "r_d", "N",
)  # fmt: skip
#: Sound lines of commands that take no fit of many starts, over files of ``command_files.prepare``.
SOUND = (
    "predict fit.json --at N=1e9 --at D=1e10",
    "predict fit.json runs.csv -c N=n_params -c D=n_tokens",
    "predict fit.json - -c N=n_params -c D=n_tokens",
    "laws chinchilla",
    "design steps --budget 10 --steps 20000",
    "plan allocation fit.json --compute 1e21",
    "plan solve fit.json --for D --loss 2.3 --at N=1e9",
    "plan frontier fit.json --computes 1e19,1e20",
    "score forecast.json later.csv",
    "plan loss-envelope runs.csv --levels 3",
)


def lines(seed: int, count: int) -> list[list[str]]:
    """So many command lines, each a sound one with none to two changes."""
    made = random.Random(seed)
    found = []
    for _ in range(count):
        line = made.choice(SOUND).split()
        for _ in range(made.choice((0, 1, 1, 2))):
            k = made.randrange(1, len(line)) if len(line) > 1 else 0
            change = made.randrange(5)
            if change == 0:
                line[k] = made.choice(WORDS)
            elif change == 1:
                line.insert(k, made.choice(WORDS))
            elif change == 2 and len(line) > 2:
                del line[k]
            elif change == 3:
                line.append(line[k])
            else:
                line[k : k + 2] = line[k : k + 2][::-1]
        found.append(line)
    return found
