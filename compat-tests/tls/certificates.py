"""An authority with its certificates in files, for brokers and clients of a run."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import trustme

from tidegate_runtime.tls.pem import pem_of
from tidegate_runtime.tls.stores import read_key_entry

PASSWORD = "store-password"


@dataclass(frozen=True)
class Files:
    """server, client: key (PKCS8) and chain in PEM.  ca: the root in PEM."""

    folder: Path
    authority: trustme.CA
    ca: Path
    server: Path
    client: Path

    def new_server(self) -> None:
        """Replace the server's key and certificate; its names stay."""
        fresh = self.folder / "server.new"
        _write(fresh, _server(self.authority))
        fresh.replace(self.server)

    def new_client(self, name: str) -> Path:
        """Return the key and certificate of a client with this name."""
        path = self.folder / f"{name}.pem"
        _write(path, self.authority.issue_cert(f"{name}@example.com", common_name=name))
        return path

    def java_store(self, pem: Path, kind: str) -> Path:
        """Return a keystore of keytool; kind: "JKS" or "PKCS12"."""
        p12, target = pem.with_suffix(".openssl.p12"), pem.with_suffix(f".{kind.lower()}")
        _run(
            *("openssl", "pkcs12", "-export", "-name", "own", "-in", pem, "-out", p12),
            *("-passout", f"pass:{PASSWORD}"),
        )
        target.unlink(missing_ok=True)
        _run(
            *("keytool", "-importkeystore", "-noprompt", "-srckeystore", p12),
            *("-srcstorepass", PASSWORD, "-destkeystore", target, "-deststoretype", kind),
            *("-deststorepass", PASSWORD),
        )
        return target

    def java_truststore(self, kind: str) -> Path:
        """Return a truststore of keytool."""
        target = self.folder / f"trust.{kind.lower()}"
        target.unlink(missing_ok=True)
        _run(
            *("keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", self.ca),
            *("-keystore", target, "-storetype", kind, "-storepass", PASSWORD),
        )
        return target

    def librdkafka(self, *, is_known: bool = False) -> dict[str, str]:
        """Return a client's settings.  is_known: the client presents its certificate."""
        own = {"ssl.certificate.location": str(self.client), "ssl.key.location": str(self.client)}
        return {
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.ca),
            **(own if is_known else {}),
        }


def make_files(folder: Path) -> Files:
    """Make an authority, and certificates for 127.0.0.1 and for a client `ann`."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    files = Files(
        folder, authority, *(folder / f"{name}.pem" for name in ("ca", "server", "client"))
    )
    authority.cert_pem.write_to_path(files.ca)
    _write(files.server, _server(authority))
    client = authority.issue_cert(
        "ann@example.com",
        common_name="ann",
        organization_name="acme",
        organization_unit_name="tests",
    )
    _write(files.client, client)
    return files


def _server(authority: trustme.CA) -> trustme.LeafCert:
    return authority.issue_cert(
        "127.0.0.1",
        "localhost",
        common_name="broker",
        organization_name="acme",
        organization_unit_name="tests",
    )


def _write(path: Path, issued: trustme.LeafCert) -> None:
    """Write a key and its chain; Java reads keys in PKCS8 only."""
    entry = read_key_entry(issued.private_key_and_cert_chain_pem.bytes(), None, None)
    chain = b"".join(pem_of(each.der, "CERTIFICATE") for each in entry.chain)
    path.write_bytes(entry.key + chain)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)
