"""Client properties of OAUTHBEARER."""

from __future__ import annotations

import pytest

from tidegate_coordination.client.errors import BadProperties
from tidegate_coordination.client.properties.bearer_credentials import BearerCredentials
from tidegate_coordination.client.properties.client import ClientProperties, read_client_properties
from tidegate_coordination.client.properties.tls import Pem, TlsProperties
from tidegate_coordination.client.properties.token_times import TokenTimes
from tidegate_runtime.secret import Secret

SECRET = "hunter2"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
BASE = (
    "bootstrap.servers=one:9092\nsecurity.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
    "ssl.truststore.location=/etc/brokers.pem\n"
)
URL = "sasl.oauthbearer.token.endpoint.url"
ENDPOINT = f"{URL}=https://idp.example/token\n"
LOGIN = (
    "sasl.oauthbearer.client.credentials.client.id=app\n"
    f"sasl.oauthbearer.client.credentials.client.secret={SECRET}\n"
)


def read(text: str) -> ClientProperties:
    return read_client_properties(BASE + text, "client.properties")


def bearer(text: str) -> BearerCredentials:
    found = read(text).sasl
    assert isinstance(found, BearerCredentials)
    return found


def test_id_and_secret_are_properties() -> None:
    found = read(ENDPOINT + LOGIN)
    assert found.sasl == BearerCredentials("https://idp.example/token", "app", Secret(SECRET))
    assert found.unknown == ()
    assert SECRET not in repr(found)
    assert (bearer(ENDPOINT + LOGIN).who, bearer(ENDPOINT + LOGIN).place) == (
        "client app",
        "idp.example",
    )


def test_id_and_secret_may_be_in_jaas_with_what_else_is_of_the_endpoint() -> None:
    found = bearer(
        ENDPOINT + f'sasl.jaas.config={MODULE} required clientId="app" clientSecret="{SECRET}"'
        ' scope="a b" extension_traceId="7" extension_tenant="x y"'
        ' ssl.truststore.location="/etc/idp.pem" ssl.keystore.type=PEM'
        f' ssl.keystore.location="/etc/own.pem" ssl.key.password="{SECRET}";\n'
    )
    assert found == BearerCredentials(
        "https://idp.example/token",
        "app",
        Secret(SECRET),
        "a b",
        extensions=(("traceId", Secret("7")), ("tenant", Secret("x y"))),
        tls=TlsProperties(Pem("/etc/idp.pem"), Pem("/etc/own.pem"), Secret(SECRET)),
    )


def test_a_property_stands_above_the_option() -> None:
    jaas = f'sasl.jaas.config={MODULE} required clientId="x" clientSecret="y" scope="z";\n'
    found = bearer(ENDPOINT + LOGIN + "sasl.oauthbearer.scope=own\n" + jaas)
    assert (found.client_id, found.client_secret, found.scope) == ("app", Secret(SECRET), "own")


def test_the_endpoint_does_not_get_the_brokers_tls() -> None:
    assert bearer(ENDPOINT + LOGIN).tls == TlsProperties()


def test_kafkas_own_classes_and_all_times_are_taken() -> None:
    package = HANDLER.rpartition(".")[0]
    found = read(
        ENDPOINT
        + LOGIN
        + f"sasl.login.callback.handler.class={HANDLER}\n"
        + f"sasl.oauthbearer.jwt.retriever.class={package}.ClientCredentialsJwtRetriever\n"
        + f"sasl.oauthbearer.jwt.validator.class={package}.ClientJwtValidator\n"
        "sasl.oauthbearer.header.urlencode=true\n"
        "sasl.login.refresh.window.factor=0.5\nsasl.login.refresh.window.jitter=0\n"
        "sasl.login.refresh.min.period.seconds=1\nsasl.login.refresh.buffer.seconds=2\n"
        "sasl.login.connect.timeout.ms=1000\nsasl.login.read.timeout.ms=500\n"
        "sasl.login.retry.backoff.ms=200\nsasl.login.retry.backoff.max.ms=100\n"
    )
    assert isinstance(found.sasl, BearerCredentials)
    assert found.sasl.is_urlencoded
    assert found.sasl.times == TokenTimes(0.5, 0.0, 1.0, 2.0, 1.5, 0.2, 0.2)
    assert found.unknown == ()
    bearer(
        ENDPOINT
        + LOGIN
        + f"sasl.login.callback.handler.class={package}.secured.{HANDLER.rpartition('.')[2]}\n"
    )


