"""The authorizer answers as Kafka's own. compat-tests/run authorizer asks more questions."""

from __future__ import annotations

import pytest
from authorizer.run import differences
from harness.install import MissingTool


@pytest.mark.slow
def test_ten_thousand_questions_to_kafkas_authorizer() -> None:
    try:
        found = list(differences(range(200)))
    except MissingTool as missing:
        pytest.skip(f"needs Kafka's jars: {missing}")
    assert found == []
