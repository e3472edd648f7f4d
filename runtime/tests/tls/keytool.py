"""Stores made by keytool: the committed ones, and fresh ones where Java is installed.

python runtime/tests/tls/keytool.py     makes those in stores/ again

Their keys protect nothing.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

STORES = Path(__file__).parent / "stores"
PASSWORD = "store-password"
KEY_PASSWORD = "key-password"
_DAYS = "36500"


class Keytool:
    """keytool in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *arguments: str, java: str = "", given: bytes = b"") -> bytes:
        """Run it; return its output."""
        command = [shutil.which("keytool") or "keytool", *([java] if java else []), *arguments]
        done = subprocess.run(command, cwd=self.folder, input=given, capture_output=True)
        assert not done.returncode, done.stdout + done.stderr
        return done.stdout

    def pair(self, store: str, alias: str, name: str, *more: str, java: str = "") -> None:
        """Make a key with a certificate signed by itself."""
        extra = ("-keyalg", "EC", "-groupname", "secp256r1", "-validity", _DAYS)
        self.run(
            *("-genkeypair", "-alias", alias, "-dname", name, *extra),
            *("-keystore", store, "-storepass", PASSWORD, *more),
            java=java,
        )

    def sign(self, store: str, alias: str, *more: str) -> None:
        """Have the key `ca` of ca.p12 sign a key's certificate, and put the chain in its store."""
        own = ("-keystore", store, "-storepass", PASSWORD, *more)
        request = self.run("-certreq", "-alias", alias, *own)
        signed = self.run(
            *("-gencert", "-alias", "ca", "-rfc", "-validity", _DAYS),
            *("-keystore", "ca.p12", "-storepass", PASSWORD),
            given=request,
        )
        self.trust(store, "ca", *more)
        self.run("-importcert", "-noprompt", "-alias", alias, *own, given=signed)
        self.run("-delete", "-alias", "ca", "-keystore", store, "-storepass", PASSWORD)

    def trust(self, store: str, alias: str, *more: str, java: str = "") -> None:
        """Put the certificate of `ca` into a store."""
        self.run(
            *("-importcert", "-noprompt", "-alias", alias),
            *("-keystore", store, "-storepass", PASSWORD, *more),
            given=self.certificate("ca.p12", "ca"),
            java=java,
        )

    def certificate(self, store: str, alias: str) -> bytes:
        """Return a certificate of a store, in PEM."""
        return self.run(
            *("-exportcert", "-rfc", "-alias", alias, "-keystore", store, "-storepass", PASSWORD)
        )


def make(folder: Path) -> None:
    """Make all kinds of stores."""
    jks, own = ("-storetype", "JKS"), ("-keypass", KEY_PASSWORD)
    legacy = "-J-Dkeystore.pkcs12.legacy"
    keytool = Keytool(folder)
    keytool.pair("ca.p12", "ca", "CN=ca", "-ext", "bc:c")
    keytool.pair("server.p12", "one", "CN=one, OU=pkcs12", "-ext", "san=dns:one.test")
    keytool.sign("server.p12", "one")
    keytool.pair("legacy.p12", "one", "CN=one, OU=legacy", java=legacy)
    keytool.pair("server.jks", "one", "CN=one, OU=jks", *jks, *own)
    keytool.sign("server.jks", "one", *jks, *own)
    keytool.pair("server.jks", "two", "CN=two, OU=jks", *jks, *own)
    for store, more, java in (("trust.p12", (), ""), ("trust-legacy.p12", (), legacy)):
        keytool.trust(store, "ca", *more, java=java)
    keytool.trust("trust.jks", "ca", *jks)
    (folder / "ca.pem").write_bytes(keytool.certificate("ca.p12", "ca"))


if __name__ == "__main__":
    shutil.rmtree(STORES, ignore_errors=True)
    STORES.mkdir()
    make(STORES)
    (STORES / "ca.p12").unlink()
    sys.exit(0)
