# shellcheck shell=bash
# What a batch loop in bash needs to heed a termination warning; to be sourced. bash 3.2 and newer, no other program
# (but date, where bash is older than 5). Safe under set -euo pipefail.
#
#   warned              true while the pod carries a warning
#   risk_pct            prints the warning's risk in whole percent, 1 to 100; a band, not a probability
#   seconds_left        prints the seconds to the earliest stop; below zero: past, may be stopped at any time
#   stop_between_units [UNIT]
#                       between two units of work: if warned, says so on stderr and exits 75 (run me again)
#
# risk_pct and seconds_left print nothing and return 1 where there is no such value. A value that does not parse is
# ignored, as everywhere in forewarn. Ask again before each unit and keep no answer: a warning may be withdrawn.

# These names are forewarn/contract.py's; a test compares them.
__forewarn_mount=/etc/podinfo
__forewarn_prefix=galends/
__forewarn_at=termination-warning-at
__forewarn_risk=termination-warning-risk
__forewarn_message=termination-warning-message
__forewarn_map=annotations
__forewarn_stopped=75

# Puts the value of annotation $1 into __forewarn_value; returns 1 where there is none. A file of its own wins over
# the whole map, which is read only where that file is missing or cannot be read.
__forewarn_read() {
  local directory=${PODINFO:-$__forewarn_mount} line key quote='"'
  local prefix=${FOREWARN_ANNOTATION_PREFIX:-$__forewarn_prefix}
  __forewarn_value=
  if [[ -f $directory/$1 && -r $directory/$1 ]]; then
    # read -d '' returns 0 only at a NUL byte, and no value of ours holds one.
    if { IFS= read -r -d '' __forewarn_value <"$directory/$1"; } 2>/dev/null; then
      __forewarn_value=
      return 1
    fi
  elif [[ -r $directory/$__forewarn_map ]]; then
    key=${prefix%/}/$1
    while IFS= read -r line || [[ -n $line ]]; do
      if [[ ${line%%=*} == "$key" && $line == *=* ]]; then
        line=${line#*=}
        line=${line#\"}
        line=${line%\"}
        [[ $line != *'\x00'* ]] || return 1
        # %b knows Go's other escapes.
        printf -v __forewarn_value '%b' "${line//\\$quote/$quote}"
        break
      fi
    done 2>/dev/null <"$directory/$__forewarn_map" || return 1
  fi
  local space=$' \t\n\r\v\f'
  __forewarn_value=${__forewarn_value#"${__forewarn_value%%[!"$space"]*}"}
  __forewarn_value=${__forewarn_value%"${__forewarn_value##*[!"$space"]}"}
  [[ -n $__forewarn_value ]]
}

# Puts the Unix time of the ISO 8601 instant $1 into __forewarn_epoch; returns 1 where it is none.
__forewarn_instant() {
  local LC_ALL=C
  local date='([0-9]{4})-?([0-9]{2})-?([0-9]{2})[T ]'
  local time='([0-9]{2}):?([0-9]{2})(:?([0-9]{2})([.,][0-9]{1,9})?)?'
  local zone='( ?(Z|z|UTC|([+-])([0-9]{2})(:?([0-9]{2}))?))?'
  [[ $1 =~ ^$date$time$zone$ ]] || return 1
  # 10#: a leading zero does not make a number octal.
  local year=$((10#${BASH_REMATCH[1]})) month=$((10#${BASH_REMATCH[2]})) day=$((10#${BASH_REMATCH[3]}))
  local hour=$((10#${BASH_REMATCH[4]})) minute=$((10#${BASH_REMATCH[5]})) second=$((10#${BASH_REMATCH[7]:-0}))
  local sign=${BASH_REMATCH[11]:-+}
  local off_hours=$((10#${BASH_REMATCH[12]:-0})) off_minutes=$((10#${BASH_REMATCH[14]:-0}))
  local days=(0 31 28 31 30 31 30 31 31 30 31 30 31)
  if ((year % 4 == 0 && (year % 100 != 0 || year % 400 == 0))); then days[2]=29; fi
  ((year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= days[month])) || return 1
  ((hour <= 23 && minute <= 59 && second <= 59 && off_hours <= 23 && off_minutes <= 59)) || return 1
  # Days since 1970-01-01, in years that begin in March, so that a leap day is the last of its year.
  local shifted=$((month > 2 ? year : year - 1))
  local day_of_year=$(((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1))
  local number=$((shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + day_of_year - 719468))
  local offset=$((off_hours * 3600 + off_minutes * 60))
  __forewarn_epoch=$((number * 86400 + hour * 3600 + minute * 60 + second))
  if [[ $sign == - ]]; then offset=$((-offset)); fi
  __forewarn_epoch=$((__forewarn_epoch - offset))
  # Python's datetime ends with the years 1 and 9999.
  ((__forewarn_epoch >= -62135596800 && __forewarn_epoch <= 253402300799))
}

warned() {
  local __forewarn_value __forewarn_epoch
  __forewarn_read "$__forewarn_at" && __forewarn_instant "$__forewarn_value"
}

risk_pct() {
  local __forewarn_value whole fraction LC_ALL=C
  __forewarn_read "$__forewarn_risk" || return 1
  [[ $__forewarn_value =~ ^([0-9]{1,3})(\.([0-9]{1,9}))?$ || $__forewarn_value =~ ^()(\.([0-9]{1,9}))$ ]] || return 1
  whole=$((10#${BASH_REMATCH[1]:-0}))
  fraction=${BASH_REMATCH[3]:-0}000000000
  fraction=$((10#${fraction:0:9}))
  ((whole * 1000000000 + fraction > 0 && whole * 1000000000 + fraction <= 1000000000)) || return 1
  # Rounded to the nearest, but a risk that is there is never shown as none.
  local percent=$(((whole * 1000000000 + fraction + 5000000) / 10000000))
  printf '%s\n' "$((percent > 0 ? percent : 1))"
}

seconds_left() {
  local __forewarn_value __forewarn_epoch now
  __forewarn_read "$__forewarn_at" && __forewarn_instant "$__forewarn_value" || return 1
  now=${EPOCHSECONDS:-$(date +%s)}
  printf '%s\n' "$((__forewarn_epoch - now))"
}

stop_between_units() {
  local __forewarn_value
  warned || return 0
  __forewarn_read "$__forewarn_message" || __forewarn_value='This session may be stopped soon.'
  {
    printf '%s\n' "${__forewarn_value//[[:cntrl:]]/ }"
    printf 'stopped before %s; run again to go on from there\n' "${1:-the next unit}"
  } >&2
  exit "$__forewarn_stopped"
}
