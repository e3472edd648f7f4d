"""Which clients may read the admin pages.  Pure.

If admin.token is set, all pages but those of health need this token or a client certificate.  The
handshake has checked the certificate.  If admin.token is not set, every request gets an answer.
Then the listener can still demand a certificate, by ssl.client.auth=required.
"""

from __future__ import annotations

from tidegate_runtime.http.pages import HEALTH, Answer, path_of
from tidegate_runtime.http.values import HttpRequest
from tidegate_runtime.secret import Secret


def refusal_of(request: HttpRequest, token: Secret, *, has_certificate: bool) -> Answer | None:
    """Return the refusal of a request; None to answer it.

    Args:
      token: admin.token; empty if it is not set.
    """
    if not token or has_certificate or path_of(request) in HEALTH:
        return None
    scheme, _, given = (request.header("authorization") or "").partition(" ")
    # Headers are decoded as Latin-1, so this returns their original bytes.
    is_token = token.matches(given.strip().encode("latin-1", "replace"))
    if is_token and scheme.lower() == "bearer":
        return None
    text = "this page needs the header Authorization: Bearer TOKEN; see admin.token\n"
    return Answer(401, text, headers=(("WWW-Authenticate", "Bearer"),))
