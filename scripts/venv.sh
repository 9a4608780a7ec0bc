#!/bin/sh
# Makes a throwaway virtual environment and fills it from a requirements file:
#
#     scripts/venv.sh .venv-test scripts/requirements-test.txt
#
# Does nothing when the environment was filled from the same requirements by
# the same Python. `PYTHON` names the interpreter (default `python3`).
set -eu

if [ $# -ne 2 ]; then
    echo "usage: $0 FOLDER REQUIREMENTS" >&2
    exit 2
fi
folder=$1
requirements=$2
python=${PYTHON:-python3}

# The stamp is written last, so an interrupted installation is repeated.
stamp=$folder/requirements.stamp
wanted=$("$python" --version; cat "$requirements")
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    exit 0
fi

rm -rf "$folder"
"$python" -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"
printf '%s\n' "$wanted" > "$stamp"
