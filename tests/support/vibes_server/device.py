"""A device certificate for the client: made here, since the client checks neither who signed it nor until when."""

from __future__ import annotations

import base64
import json

from cryptography.hazmat.primitives.asymmetric import ec


def device_id() -> str:
    """What VIBES_DEVICE_ID holds for a fresh device of the tests."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_numbers()
    numbers = {"d": key.private_numbers().private_value, "x": public.x, "y": public.y}
    jwk = {"kty": "EC", "crv": "P-256", **{name: _base64url(value.to_bytes(32)) for name, value in numbers.items()}}
    certificate = {"certificateJWT": "certificate.of.the-tests", "certificatePayload": {"sub": "device-of-the-tests"}}
    return json.dumps({"deviceId": jwk, "cert": certificate})


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
