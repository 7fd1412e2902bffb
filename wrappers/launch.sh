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
creating='' watcher='' child='' event='' phase='' code='' why=''

say() { if ((plan[quiet] == 0)); then printf '%s\n' "$*" >&2; fi; }

attached() { [[ ${plan[mode]} == @(interactive|foreground|script) ]]; }

# What create has begun may happen whatever becomes of the connection: so its end is waited for, and what it printed is
# deleted. A pod that was there before is none of ours, and create does not print it.
finish() {
    trap '' HUP INT TERM # first: a terminal that closes sends more than one
    trap - EXIT
    local result=$1
    if [[ -n $creating ]]; then
        say "waiting for the end of $kubectl create"
        timeout 30 tail -s 0.1 --pid="$creating" -f /dev/null ||
            echo "error: $kubectl create did not end; it may yet create ${plan[name]}" >&2
    fi
    for process in $watcher $child $(jobs -p); do kill "$process" 2>/dev/null; done
    if [[ -s $work/created ]]; then
        if attached; then
            "$kubectl" delete pod "${plan[name]}" --ignore-not-found --wait=false >/dev/null
        elif ((result != 0)); then
            echo "error: what was created is left: $kubectl delete $(paste -sd ' ' "$work/created") ends it" >&2
        fi
    fi
    rm -rf "$work"
    exit "$result"
}
trap 'finish $?' EXIT
trap 'finish 129' HUP
trap 'finish 130' INT
trap 'finish 143' TERM

# A trap runs at once only while bash itself waits: so a program is waited for, and has the terminal as its input.
run() {
    "$@" <&0 &
    child=$!
    wait "$child"
}

# Prints EVENT|PHASE|EXIT-CODE|WHY for every change of the pod, and DELETED at its end. Only a watch sees the exit code of
# a pod that somebody else deletes: its object outlives the container by a moment.
states() {
    local found fields process='' told=no pod=.object.status
    local waiting="$pod.containerStatuses[0].state.waiting"
    fields="{.type}|{$pod.phase}|{$pod.containerStatuses[0].state.terminated.exitCode}|{$pod.reason} {$pod.message}"
    fields+=" {$pod.conditions[?(@.type==\"PodScheduled\")].message} {$waiting.reason} {$waiting.message}{\"\\n\"}"
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

begun() { [[ $phase == Running ]] || ended; }

# A pod may end without an exit code: its container was never started, or is gone with its node.
ended() { [[ -n $code || $phase == @(Succeeded|Failed) || $event == DELETED ]]; }

# Reads states until one is as asked for; false if none came for so many seconds.
await() {
    local seconds=$1 asked=$2 line words told='|'
    while read -r -t "$seconds" line <&3; do
        [[ $line =~ ^(ADDED|MODIFIED|DELETED)\| ]] || continue # a later line of a message
        IFS='|' read -r event phase code why <<<"$line"
        read -ra words <<<"$why"
        why=${words[*]}
        if "$asked"; then return 0; fi
        # The kubelet says by turns that it cannot pull an image, and that it will try again.
        if [[ $phase == Pending && -n $why && $told != *"|$why|"* ]]; then
            told+="$why|"
            say "waiting: $why"
        fi
    done
    return 1
}

# Streams the output until the container has ended, and once more after that: a connection may have dropped before the
# last lines. Each call goes on where the one before stopped, if it begins as that one did: of a container that is gone
# already, the kubelet sends a sentence of its own as if it were the output.
stream() {
    local over=no
    : >"$work/output"
    while :; do
        if ended; then over=yes; fi
        "$kubectl" logs --follow "${plan[name]}" 2>/dev/null |
            { head -c "$(stat -c %s "$work/output")" | cmp -s - "$work/output" && cat; } | tee -a "$work/output" &
        child=$!
        wait "$child"
        if [[ $over == yes ]]; then break; fi
        await 2 ended
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
    if [[ -z $code ]]; then
        local how=ended
        if [[ $event == DELETED ]]; then how="was deleted"; fi
        echo "error: ${plan[name]} $how without an exit code${why:+: $why}" >&2
        return 1
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
(
    trap '' HUP INT # a dropped connection would end create, and not what it has begun
    exec "$kubectl" create -o name -f "$work/manifest" >"$work/created"
) <&0 &
creating=$!
wait "$creating"
result=$?
creating=''
if ((result != 0)); then exit "$result"; fi
say "$(paste -sd ' ' "$work/created") created"
if ! attached; then
    cat "$work/created"
    [[ -z ${plan[port]} ]] || say "reach it: $kubectl port-forward ${plan[name]} ${plan[port]}"
    say "its output: $kubectl logs -f $(tail -n 1 "$work/created")"
    say "to end it: $kubectl delete $(paste -sd ' ' "$work/created")"
    exit
fi

exec 3< <(states)
watcher=$!
until await 3600 begun; do say "still waiting: $kubectl describe pod ${plan[name]} says for what"; done
if [[ -n ${plan[port]} ]] && ! ended; then
    : >"$work/forward"
    forward &
    until here=$(grep -m1 -o '127.0.0.1:[0-9]*' "$work/forward") || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
    if [[ -n $here ]]; then
        say "port ${plan[port]} of the session is forwarded: $here"
    else
        echo "warning: port ${plan[port]} of the session is not forwarded: $(tail -n 1 "$work/forward")" >&2
    fi
fi
if [[ ${plan[mode]} != interactive ]]; then
    stream
    exit_code
    exit
fi
if ended; then
    echo "error: ${plan[name]} ended before a shell could be opened${why:+: $why}" >&2
    "$kubectl" logs "${plan[name]}" >&2
    exit 1
fi
say "${plan[name]}: type exit to end the session"
terminal=()
if [[ -t 0 ]]; then terminal=(-t); fi
run "$kubectl" exec -i "${terminal[@]}" "${plan[name]}" -- \
    /bin/sh -c 'if command -v bash >/dev/null; then exec bash; else exec sh; fi'
