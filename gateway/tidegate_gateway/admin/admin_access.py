"""Which clients may read the admin pages.  Pure.

With admin.token, all pages but those of health need it, or a client's certificate, which the
handshake has found to be trusted.  Without it the listener decides: with ssl.client.auth=required
no client gets as far as a request without a certificate.
"""

from __future__ import annotations

from tidegate_runtime.http.pages import HEALTH, Answer, path_of
from tidegate_runtime.http.values import HttpRequest
from tidegate_runtime.secret import Secret


def refusal_of(request: HttpRequest, token: Secret, *, has_certificate: bool) -> Answer | None:
    """Return the refusal of a request; None to answer it.

    Args:
      token: admin.token; an empty one for none.
    """
    if not token or has_certificate or path_of(request) in HEALTH:
        return None
    scheme, _, given = (request.header("authorization") or "").partition(" ")
    # Headers come as Latin-1, whatever their bytes mean.
    is_token = token.matches(given.strip().encode("latin-1", "replace"))
    if is_token and scheme.lower() == "bearer":
        return None
    text = "this page needs the header Authorization: Bearer TOKEN; see admin.token\n"
    return Answer(401, text, headers=(("WWW-Authenticate", "Bearer"),))
