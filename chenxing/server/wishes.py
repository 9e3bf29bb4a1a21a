"""From a request's fields to what the service is asked for."""

from chenxing.sampling import Constraint, SamplingParams
from chenxing.server.protocol.answer import AnswerFields
from chenxing.server.service import Service, Wish


def wish_of(
    service: Service,
    fields: AnswerFields,
    params: SamplingParams,
    n_alternatives: int | None,
    constraint: Constraint | None,
) -> Wish:
    """Fields that the request does not set are the server's."""
    length = service.settings.n_predict if fields.length is None else fields.length
    return Wish(
        params,
        max_tokens=None if length is None or length < 0 else length,
        stop=tuple(text for text in fields.stops if text),
        n=fields.n_choices,
        n_alternatives=n_alternatives,
        after_sampling=bool(fields.post_sampling_probs),
        id_slot=fields.id_slot,
        constraint=constraint,
        n_keep=service.settings.n_keep if fields.n_keep is None else fields.n_keep,
    )
