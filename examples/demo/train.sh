#!/bin/bash
# A batch job in units: it looks at the warning between two of them, and stops only there.
#
# Its units are short (5 s) against the grace (600 s), so a warning alone is no reason to go: the GPU is still its own,
# and the warning may be withdrawn. While warned it saves after every unit, otherwise after every fifth. What ends it is
# SIGTERM: it finishes the unit at hand, saves, says where to resume and exits 75. (A job whose units are long would
# rather call stop_between_units of the same library, which leaves as soon as it is warned.)
set -euo pipefail
# shellcheck source=/dev/null
source <(forewarn shell)

UNITS=60 UNIT_SECONDS=5 SAVE_EVERY=5
saved=$HOME/forewarn-demo-next-unit
if [[ ${1-} == --fresh ]]; then rm -f "$saved"; fi

stopping=
on_term() {
  stopping=yes
  echo "SIGTERM in unit $unit: finishing it first"
}
trap on_term TERM

save() {
  # Written aside, then renamed: a kill in between leaves the old checkpoint whole.
  echo "$1" >"$saved.new"
  mv "$saved.new" "$saved"
  echo "saved: next is unit $1"
}

work() {
  # In the background, or bash would hear SIGTERM only when the unit is over.
  sleep "$UNIT_SECONDS" &
  local child=$!
  while kill -0 "$child" 2>/dev/null; do wait "$child" || true; done
}

unit=1
if [[ -s $saved ]]; then
  unit=$(<"$saved")
  echo "resuming at unit $unit"
fi
while ((unit <= UNITS)); do
  work
  echo "unit $unit done"
  unit=$((unit + 1))
  if [[ $stopping ]]; then
    save "$unit"
    echo "stopped between two units; run again to go on from unit $unit"
    exit 75
  elif left=$(seconds_left); then
    if ((left > 0)); then
      echo "warned: a stop may come in $left s (risk $(risk_pct) %), so every unit is saved"
    else
      echo "warned: a stop may come at any time (risk $(risk_pct) %), so every unit is saved"
    fi
    save "$unit"
  elif ((unit % SAVE_EVERY == 1)); then
    save "$unit"
  fi
done
rm -f "$saved"
echo "all $UNITS units done"
