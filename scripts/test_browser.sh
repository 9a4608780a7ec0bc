#!/bin/sh
# Opens reports in Chromium: that of the demo, and one of the size of CIFAR-10. Everything is made in target/browser.
#
#   scripts/test_browser.sh NPCOV PYTHON
set -eu
npcov=$(realpath "$1")
python=$(realpath -s "$2")
root=$(realpath "$(dirname "$0")/..")
work="$root/target/browser"
chromium=${CHROMIUM:-$(command -v chromium || true)}

if [ -z "$chromium" ] && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    apt-get update -qq
    apt-get install -qq --yes --no-install-recommends chromium fonts-dejavu-core
    chromium=$(command -v chromium)
fi
if [ -z "$chromium" ]; then
    echo "chromium is not there: install it (Debian: apt install chromium), or name it by CHROMIUM" >&2
    exit 1
fi
if ! command -v npm > /dev/null; then
    echo "npm is not there: install Node.js" >&2
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

cd "$work/packages"
node "$root/scripts/browser/test.mjs" "$chromium" "$work/screenshots" "$work/demo/report" "$work/large/report" "$work/large/report.html"
echo "screenshots: $work/screenshots"
