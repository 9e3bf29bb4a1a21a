"""`chenxing doctor`: what this machine offers, what chenxing makes of it, and what to do about what is bad."""

import argparse
from typing import Any


def add_parsers(subparsers: Any) -> None:
    """Adds the sub-parser of `doctor`."""
    what = "say what this machine offers, what is chosen and why, and what could be better"
    parser = subparsers.add_parser("doctor", help=what, description=f"{what[0].upper()}{what[1:]}.")
    help_models = "models to look at, beside those that are pulled: will they fit?"
    parser.add_argument("models", nargs="*", metavar="MODEL", help=help_models)
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from chenxing.terminal.doctor_checks import CHECKS
    from chenxing.terminal.doctor_models import check_fit

    findings = [*(check() for check in CHECKS), check_fit(args.models)]
    if args.json:
        import json

        print(json.dumps({f.title: {**f.facts, "advice": list(f.advice)} for f in findings}, indent=2))
        return 0
    width = max(len(finding.title) for finding in findings)
    for finding in findings:
        print(f"{finding.title:{width}}  " + finding.text.replace("\n", "\n" + " " * (width + 2)))
    advice = [sentence for finding in findings for sentence in finding.advice]
    print("\n" + ("\n".join(advice) if advice else "Nothing is wrong."))
    return 0
