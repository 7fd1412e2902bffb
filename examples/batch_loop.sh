#!/usr/bin/env bash
# A batch job in units: each unit's result appears whole, what is done is not done again, and a warning stops it
# between two units with exit code 75. Usage: batch_loop.sh [RESULTS]
set -euo pipefail
# shellcheck source=/dev/null
source "${FOREWARN_SH:-$HOME/forewarn.sh}"

results=${1:-results}
mkdir -p "$results"
# bash runs the trap once the command at work has ended. A unit in parentheses is one command, so SIGTERM, too, stops
# between two units.
trap 'echo "stopped by SIGTERM; run again to go on" >&2; exit 75' TERM

for ((unit = 1; unit <= ${UNITS:-20}; unit++)); do
  if [[ -e $results/$unit ]]; then continue; fi
  stop_between_units "unit $unit"
  echo "unit $unit"
  (
    sleep "${UNIT_SECONDS:-1}" # the work
    echo "result of unit $unit" >"$results/.$unit"
    mv "$results/.$unit" "$results/$unit"
  )
done
echo "all units are done"
