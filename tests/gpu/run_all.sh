#!/bin/sh
# The whole GPU suite into one report: run_all.sh REPORT.md [pytest options]
# A test that hangs ends its process; it is recorded as hung and the rest runs in a new process.
report=${1:?usage: run_all.sh REPORT.md [pytest options]}
shift
cd "$(dirname "$0")/../.." || exit 1
rm -f "$report" "${report%.*}.jsonl"
for attempt in 1 2 3 4 5 6; do
  "${PYTHON:-python3}" -m pytest tests/gpu -q -p no:cacheprovider --report="$report" --resume "$@"
  status=$?
  [ $status -eq 86 ] || break
done
cat "$report"
exit $status
