"""The images that operators run: releases, tags and digests. Pure."""

from __future__ import annotations

import re
from typing import Final

from migrator.exact_json import JSONObject
from migrator.hashing import schemes
from migrator.hashing.schemes import Release, Scheme

#: The imageID of an image that was pulled. That of one loaded from a file is its configuration's digest.
_PULLED: Final = re.compile(r".*@(sha256:[0-9a-f]{64})")


def is_target(image: str, target: Scheme, target_image: str | None, digests: frozenset[str] = frozenset()) -> bool:
    """Whether an image is the target's: its tag is a release that speaks ``target``, or it is ``target_image``.

    If ``digests`` are known, only they decide about an image by digest.
    """
    if digests and "@" in image:
        return image.rpartition("@")[2] in digests
    if target_image is not None and image == target_image:
        return True
    release = release_in(image)
    # A release that puts the hash into object names speaks no scheme that can be migrated to.
    return release is not None and release.scheme == target and not release.hash_in_names


def release_in(image: str) -> Release | None:
    """The release that the tag of an image names."""
    return schemes.release_of(image_tag(image) or "")


def image_tag(image: str) -> str | None:
    """The tag of an image reference, ``None`` without one; a registry's port and a digest are not tags."""
    last = image.split("@", 1)[0].rsplit("/", 1)[-1]
    _, colon, tag = last.partition(":")
    return tag if colon and tag else None


def pulled_digests(pod: JSONObject) -> frozenset[str]:
    """The digests by which a pod's images were pulled from a registry, as its status has them."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    pulled = (_PULLED.fullmatch(status.get("imageID") or "") for status in statuses)
    return frozenset(match[1] for match in pulled if match is not None)


def other_digest(digests: frozenset[str], read: frozenset[str]) -> str | None:
    """The problem of a pod whose images were pulled by ``digests``, if the binary's digests ``read`` differ."""
    if not read or not digests or digests & read:
        return None
    return (
        f"runs the digest {', '.join(sorted(digests))}, but the binary was read from {', '.join(sorted(read))}; "
        "read the deployed image, and plan again"
    )
