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
# stop_between_units ends the shell that it runs in: after a pipe or inside $(...) that is a subshell, and the script
# would go on; write 'while ...; done < list' or 'done < <(command)', or 'set -e -o pipefail'.

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
  local __forewarn_directory=${PODINFO:-$__forewarn_mount} __forewarn_line __forewarn_key __forewarn_quote='"'
  local __forewarn_given=${FOREWARN_ANNOTATION_PREFIX:-$__forewarn_prefix}
  __forewarn_value=
  if [[ -f $__forewarn_directory/$1 && -r $__forewarn_directory/$1 ]]; then
    # read -d '' returns 0 only at a NUL byte, and no value of ours holds one.
    if { IFS= read -r -d '' __forewarn_value <"$__forewarn_directory/$1"; } 2>/dev/null; then
      __forewarn_value=
      return 1
    fi
  elif [[ -r $__forewarn_directory/$__forewarn_map ]]; then
    __forewarn_key=${__forewarn_given%/}/$1
    while IFS= read -r __forewarn_line || [[ -n $__forewarn_line ]]; do
      if [[ ${__forewarn_line%%=*} == "$__forewarn_key" && $__forewarn_line == *=* ]]; then
        __forewarn_line=${__forewarn_line#*=}
        __forewarn_line=${__forewarn_line#\"}
        __forewarn_line=${__forewarn_line%\"}
        [[ $__forewarn_line != *'\x00'* ]] || return 1
        # %b knows Go's other escapes (\u only in a UTF-8 locale, else it stays as it is).
        printf -v __forewarn_value '%b' "${__forewarn_line//\\$__forewarn_quote/$__forewarn_quote}"
        break
      fi
    done 2>/dev/null <"$__forewarn_directory/$__forewarn_map" || return 1
  fi
  local __forewarn_space=$' \t\n\r\v\f'
  __forewarn_value=${__forewarn_value#"${__forewarn_value%%[!"$__forewarn_space"]*}"}
  __forewarn_value=${__forewarn_value%"${__forewarn_value##*[!"$__forewarn_space"]}"}
  [[ -n $__forewarn_value ]]
}

# Puts the Unix time of the ISO 8601 instant $1 into __forewarn_epoch; returns 1 where it is none.
__forewarn_instant() {
  local __forewarn_digit='[0123456789]'
  local __forewarn_pair="($__forewarn_digit$__forewarn_digit)"
  local __forewarn_pattern="^($__forewarn_digit{4})-?$__forewarn_pair-?${__forewarn_pair}[T ]"
  __forewarn_pattern+="$__forewarn_pair:?$__forewarn_pair(:?$__forewarn_pair([.,]$__forewarn_digit{1,9})?)?"
  __forewarn_pattern+="( ?(Z|z|UTC|([+-])$__forewarn_pair(:?$__forewarn_pair)?))?\$"
  [[ $1 =~ $__forewarn_pattern ]] || return 1
  # 10#: a leading zero does not make a number octal.
  local __forewarn_year=$((10#${BASH_REMATCH[1]}))
  local __forewarn_month=$((10#${BASH_REMATCH[2]}))
  local __forewarn_day=$((10#${BASH_REMATCH[3]}))
  local __forewarn_hour=$((10#${BASH_REMATCH[4]}))
  local __forewarn_minute=$((10#${BASH_REMATCH[5]}))
  local __forewarn_second=$((10#${BASH_REMATCH[7]:-0}))
  local __forewarn_sign=${BASH_REMATCH[11]:-+}
  local __forewarn_off_hours=$((10#${BASH_REMATCH[12]:-0}))
  local __forewarn_off_minutes=$((10#${BASH_REMATCH[14]:-0}))
  local __forewarn_days=(0 31 28 31 30 31 30 31 31 30 31 30 31)
  if ((__forewarn_year % 4 == 0 && (__forewarn_year % 100 != 0 || __forewarn_year % 400 == 0))); then
    __forewarn_days[2]=29
  fi
  ((__forewarn_year >= 1 && __forewarn_month >= 1 && __forewarn_month <= 12)) || return 1
  ((__forewarn_day >= 1 && __forewarn_day <= __forewarn_days[__forewarn_month])) || return 1
  ((__forewarn_hour <= 23 && __forewarn_minute <= 59 && __forewarn_second <= 59)) || return 1
  ((__forewarn_off_hours <= 23 && __forewarn_off_minutes <= 59)) || return 1
  # Days since 1970-01-01, in years that begin in March, so that a leap day is the last of its year.
  if ((__forewarn_month > 2)); then
    __forewarn_month=$((__forewarn_month - 3))
  else
    __forewarn_month=$((__forewarn_month + 9))
    __forewarn_year=$((__forewarn_year - 1))
  fi
  __forewarn_day=$(((153 * __forewarn_month + 2) / 5 + __forewarn_day - 1 - 719468))
  __forewarn_day=$((__forewarn_day + __forewarn_year * 365 + __forewarn_year / 4))
  __forewarn_day=$((__forewarn_day - __forewarn_year / 100 + __forewarn_year / 400))
  __forewarn_epoch=$((__forewarn_day * 86400 + __forewarn_hour * 3600 + __forewarn_minute * 60 + __forewarn_second))
  local __forewarn_offset=$((__forewarn_off_hours * 3600 + __forewarn_off_minutes * 60))
  if [[ $__forewarn_sign == - ]]; then __forewarn_offset=$((-__forewarn_offset)); fi
  __forewarn_epoch=$((__forewarn_epoch - __forewarn_offset))
  # Python's datetime ends with the years 1 and 9999.
  ((__forewarn_epoch >= -62135596800 && __forewarn_epoch <= 253402300799))
}

warned() {
  local __forewarn_value __forewarn_epoch
  __forewarn_read "$__forewarn_at" && __forewarn_instant "$__forewarn_value"
}

risk_pct() {
  local __forewarn_value __forewarn_whole __forewarn_part
  local __forewarn_digit='[0123456789]'
  __forewarn_read "$__forewarn_risk" || return 1
  [[ $__forewarn_value =~ ^($__forewarn_digit{1,3})(\.($__forewarn_digit{1,9}))?$ ||
    $__forewarn_value =~ ^()(\.($__forewarn_digit{1,9}))$ ]] || return 1
  __forewarn_whole=$((10#${BASH_REMATCH[1]:-0}))
  __forewarn_part=${BASH_REMATCH[3]:-0}000000000
  __forewarn_part=$((__forewarn_whole * 1000000000 + 10#${__forewarn_part:0:9}))
  ((__forewarn_part > 0 && __forewarn_part <= 1000000000)) || return 1
  # Rounded to the nearest, but a risk that is there is never shown as none.
  __forewarn_part=$(((__forewarn_part + 5000000) / 10000000))
  printf '%s\n' "$((__forewarn_part > 0 ? __forewarn_part : 1))"
}

seconds_left() {
  local __forewarn_value __forewarn_epoch
  __forewarn_read "$__forewarn_at" && __forewarn_instant "$__forewarn_value" || return 1
  printf '%s\n' "$((__forewarn_epoch - ${EPOCHSECONDS:-$(command date +%s)}))"
}

stop_between_units() {
  local __forewarn_value
  warned || return 0
  __forewarn_read "$__forewarn_message" || __forewarn_value='This session may be stopped soon.'
  {
    printf '%s\n' "${__forewarn_value//[[:cntrl:]]/ }"
    printf 'stopped before %s; run again to go on from there\n' "${1:-the next unit}"
    # With both set, the script ends too, and with the same code.
    if ((BASH_SUBSHELL > 0)) && ! { [[ $- == *e* ]] && shopt -qo pipefail; }; then
      printf 'note: this exit ends a subshell only, as after a pipe, and the script may go on: %s\n' \
        "write 'while ...; done < LIST' or 'done < <(COMMAND)', or 'set -e -o pipefail'"
    fi
  } >&2 || : # a full disk under a log must not change the exit code
  exit "$__forewarn_stopped"
}
