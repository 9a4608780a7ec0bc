#!/bin/sh
# Opens reports in Chromium: that of the demo, one of the size of CIFAR-10, of words, of series, of a table, of hostile
# names, and of another model. Everything is made in target/browser.
#
#   scripts/test_browser.sh NPCOV PYTHON
set -eu
npcov=$(realpath "$1")
python=$(realpath -s "$2")
root=$(realpath "$(dirname "$0")/..")
work="$root/target/browser"
chromium=${CHROMIUM:-$(command -v chromium || true)}

wanted=""
[ -n "$chromium" ] || wanted="chromium fonts-dejavu-core"
command -v npm > /dev/null || wanted="$wanted nodejs npm"
if [ -n "$wanted" ] && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends $wanted > /dev/null
    chromium=${chromium:-$(command -v chromium || true)}
fi
if [ -z "$chromium" ]; then
    echo "chromium is not there: install it (Debian: apt install chromium), or name it by CHROMIUM" >&2
    exit 1
fi
if ! command -v npm > /dev/null; then
    echo "npm is not there: install Node.js (Debian: apt install nodejs npm)" >&2
    exit 1
fi

rm -rf "$work"
mkdir -p "$work/packages"
cp "$root/scripts/browser/package.json" "$work/packages"
(cd "$work/packages" && npm install --silent --no-audit --no-fund --no-package-lock)

"$npcov" demo --keep "$work/demo" > /dev/null
mkdir "$work/large"
"$python" "$root/scripts/browser/make_large.py" "$root/fixtures/fashion-1000.npz" "$work/large"
cd "$work/large"
"$npcov" --quiet build "$root/fixtures/lenet.onnx" --data train.npz --divide 255 --clusters 7 --restarts 1 \
    --criteria snpc,kmnc -o graph.npcov > /dev/null
"$npcov" --quiet cover graph.npcov --data suite.npz -o state.npcov > /dev/null
"$npcov" --quiet cover graph.npcov --data train.npz --name suite -o earlier.npcov > /dev/null

# The report of that size in at most 10 s and 300 MB, and the same bytes again.
"$python" - "$npcov" << 'PYTHON'
import filecmp, pathlib, resource, subprocess, sys, time

def report(folder):
    start = time.monotonic()
    subprocess.run([sys.argv[1], "--quiet", "report", "state.npcov", "--against", "earlier.npcov", "--html", folder,
                    "--single-file", folder + ".html"], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start

before = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = report("report")
after = resource.getrusage(resource.RUSAGE_CHILDREN)
computing = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
megabytes = after.ru_maxrss / 1000
files = [path for path in pathlib.Path("report").rglob("*") if path.is_file()]
size = sum(path.stat().st_size for path in files) / 1e6
print(f"report of 10,000 inputs: {seconds:.1f} s ({computing:.1f} s of computing), {megabytes:.0f} MB of memory, "
      f"{len(files)} files, {size:.1f} MB")
# Two cores, which others may share: what counts is what is computed.
if computing > 20 or megabytes > 300 or size > 50:
    sys.exit("the report takes more than 10 s on two cores, 300 MB of memory or 50 MB of disk")
report("again")
for path in files:
    other = pathlib.Path("again") / path.relative_to("report")
    if not filecmp.cmp(path, other, shallow=False):
        sys.exit(f"{path} has other bytes the second time")
PYTHON
rm -rf again again.html

# Inputs that are no images, names that would like to be more than names, several suites, and a model that is another one.
fixtures="$root/fixtures/report"
measure() { # FOLDER MODEL TRAIN SUITE NAME [OPTION...]
    folder=$1 model=$2 train=$3 suite=$4 name=$5
    shift 5
    mkdir -p "$work/$folder"
    cd "$work/$folder"
    "$npcov" --quiet build "$model" --data "$train" --criteria snpc "$@" -o graph.npcov > /dev/null
    "$npcov" --quiet cover graph.npcov --data "$suite" --name "$name" -o state.npcov > /dev/null
}
measure tokens "$fixtures/reviews.onnx" "$fixtures/reviews.npz" "$fixtures/reviews-suite.npz" reviews
"$npcov" --quiet report state.npcov --html report --data "$fixtures/reviews-suite.npz" --words "$fixtures/reviews-words.txt" > /dev/null
measure series "$fixtures/bumps.onnx" "$fixtures/bumps.npz" "$fixtures/bumps.npz" bumps
"$npcov" --quiet report state.npcov --html report > /dev/null
measure table "$fixtures/iris.onnx" "$fixtures/iris.npz" "$fixtures/iris.npz" iris
"$npcov" --quiet report state.npcov --html report --feature-names "$fixtures/iris-features.txt" > /dev/null
"$python" "$root/scripts/browser/make_hostile.py" "$root/fixtures/lenet.onnx" "$root/fixtures/fashion-1000.npz" "$work/hostile"
cd "$work/hostile"
measure hostile model.onnx "<img src=x onerror=alert(1)>.npz" tests.npz "$(cat suite.txt)" --divide 255
"$npcov" --quiet report state.npcov --html report --single-file report.html --data tests.npz > /dev/null
# The same images, once as two suites, and beside a state of another model.
measure retrained "$root/fixtures/resnet8.onnx" "$root/fixtures/fashion-1000.npz" "$root/fixtures/fashion-1000.npz" a --divide 255
mv state.npcov earlier.npcov
rm graph.npcov
measure retrained "$root/fixtures/lenet.onnx" "$root/fixtures/fashion-1000.npz" "$root/fixtures/fashion-1000.npz" a --divide 255
"$npcov" --quiet cover graph.npcov --data "$root/fixtures/fashion-1000.npz" --limit 300 --name b -o b.npcov > /dev/null
"$npcov" --quiet merge state.npcov b.npcov -o both.npcov > /dev/null
"$npcov" --quiet report both.npcov --against earlier.npcov --html report --data "$root/fixtures/fashion-1000.npz" > /dev/null

cd "$work/packages"
node "$root/scripts/browser/test.mjs" "$chromium" "$work/screenshots" "$work/demo/report" "$work/large/report" \
    "$work/large/report.html" "$work/tokens/report!" "$work/series/report!" "$work/table/report!" "$work/retrained/report!" \
    "$work/hostile/report?" "$work/hostile/report.html"
echo "screenshots: $work/screenshots"
