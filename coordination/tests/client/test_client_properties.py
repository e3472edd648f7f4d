"""Properties files of Kafka clients."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tidegate_coordination.client.errors import BadProperties
from tidegate_coordination.client.properties.bearer_credentials import BearerCredentials
from tidegate_coordination.client.properties.client import (
    Address,
    ClientProperties,
    read_client_properties,
    without_effect,
)
from tidegate_coordination.client.properties.jaas import SaslCredentials, read_credentials
from tidegate_coordination.client.properties.tls import Pem, TlsProperties
from tidegate_coordination.client.tls import with_texts
from tidegate_runtime.secret import Secret

BOOTSTRAP = "bootstrap.servers=one:9092\n"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECRET = "hunter2"


def read(text: str) -> ClientProperties:
    return read_client_properties(BOOTSTRAP + text, "client.properties")


def test_a_file_with_brokers_alone_has_kafkas_defaults() -> None:
    assert read("") == ClientProperties(
        bootstrap_servers=(Address("one", 9092),),
        client_id="tidegate-link",
        sasl=None,
        tls=None,
        request_timeout_seconds=30.0,
        connection_setup_timeout_seconds=10.0,
    )


def test_the_notation_is_that_of_java() -> None:
    found = read_client_properties(
        "# a comment\n! another\n"
        "bootstrap.servers : one:9092,\\\n      [::1]:9093 , two:9094,\n"
        "client.id=l\\u0069nk\\:1\n"
        "request.timeout.ms   5000\n"
        "socket.connection.setup.timeout.ms=250\n",
        "f",
    )
    assert [str(each) for each in found.bootstrap_servers] == ["one:9092", "[::1]:9093", "two:9094"]
    assert found.client_id == "link:1"
    assert found.request_timeout_seconds == 5.0
    assert found.connection_setup_timeout_seconds == 0.25


def test_unknown_names_are_listed_and_have_no_effect() -> None:
    found = read("group.id=g\nacks=all\nssl.cipher.suites=X\nsecurity.protocol=ssl\n")
    assert found.unknown == ("acks", "group.id", "ssl.cipher.suites")
    assert read("group.id=g\n").bootstrap_servers == found.bootstrap_servers


def test_tls_and_sasl_are_read() -> None:
    found = read(
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM} required username="alice" password="{SECRET}";\n'
        "ssl.truststore.type=PEM\nssl.truststore.location=/etc/ca.pem\n"
        "ssl.keystore.type=PEM\nssl.keystore.key=KEY\nssl.keystore.certificate.chain=CHAIN\n"
        f"ssl.key.password={SECRET}\nssl.endpoint.identification.algorithm=\n"
    )
    assert found.sasl == SaslCredentials("SCRAM-SHA-512", "alice", Secret(SECRET))
    assert found.tls == TlsProperties(
        Pem("/etc/ca.pem"),
        Pem("", Secret("CHAIN"), Secret("KEY")),
        Secret(SECRET),
        is_host_checked=False,
    )
    assert found.unknown == ()
    for secret in (SECRET, "KEY", "CHAIN"):
        assert secret not in repr(found)


def test_tls_without_stores_trusts_the_system_and_checks_hosts() -> None:
    assert read("security.protocol=SSL\n").tls == TlsProperties(None, None, Secret(), True)


def test_inline_certificates_keep_their_lines() -> None:
    found = read(
        "security.protocol=SSL\nssl.truststore.type=PEM\n"
        "ssl.truststore.certificates=-----BEGIN CERTIFICATE-----\\nAAAA\\n"
        "-----END CERTIFICATE-----\n"
    )
    assert found.tls is not None
    assert found.tls.truststore == Pem(
        "", Secret("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")
    )


def test_what_the_protocol_does_not_use_is_not_checked() -> None:
    found = read(
        "ssl.truststore.location=a.jks\nssl.truststore.password=x\nsasl.mechanism=GSSAPI\n"
        "sasl.jaas.config=nonsense\n"
    )
    assert (found.tls, found.sasl, found.unknown) == (None, None, ())


SASL = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} required"
TLS = "security.protocol=SSL\n"
BAD = {
    "protocol": ("security.protocol=TLS\n", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
    "no mechanism": ("security.protocol=SASL_SSL\n", "sasl.mechanism is missing"),
    "GSSAPI": (
        "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n",
        "sasl.mechanism=GSSAPI (Kerberos) is not supported: add a listener with PLAIN,",
    ),
    "other mechanism": (
        "security.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\n",
        "set it to PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
    ),
    "handler": (
        f"{SASL} username=a password=b;\nsasl.login.callback.handler.class=a.B\n",
        "sasl.login.callback.handler.class is not supported: use SCRAM or PLAIN",
    ),
    "handler without SASL": (
        "sasl.login.callback.handler.class=a.B\n",
        "sasl.login.callback.handler.class is not supported",
    ),
    "no jaas": (
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n",
        "sasl.jaas.config is missing",
    ),
    "no end": (SASL + f' username="a" password="{SECRET}"\n', 'does not end with ";"'),
    "no name": (SASL + f' password="{SECRET}";\n', "lacks username or password"),
    "no quote": (SASL + f' username="a" password="{SECRET};\n', "quote that does not end"),
    "two": (SASL + f" username=a password={SECRET}; {PLAIN} required;\n", "more than one entry"),
    "token": (
        SASL + " username=a password=b tokenauth=true;\n",
        "tokenauth, which PLAIN does not know: set sasl.mechanism to SCRAM-SHA-256",
    ),
    "other module": (
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
        f"sasl.jaas.config={PLAIN} required username=a password={SECRET};\n",
        "another login module",
    ),
    "BCFKS": (
        TLS + "ssl.keystore.type=BCFKS\nssl.keystore.location=a\n",
        "ssl.keystore.type=BCFKS is not supported: use PEM, PKCS12 or JKS",
    ),
    "text that is no PEM": (
        TLS + "ssl.truststore.certificates=a\n",
        "ssl.truststore.type=PEM",
    ),
    "store password": (
        TLS
        + f"ssl.truststore.type=PEM\nssl.truststore.location=a\nssl.truststore.password={SECRET}\n",
        "ssl.truststore.password has no meaning",
    ),
    "key alone": (TLS + f"ssl.keystore.type=PEM\nssl.keystore.key={SECRET}\n", "belong together"),
    "both": (
        TLS + "ssl.truststore.type=PEM\nssl.truststore.location=a\nssl.truststore.certificates=b\n",
        "set one of them",
    ),
    "identification": (TLS + "ssl.endpoint.identification.algorithm=LDAPS\n", "set it to https"),
    "timeout": ("request.timeout.ms=5s\n", "request.timeout.ms=5s"),
    "no time": ("request.timeout.ms=0\n", "above 0"),
    "provider": ("config.providers=file\n", "write the values into the file"),
    "half a character": (f"sasl.jaas.config={SECRET}\\ud83d\n", "incomplete \\u escape"),
    "escape": (f"sasl.jaas.config=\\u12{SECRET}\n", "write \\\\ for a backslash"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_error_is_one_sentence_that_says_what_to_do(name: str) -> None:
    text, said = BAD[name]
    with pytest.raises(BadProperties) as caught:
        read(text)
    message = str(caught.value)
    assert message.startswith("client.properties")
    assert said in message
    assert SECRET not in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "servers", ["", " , ", "one", "one:", ":9092", "one:0", "one:99999", "a:b"]
)
def test_bad_bootstrap_servers_are_refused(servers: str) -> None:
    with pytest.raises(BadProperties, match=r"bootstrap\.servers.* such as broker-1:9092\."):
        read_client_properties(f"bootstrap.servers={servers}\n", "f")


JAAS = {
    "words": "username=alice password=secret;",
    "quotes": """username='alice' password="secret";""",
    "comments": '/* who */ username="alice" // name\n password="secret" ;',
    "blanks": '\n\tusername = "alice"   password= "secret";',
    "other options": 'username="alice" debug=true password="secret" x="1;2";',
    "escapes": r'username="al\151ce" password="\163ecret";',
}


@pytest.mark.parametrize("name", JAAS)
def test_jaas_entries_are_read(name: str) -> None:
    text = f"{SCRAM} Required {JAAS[name]}"
    found = read_credentials("SCRAM-SHA-256", text)
    assert found == SaslCredentials("SCRAM-SHA-256", "alice", Secret("secret"))


@pytest.mark.parametrize(
    ("option", "is_token"), [("tokenauth=true", True), ('tokenauth="TRUE"', True), ("", False)]
)
def test_a_delegation_token_is_told_from_a_user(option: str, is_token: bool) -> None:
    found = read_credentials("SCRAM-SHA-256", f"{SCRAM} required username=a password=b {option};")
    assert found == SaslCredentials("SCRAM-SHA-256", "a", Secret("b"), is_token)
    assert found.who == ("delegation token a" if is_token else "user a")


def test_a_quoted_password_may_hold_anything() -> None:
    found = read_credentials("PLAIN", PLAIN + r""" required username="a" password="p\"w;='/ \\";""")
    assert found.password == Secret("p\"w;='/ \\")
    found = read_credentials("PLAIN", PLAIN + r' required username=a password="\8";')
    assert found.password == Secret("8")


@pytest.mark.parametrize("rest", ["", ";", " required", " maybe;", " required x;", " required =;"])
def test_what_is_no_jaas_entry_is_refused(rest: str) -> None:
    with pytest.raises(BadProperties, match="PlainLoginModule required"):
        read_credentials("PLAIN", PLAIN + rest)


def test_properties_for_another_machine_hold_the_texts_of_their_files(tmp_path: Path) -> None:
    trusted, own = tmp_path / "ca.pem", tmp_path / "own.pem"
    trusted.write_text("the certificates")
    own.write_text("certificate and key")
    properties = read(
        "security.protocol=SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={trusted}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={own}\nssl.key.password=secret\n"
    )
    found = with_texts(properties).tls
    assert found is not None
    assert found.truststore == Pem(text=Secret("the certificates"))
    assert found.keystore == Pem(text=Secret("certificate and key"))
    assert found.key_password == Secret("secret")
    own.unlink()
    with pytest.raises(BadProperties, match=r"own\.pem cannot be read"):
        with_texts(properties)


def test_properties_without_tls_stay_as_they_are() -> None:
    plain = read("")
    assert with_texts(plain) == plain


def test_properties_for_another_machine_hold_what_the_token_endpoint_needs(tmp_path: Path) -> None:
    trusted = tmp_path / "idp.pem"
    trusted.write_text("the certificates")
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    properties = read(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        "sasl.oauthbearer.token.endpoint.url=https://idp.example/\n"
        f"sasl.jaas.config={module} required clientId=a clientSecret={SECRET}"
        f" ssl.truststore.location='{trusted}';\n"
    )
    found = pickle.loads(pickle.dumps(with_texts(properties)))
    assert isinstance(found.sasl, BearerCredentials)
    assert found.sasl.tls.truststore == Pem(text=Secret("the certificates"))
    assert found.sasl.client_secret == Secret(SECRET)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("security.protocl=SSL", "security.protocl (did you mean security.protocol?)"),
        ("acks=all\ngroup.id=g", "properties without effect: acks, group.id"),
        ("\n".join(f"p{at:02}=1" for at in range(12)), "p09 and 2 more"),
        ("client.id=x", ""),
    ],
)
def test_properties_without_effect_are_told(text: str, told: str) -> None:
    found = read_client_properties(f"bootstrap.servers=h:1\n{text}", "f")
    said = without_effect(found.unknown)
    assert said.endswith(told)
    assert bool(said) is bool(told)
