"""Values of settings that come from config providers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate_gateway.settings.config_providers import with_provided
from tidegate_runtime.settings_texts import BadSource

_PACKAGE = "org.apache.kafka.common.config.provider."


def named(**classes: str) -> dict[str, str]:
    """Return the settings that define providers."""
    texts = {"config.providers": ",".join(classes)}
    return texts | {f"config.providers.{k}.class": _PACKAGE + v for k, v in classes.items()}


def test_values_come_from_environment_file_and_folder(tmp_path: Path) -> None:
    file = tmp_path / "secrets.properties"
    file.write_text("password=p1\nother=p2\n")
    (tmp_path / "token").write_text("t1\n")
    texts = named(
        env="EnvVarConfigProvider", file="FileConfigProvider", dir="DirectoryConfigProvider"
    )
    texts |= {
        "a": "before ${env:SECRET} after",
        "b": f"${{file:{file}:password}}/${{file:{file}:other}}",
        "c": f"${{dir:{tmp_path}:token}}",
    }
    found = with_provided(texts, {"SECRET": "s1"})
    assert found["a"] == "before s1 after"
    assert found["b"] == "p1/p2"
    assert found["c"] == "t1\n"
    assert "config.providers.env.class" not in found


def test_without_providers_and_of_unknown_ones_a_value_is_text() -> None:
    assert with_provided({"a": "${env:HOME}"}, {"HOME": "/"}) == {"a": "${env:HOME}"}
    texts = named(env="EnvVarConfigProvider") | {"a": "${vault:x:y} ${env:HOME}"}
    assert with_provided(texts, {"HOME": "/"})["a"] == "${vault:x:y} /"


def test_a_value_is_not_looked_up_again() -> None:
    texts = named(env="EnvVarConfigProvider") | {"a": "${env:ONE}"}
    assert with_provided(texts, {"ONE": "${env:TWO}", "TWO": "2"})["a"] == "${env:TWO}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("${env:NONE}", "a: the environment has no NONE"),
        ("${env:path:HOME}", "has a path"),
        ("${file:/no/such:key}", "a: /no/such cannot be read"),
        ("${dir:/tmp:../etc/passwd}", "is not the name of a file"),
    ],
)
def test_what_is_missing_is_named(text: str, says: str) -> None:
    texts = named(
        env="EnvVarConfigProvider", file="FileConfigProvider", dir="DirectoryConfigProvider"
    )
    with pytest.raises(BadSource, match=says):
        with_provided(texts | {"a": text}, {"HOME": "secret"})


def test_paths_and_names_may_be_limited(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "token").write_text("t")
    (tmp_path / "token").write_text("secret")
    texts = named(dir="DirectoryConfigProvider", env="EnvVarConfigProvider")
    texts["config.providers.dir.param.allowed.paths"] = str(tmp_path / "open")
    texts["config.providers.env.param.allowlist.pattern"] = "TG_.*"
    allowed = {"a": f"${{dir:{tmp_path}/open:token}}${{env:TG_X}}"}
    assert with_provided(texts | allowed, {"TG_X": "x"})["a"] == "tx"
    for each in (f"${{dir:{tmp_path}:token}}", f"${{dir:{tmp_path}/open/..:token}}", "${env:HOME}"):
        with pytest.raises(BadSource) as error:
            with_provided(texts | {"a": each}, {"HOME": "secret"})
        assert "secret" not in str(error.value)


def test_another_class_is_refused() -> None:
    texts = named(vault="FileConfigProvider")
    texts["config.providers.vault.class"] = "com.example.Vault"
    with pytest.raises(BadSource, match=r"com\.example\.Vault is no provider of gateways"):
        with_provided(texts, {})
