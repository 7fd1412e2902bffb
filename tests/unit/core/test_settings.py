"""One table of settings, three spellings, one order of precedence."""

import pytest

from forewarn.arguments import Parser
from forewarn.errors import UserError
from forewarn.settings import MIRROR, SETTINGS, add_flags, of_command, resolve, resolve_one

STALE = next(setting for setting in SETTINGS if setting.name == "stale-after")


def test_a_name_makes_all_three_spellings() -> None:
    assert (STALE.flag, STALE.variable, STALE.chart_value) == ("--stale-after", "FOREWARN_STALE_AFTER", "staleAfter")


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_default_parses(setting: object) -> None:
    resolve_one(setting, None, {})  # type: ignore[arg-type]


def test_a_flag_beats_the_environment_and_that_beats_the_default() -> None:
    environ = {"FOREWARN_STALE_AFTER": "90"}
    found = [resolve_one(STALE, "5", environ), resolve_one(STALE, None, environ), resolve_one(STALE, None, {})]
    assert [(value.value, value.source) for value in found] == [(5, "flag"), (90, "environment"), (60, "default")]


def test_flags_are_parsed_into_settings() -> None:
    parser = Parser("forewarn run mirror", "")
    add_flags(parser, MIRROR)
    values = resolve(MIRROR, vars(parser.parse_args(["--stale-after", "7"])), {"FOREWARN_LEASE": "a/b"})
    assert (values["stale_after"], values["lease"]) == (7.0, ("a", "b"))
    assert set(values) == {setting.field for setting in of_command(MIRROR)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("stale-after", "-1"),
        ("stale-after", "soon"),
        ("event-rate", "0"),
        ("annotation-prefix", "Galends/"),
        ("sessions-label", "sessions"),
        ("pod-selector", "a in (b)"),
        ("pod-selector", "a=b, a=c"),
        ("whole-map", "yes"),
        ("lease", "name"),
        ("port", "65536"),
        ("log-format", "xml"),
    ],
)
def test_a_value_out_of_range_names_the_variable_and_what_is_allowed(name: str, text: str) -> None:
    setting = next(setting for setting in SETTINGS if setting.name == name)
    with pytest.raises(UserError) as raised:
        resolve_one(setting, None, {setting.variable: text})
    line = str(raised.value)
    assert line.startswith(setting.variable)
    assert repr(text) in line
    assert "allowed: " in line
