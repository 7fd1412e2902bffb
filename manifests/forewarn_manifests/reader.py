"""One launch's values in their order of precedence: flag, environment, profile; and where each came from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from forewarn.errors import UserError
from forewarn_manifests import checks
from forewarn_manifests.flags import FLAGS, Given

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from forewarn_manifests.flags import Arguments
    from forewarn_manifests.profile import Place, Profile
    from forewarn_manifests.request import Person

VARIABLES = {flag.field: flag for flag in reversed(FLAGS) if flag.variable}
PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass
class Reader:
    """The sources of one launch's values. ``why`` and ``warnings`` fill up while values are read."""

    arguments: Arguments
    environ: Mapping[str, str]
    profile: Profile
    person: Person
    why: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def given(self, name: str) -> Given | None:
        """Return the flag that decides a field, else its variable; an empty variable counts as unset."""
        flag = self.arguments.last(name)
        if flag is None and name in VARIABLES:
            variable = VARIABLES[name].variable
            if self.environ.get(variable):
                flag = Given(VARIABLES[name], self.environ[variable], variable)
        if flag is not None:
            self.why[name] = flag.where
        return flag

    def from_profile(self, name: str) -> None:
        """Note that a field's value is the profile's."""
        self.why[name] = f"profile {self.profile.name}"

    def whole(self, name: str, low: int, what: str, limit: int | None = None) -> int:
        """Read a whole number from ``low`` to the profile's limit, by default the profile's own."""
        given = self.given(name)
        most = self.profile.limits.get(name, 999_999_999) if limit is None else limit
        if given is None:
            self.from_profile(name)
            return int(self.profile.defaults[name])
        return checks.whole(given.where, given.value, low, most, what)

    def switch(self, name: str, fallback: bool) -> bool:
        """Read a switch: a flag's constant or a variable's YES or NO."""
        given = self.given(name)
        return fallback if given is None else checks.yes_or_no(given.where, given.value)

    def text(self, name: str, check: Callable[[str, str], str] = checks.text) -> str:
        """Read a text, by default an empty one."""
        given = self.given(name)
        return "" if given is None else check(given.where, given.value)

    def refuse(self, name: str, what: str, allowed: str) -> UserError:
        """Return the error for a field, at the place where it was given."""
        given = self.given(name)
        return UserError(given.where if given else name, what, allowed)

    def fill(self, text: str, extra: Mapping[str, str] | None = None) -> str:
        """Put the launch's own values into a text of the profile: {user}, {uid}, {gid}, and the extra ones."""
        known = {
            "user": self.person.name,
            "uid": str(self.person.uid),
            "gid": str(self.person.gid),
            **(extra or {}),
        }

        def value(match: re.Match[str]) -> str:
            name = checks.one_of(f"profile {self.profile.name}", "placeholder", match.group(1), known)
            return known[name]

        return PLACEHOLDER.sub(value, text)

    def filled(self, place: Place, extra: Mapping[str, str] | None = None) -> dict[str, object]:
        """Return a place's volume source with the launch's own values in its texts."""
        return {
            key: self.fill(value, extra) if isinstance(value, str) else value for key, value in place.source.items()
        }
