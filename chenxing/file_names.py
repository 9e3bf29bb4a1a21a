"""Names that come from elsewhere (a client, a model, a hub) as names of files.

Source  Microsoft, "Naming Files, Paths, and Namespaces"
"""

_DEVICES = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"}
_DEVICES |= {f"{port}{n}" for port in ("COM", "LPT") for n in "0123456789¹²³"}
_SPECIAL = frozenset('<>:"/\\|?*') | {chr(i) for i in range(32)}


def is_ordinary(name: str) -> bool:
    """Whether every system makes a file of just this name of it: no folder, no device, nothing that Windows changes."""
    if not name or name[-1] in " ." or not _SPECIAL.isdisjoint(name):  # names in dots are folders
        return False
    return name.partition(".")[0].rstrip().upper() not in _DEVICES
