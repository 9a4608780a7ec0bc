#!/bin/sh
# Measures a test suite, and fails when it has lost something that it had before.
#
# Run in the folder of `npcov.toml`, which names the model and the training data, and in its table
# `[check]` what else suites must fulfil. The environment may say:
#
#   SUITE  the suite (test.npz)
#   OUT    the folder for results (coverage)
#   BASE   the state to compare with, where there is one (coverage/base.npcov)
#   LINK   the address at which the pages of the report will be, where that is known
#   NPCOV  the program (npcov)
#
# Exits with 0, with 1 when a rule does not hold, and with 2 after an error.
set -eu

SUITE=${SUITE:-test.npz}
OUT=${OUT:-coverage}
BASE=${BASE:-$OUT/base.npcov}
NPCOV=${NPCOV:-npcov}

mkdir -p "$OUT"

# The decision graph depends on the model, the training data and the settings, not on the suite.
if [ ! -f "$OUT/graph.npcov" ]; then
    "$NPCOV" build --output "$OUT/graph.npcov" > "$OUT/graph.txt"
fi
"$NPCOV" cover "$OUT/graph.npcov" --data "$SUITE" --output "$OUT/state.npcov" > /dev/null

# The report is there for people to read whether or not the rules hold.
set --
if [ -f "$BASE" ]; then
    set -- --against "$BASE"
fi
if [ -n "${LINK:-}" ]; then
    set -- "$@" --link "$LINK"
fi
"$NPCOV" report "$OUT/state.npcov" "$@" --html "$OUT/report" --data "$SUITE" --format markdown > "$OUT/report.md"
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    cat "$OUT/report.md" >> "$GITHUB_STEP_SUMMARY"
fi

# Without an earlier state there are only the rules of `npcov.toml`, and perhaps none.
if [ ! -f "$BASE" ] && ! grep -q '^\[check\]' npcov.toml; then
    exit 0
fi
"$NPCOV" check "$OUT/state.npcov" "$@" --format junit > "$OUT/junit.xml" 2> /dev/null || true
"$NPCOV" check "$OUT/state.npcov" "$@"
