"""``forewarn run mirror --once``: prints what would be told now, and writes nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TextIO

from forewarn.errors import UserError
from forewarn.mirror import events
from forewarn.mirror.api import FAILURES, Api, Refusal, new_session
from forewarn.mirror.clock import Clock
from forewarn.mirror.episodes import ended_unobserved, step
from forewarn.mirror.lookups import Lookups
from forewarn.mirror.notices import Around, Notice, Rules
from forewarn.mirror.pods import Seen, observe
from forewarn.mirror.story import NOTHING

if TYPE_CHECKING:
    from datetime import datetime

    from lightkube.config.kubeconfig import SingleConfig

    from forewarn.mirror.events import Recovered
    from forewarn.mirror.watch import Scope


def run(config: SingleConfig, scope: Scope, rules: Rules, out: TextIO) -> int:
    """Print one line for each Event that would be written now, and a count at the end."""
    try:
        lines, sessions = asyncio.run(_look(config, scope, rules))
    except (Refusal, *FAILURES) as error:
        raise UserError("forewarn run mirror --once", f"the cluster cannot be read: {error}", "") from None
    for line in lines:
        print(line, file=out)
    print(f"{len(lines)} Events would be written for {sessions} sessions", file=out)
    return 0


async def _look(config: SingleConfig, scope: Scope, rules: Rules) -> tuple[list[str], int]:
    clock = Clock()
    async with new_session(config) as session:
        api = Api(config, session, clock.answered)
        look = Lookups(api, scope)
        followed = await look.namespaces()
        pods = [observe(pod, rules.keys) for stream in scope.streams for pod in await look.pods(stream)]
        stored = events.recover(await look.stored(scope.namespaces))
    pods = [seen for seen in pods if seen.namespace in followed]
    now = clock.now()
    lines = [
        line for seen in pods for line in _of_pod(seen, stored.pop((seen.namespace, seen.uid), None), pods, rules, now)
    ]
    if not scope.pod_selector:
        # With a selector a pod that is not listed may only be out of sight.
        for gone in (each for each in stored.values() if each.pod.namespace in followed):
            lines += [
                _line(gone.pod, said) for said in ended_unobserved(gone.story, now).tell if isinstance(said, Notice)
            ]
    return lines, len(pods)


def _of_pod(seen: Seen, found: Recovered | None, pods: list[Seen], rules: Rules, now: datetime) -> list[str]:
    marked = [
        (other.name, other.facts.stop_from)
        for other in (pods if seen.group else ())
        if (other.namespace, other.group) == (seen.namespace, seen.group)
        and other.uid != seen.uid
        and other.deleted is None
        and other.ended is None
        and other.facts.stop_from
    ]
    names = tuple(sorted(name for name, _ in marked))
    around = Around(names, min((at for _, at in marked), default=None), None, "")
    target = events.Target("Pod", seen.namespace, seen.name, seen.uid)
    told = step(found.story if found else NOTHING, seen, around, now, rules).tell
    return [_line(target, said) for said in told if isinstance(said, Notice)]


def _line(pod: events.Target, said: Notice) -> str:
    return f"{pod.namespace}/{pod.name}  {said.reason.name}  {said.note}"
