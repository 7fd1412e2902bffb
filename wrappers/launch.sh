#!/bin/bash
# Starts a session: forewarn render | kubectl create, and then what its flags ask for.
#   (no flag)  a shell in the pod; the pod is deleted at the shell's end, or when the connection drops
#   -b, -B     the pod is left alone
#   -f SCRIPT  its output is streamed and its exit code returned; then the pod is deleted
#   -d         the manifest as JSON; nothing is started
# launch.sh -h lists every flag. FOREWARN and KUBECTL name the programs to use.
set -uo pipefail

forewarn=${FOREWARN:-forewarn}
kubectl=${KUBECTL:-kubectl}
work=$(mktemp -d) || exit 1
declare -A plan=([quiet]=0)
created=no watcher='' child='' state=''

say() { if ((plan[quiet] == 0)); then printf '%s\n' "$*" >&2; fi; }

finish() {
    local code=$?
    trap - EXIT
    trap '' HUP INT TERM
    for process in $watcher $child $(jobs -p); do kill "$process" 2>/dev/null; done
    if [[ $created == yes ]]; then
        "$kubectl" delete pod "${plan[name]}" --ignore-not-found --wait=false >/dev/null
    fi
    rm -rf "$work"
    exit "$code"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# A trap runs at once only while bash itself waits: so a program is waited for, and has the terminal as its input.
run() {
    "$@" <&0 &
    child=$!
    wait "$child"
}

# Prints EVENT|PHASE|EXIT-CODE|WHY-PENDING for every change of the pod, and DELETED at its end. Only a watch sees the exit
# code of a pod that somebody else deletes: its object outlives the container by a moment.
states() {
    local found fields process='' told=no
    fields='{.type}|{.object.status.phase}|{.object.status.containerStatuses[0].state.terminated.exitCode}'
    fields+='|{.object.status.conditions[?(@.type=="PodScheduled")].message}{"\n"}'
    trap 'kill $process 2>/dev/null; exit' TERM
    while :; do
        if found=$("$kubectl" get pod "${plan[name]}" --ignore-not-found -o name 2>/dev/null); then
            [[ -n $found ]] || break
            "$kubectl" get pod "${plan[name]}" --watch --output-watch-events -o "jsonpath=$fields" 2>/dev/null &
            process=$!
            wait "$process"
        elif [[ $told == no ]]; then
            told=yes
            say "the cluster does not answer; still trying"
        fi
        sleep 1 # a broken connection may come back
    done
    echo 'DELETED|||'
}

# Reads states until one matches the pattern; false if none came for so many seconds.
await() {
    local seconds=$1 pattern=$2 told=''
    while read -r -t "$seconds" state <&3; do
        if [[ $state =~ $pattern || $state == DELETED* ]]; then return 0; fi
        if [[ $state == *'|Pending|'* && ${state##*|} != "$told" ]]; then
            told=${state##*|}
            say "waiting${told:+: $told}"
        fi
    done
    return 1
}

# Streams the output until the container has ended, and once more after that: a connection may have dropped before the
# last lines. Each call goes on where the one before stopped, if it begins as that one did: of a container that is gone
# already, the kubelet sends a sentence of its own as if it were the output.
stream() {
    local ended=no
    : >"$work/output"
    while :; do
        if [[ $state =~ \|[0-9]+\| || $state == DELETED* ]]; then ended=yes; fi
        "$kubectl" logs --follow "${plan[name]}" 2>/dev/null |
            { head -c "$(stat -c %s "$work/output")" | cmp -s - "$work/output" && cat; } | tee -a "$work/output" &
        child=$!
        wait "$child"
        if [[ $ended == yes ]]; then break; fi
        await 2 '\|[0-9]+\|'
    done
}

# A forward ends with the first connection that the session refuses, and Jupyter needs a while to listen: it is begun
# again, on the same port here.
forward() {
    local port='' process=''
    trap 'kill $process 2>/dev/null; exit' TERM
    while :; do
        "$kubectl" port-forward "pod/${plan[name]}" "$port:${plan[port]}" >"$work/forward" 2>&1 </dev/null &
        process=$!
        wait "$process"
        if [[ -z $port ]]; then
            port=$(grep -m1 -o '127.0.0.1:[0-9]*' "$work/forward") || exit 1
            port=${port#*:}
        fi
        sleep 1
    done
}

# Ends with one line if a variable names nothing that can be run: bash's own message would not say which variable.
need() {
    if [[ -z $(type -P -- "$2") ]]; then
        echo "error: $1: '$2' is no program that can be run; allowed: name or path of $3" >&2
        exit 2
    fi
}

exit_code() {
    local code=${state#*|*|}
    code=${code%%|*}
    if [[ -z $code ]]; then
        echo "error: ${plan[name]} was deleted before its exit code could be read" >&2
        code=1
    fi
    return "$code"
}

need FOREWARN "$forewarn" forewarn
"$forewarn" render --number "$(date +%H%M%S)-$$" --plan "$work/plan" "$@" >"$work/manifest" || exit
[[ -e $work/plan ]] || plan[mode]=dump # -h, -G list
while IFS='=' read -r key value; do plan[$key]=$value; done < <(cat "$work/plan" 2>/dev/null)
if [[ ${plan[mode]} == dump ]]; then
    cat "$work/manifest"
    exit
fi

need KUBECTL "$kubectl" kubectl
"$kubectl" create -o name -f "$work/manifest" >"$work/created" || exit
say "$(paste -sd ' ' "$work/created") created"
case ${plan[mode]} in
background | batch | ssh)
    cat "$work/created"
    [[ -z ${plan[port]} ]] || say "reach it: $kubectl port-forward ${plan[name]} ${plan[port]}"
    say "its output: $kubectl logs -f $(tail -n 1 "$work/created")"
    say "to end it: $kubectl delete $(paste -sd ' ' "$work/created")"
    exit
    ;;
esac

created=yes
exec 3< <(states)
watcher=$!
until await 3600 '\|(Running|Succeeded|Failed)\|'; do say "still waiting: $kubectl describe pod ${plan[name]} says for what"; done
if [[ ${plan[mode]} == script || ${plan[mode]} == foreground ]]; then
    stream
    exit_code
    exit
fi
if [[ $state != *'|Running||'* ]]; then
    echo "error: ${plan[name]} ended before a shell could be opened: $state" >&2
    "$kubectl" logs "${plan[name]}" >&2
    exit 1
fi
if [[ -n ${plan[port]} ]]; then
    : >"$work/forward"
    forward &
    until here=$(grep -m1 -o '127.0.0.1:[0-9]*' "$work/forward") || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
    if [[ -n $here ]]; then
        say "port ${plan[port]} of the session is forwarded: $here"
    else
        echo "warning: port ${plan[port]} of the session is not forwarded: $(tail -n 1 "$work/forward")" >&2
    fi
fi
say "${plan[name]}: type exit to end the session"
terminal=()
if [[ -t 0 ]]; then terminal=(-t); fi
run "$kubectl" exec -i "${terminal[@]}" "${plan[name]}" -- \
    /bin/sh -c 'if command -v bash >/dev/null; then exec bash; else exec sh; fi'
