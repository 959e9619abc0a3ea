"""settings.py: what the environment may say, and the sentence for what it may not."""

from pathlib import Path

import pytest
from dtj_operator.settings import Settings, Webhook

IMAGE = {"DTJ_TRAINER_IMAGE": "trainer:1"}
WEBHOOK = {
    "DTJ_WEBHOOK_PORT": "9443",
    "DTJ_WEBHOOK_HOST": "dtj-webhook.dtj-system.svc, 127.0.0.1",
    "DTJ_WEBHOOK_CONFIGURATION": "dtj",
}


def test_little_has_to_be_set() -> None:
    assert Settings.from_environment(IMAGE) == Settings("trainer:1")


def test_lists_are_read_with_commas() -> None:
    settings = Settings.from_environment(
        IMAGE | {"DTJ_NAMESPACES": "a, b,", "DTJ_ALLOW": "hostPath,privileged", "DTJ_SCRAPER_NAMESPACES": "monitoring"}
    )
    assert settings.namespaces == ("a", "b")
    assert settings.allow == {"hostPath", "privileged"}
    assert settings.scraper_namespaces == ("monitoring",)


def test_webhook_makes_its_certificate_or_reads_one() -> None:
    made = Settings.from_environment(IMAGE | WEBHOOK).webhook
    assert made == Webhook(9443, ("dtj-webhook.dtj-system.svc", "127.0.0.1"), "dtj")
    read = Settings.from_environment(IMAGE | {"DTJ_WEBHOOK_PORT": "9443", "DTJ_WEBHOOK_CERT_DIR": "/certificates"})
    assert read.webhook == Webhook(9443, certificates=Path("/certificates"))
    assert Settings.from_environment(IMAGE | WEBHOOK | {"DTJ_WEBHOOK_PORT": ""}).webhook is None


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "DTJ_TRAINER_IMAGE is not set"),
        (IMAGE | {"DTJ_ALLOW": "hostpath"}, "DTJ_ALLOW: hostpath is unknown; choose of hostNetwork"),
        (IMAGE | {"DTJ_LOG_LEVEL": "loud"}, "DTJ_LOG_LEVEL='loud' is not one of debug"),
        (IMAGE | {"DTJ_RECONCILERS": "0"}, "DTJ_RECONCILERS='0' is not a number above 0"),
        (IMAGE | WEBHOOK | {"DTJ_WEBHOOK_PORT": "https"}, "DTJ_WEBHOOK_PORT='https' is not a number"),
        (IMAGE | WEBHOOK | {"DTJ_WEBHOOK_PORT": "70000"}, "DTJ_WEBHOOK_PORT=70000 is no port"),
        (IMAGE | WEBHOOK | {"DTJ_WEBHOOK_HOST": " , "}, "DTJ_WEBHOOK_PORT is set but not DTJ_WEBHOOK_HOST"),
        (IMAGE | WEBHOOK | {"DTJ_WEBHOOK_CONFIGURATION": ""}, "not DTJ_WEBHOOK_CONFIGURATION: set it to the name"),
    ],
)
def test_mistake_is_one_sentence(environ: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as error:
        Settings.from_environment(environ)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
