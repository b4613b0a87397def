"""The images that operators run, by release and tag. Pure."""

from __future__ import annotations

from migrator.hashing import schemes
from migrator.hashing.schemes import Release, Scheme


def is_target(image: str, target: Scheme, target_image: str | None) -> bool:
    """Whether an image is the target's: its tag is a release that uses ``target``, or it is ``target_image``."""
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
