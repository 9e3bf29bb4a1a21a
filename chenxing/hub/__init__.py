"""Models by name: found on this machine, or pulled from a package index or a hub, once and checked."""

from chenxing.hub.describe import ModelDescription
from chenxing.hub.library import describe, list_models, pull, remove, resolve
from chenxing.hub.store import PulledModel

__all__ = ["ModelDescription", "PulledModel", "describe", "list_models", "pull", "remove", "resolve"]