def test_the_default_times_are_kafkas() -> None:
    assert bearer(ENDPOINT + LOGIN).times == TokenTimes()


@pytest.mark.parametrize(
    "url", ["file:///etc/a%20b.jwt", "file:/etc/a%20b.jwt", "FILE:/etc/a%20b.jwt"]
)
def test_a_file_needs_no_id_and_no_secret(url: str) -> None:
    found = bearer(f"{URL}={url}\n")
    assert found == BearerCredentials(url)
    assert (found.is_file, found.place) == (True, "/etc/a b.jwt")
    assert found.who == "the token in /etc/a b.jwt"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080/token", "http://localhost/token", "http://[::1]:1/"]
)
def test_http_is_for_this_machine(url: str) -> None:
    assert bearer(f"{URL}={url}\n" + LOGIN).url == url


JAAS = f"sasl.jaas.config={MODULE} required"
BAD = {
    "no url": (LOGIN, "token.endpoint.url is missing"),
    "no id": (ENDPOINT, "client.id is missing: set it, or clientId"),
    "no secret": (ENDPOINT + LOGIN.splitlines()[0] + "\n", "client.secret is missing"),
    "blank secret": (
        ENDPOINT + f'{JAAS} clientId="{SECRET}" clientSecret=" ";\n',
        "client.secret is missing: set it, or clientSecret",
    ),
    "http": (f"{URL}=http://idp.example/token\n" + LOGIN, "use https"),
    "http in capitals": (f"{URL}=HTTP://idp.example/token\n" + LOGIN, "use https"),
    "http by a name like ours": (f"{URL}=http://localhost.example/\n" + LOGIN, "use https"),
    "scheme": (f"{URL}=ftp://idp.example/token\n" + LOGIN, "no URL of https, http or file"),
    "no scheme": (f"{URL}=idp.example/token\n" + LOGIN, "no URL of https, http or file"),
    "user in the URL": (f"{URL}=https://u:{SECRET}@idp.example/\n" + LOGIN, "no URL of https"),
    "other module": (
        ENDPOINT + f"sasl.jaas.config=a.b.C required clientSecret={SECRET};\n",
        "another login module",
    ),
    "unsigned": (ENDPOINT + LOGIN + f"{JAAS} unsecuredLoginStringClaim_sub=a;\n", "unsigned"),
    "extension auth": (ENDPOINT + LOGIN + f"{JAAS} extension_auth=a;\n", "extension_auth"),
    "extension name": (ENDPOINT + LOGIN + f"{JAAS} extension_a-b=a;\n", "letters alone"),
    "extension value": (
        ENDPOINT + LOGIN + f'{JAAS} extension_a="{SECRET}\\\\001auth=Bearer x";\n',
        "not of ASCII",
    ),
    "assertion": (
        ENDPOINT + LOGIN + "sasl.oauthbearer.assertion.private.key.file=/a\n",
        "sasl.oauthbearer.assertion.* is not supported yet",
    ),
    "handler": (ENDPOINT + "sasl.login.callback.handler.class=a.B\n", "cannot be loaded"),
    "retriever": (
        ENDPOINT + "sasl.oauthbearer.jwt.retriever.class=a.B\n",
        "jwt.retriever.class names a Java class",
    ),
    "urlencode": (ENDPOINT + LOGIN + "sasl.oauthbearer.header.urlencode=1\n", "nor false"),
    "factor": (ENDPOINT + LOGIN + "sasl.login.refresh.window.factor=0.4\n", "from 0.5 to 1"),
    "jitter": (ENDPOINT + LOGIN + "sasl.login.refresh.window.jitter=nan\n", "from 0 to 0.25"),
    "buffer": (ENDPOINT + LOGIN + "sasl.login.refresh.buffer.seconds=1h\n", "from 0 to 3600"),
    "endpoint's TLS": (
        ENDPOINT + LOGIN + f"{JAAS} ssl.truststore.type=BCFKS ssl.truststore.location=a;\n",
        "sasl.jaas.config: ssl.truststore.type=BCFKS",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_an_error_is_one_sentence_that_says_what_to_do(name: str) -> None:
    text, said = BAD[name]
    with pytest.raises(BadProperties) as caught:
        read(text)
    message = str(caught.value)
    assert message.startswith("client.properties: ")
    assert said in message
    assert SECRET not in message
    assert "\n" not in message
