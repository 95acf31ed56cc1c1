"""Laws of a downstream metric: in pretraining tokens (Isik), in samples (Lin), in a loss."""

import jax
import jax.numpy as jnp

from jaxlaw.laws._base import law, mirrored, power
from jaxlaw.laws._parameters import Input, exponent, positive, real


@law(name="downstream-ce", formula="E + A/Dp^α", source="Isik 2024, eq. 2", target="cross-entropy")
def downstream_ce(
    Dp,
    *,
    E=positive(0.1, 5.0, unit="nats"),
    A=positive(0.01, 10.0, centre={"Dp": "alpha"}, unit="nats·Dp^α"),
    alpha=exponent(),
):
    """Cross-entropy after finetuning."""
    return E + A * power(Dp, -alpha)


# Where scores hardly bend, log A and α run off together and β to 0 (scores flat to the end) or to
# infinity (a power of Dp). With x the log of Dp from the centre, the log of a score is
# l + g·log(1 + k·x)/k: l its value at the centre, g its slope there and k = α/log A how it bends,
# up to where the lowest Dp of the data would have no score. l and g the residuals are linear in.
# Below so flat a slope that (log A)^β could not be held, k ends sooner.
def _most_bend(level, slope, context):
    limit = 0.8 * jnp.log(jnp.finfo(jnp.result_type(level, 0.0)).max)  # of the logarithm of log A
    return 1.0 / (context["reach"] + jnp.sqrt(level**2 + 1e-6) / (limit * slope))


def _score(values, context, sign):
    if sign < 0:
        bend = values["alpha"] / values["log_A"]
        level, slope = values["beta"] * jnp.log(values["log_A"]), values["beta"] * bend
        return {"log_A": level, "alpha": slope, "beta": bend / _most_bend(level, slope, context)}
    level, slope = values["log_A"], values["alpha"]
    bend = values["beta"] * _most_bend(level, slope, context)
    beta = slope / bend
    log_A = jnp.exp(level / beta)
    return {"log_A": log_A, "alpha": log_A * bend, "beta": beta}


def _reach(inputs):
    """How far the lowest Dp lies below the centre, in logs."""
    logs = jnp.log(jnp.asarray(inputs["Dp"]))
    return {"reach": jnp.maximum(jnp.mean(logs) - jnp.min(logs), 1e-3)}


@law(
    name="downstream-bleu",
    formula="( log(A·Dp^α) )^β",
    source="Isik 2024, eq. 1 (log A is the parameter: A itself underflows)",
    target="BLEU",
    better="high",
    delta=0.1,
    chart=mirrored(
        {"log_A": -30.0, "alpha": 1e-9, "beta": 1e-6},
        {"log_A": 30.0, "alpha": 1e2, "beta": 1.0},
        _score,
    ),
    context=_reach,
)
def downstream_bleu(
    Dp,
    *,
    log_A=real(10.0, 1000.0, low=1e-6, high=1e12, centre={"Dp": "-alpha"}),
    alpha=positive(0.01, 10.0, low=1e-12, high=1e12),
    beta=exponent(0.1, 2.0, low=1e-4, high=1e6),
):
    """BLEU after finetuning; zero where log(A·Dp^α) is not positive."""
    return power(jnp.maximum(log_A + alpha * jnp.log(Dp), 0.0), beta)


# With the loss so far from 0, C = score·e^(k·L) runs along with k over many orders of magnitude;
# the score at the mean loss does not.
def _around_the_mean(loss, highest):
    def moved(values, context, sign):
        return {"C": values["C"] * jnp.exp(sign * values["k"] * context["mean"])}

    return {
        "chart": mirrored({"C": 1e-8}, {"C": highest}, moved),
        "context": lambda inputs: {"mean": jnp.mean(jnp.asarray(inputs[loss]))},
    }


@law(
    name="downstream-bleu-ce",
    inputs={"cross_entropy": Input("cross_entropy", "cross-entropy in nats", domain="nonnegative")},
    formula="C·e^(−k·L), L the cross-entropy",
    source="Gordon 2021, as Isik 2024, §5 and figure 4, has it",
    target="BLEU",
    better="high",
    delta=0.1,
    **_around_the_mean("cross_entropy", 1e8),
)
def downstream_bleu_ce(
    cross_entropy,
    *,
    C=positive(1.0, 100.0, high=1e30),
    k=positive(0.1, 10.0, low=1e-6, high=1e3, unit="1/nats"),
):
    """BLEU after finetuning, by the cross-entropy: where the two agree, and not beyond (§5)."""
    return C * jnp.exp(-k * cross_entropy)


_TASK_LOSS = "loss on the task, such as bits per byte of its correct answers"
_OF_TASK_LOSS = {
    "inputs": {"task_loss": Input("task_loss", _TASK_LOSS, 1.0, "positive")},
    "target": "accuracy",
    "better": "high",
    "residuals": "linear",
    "delta": 0.02,
}


@law(
    name="sigmoid",
    formula="floor + (ceiling − floor)/(1 + e^(k·(L − L0))), L the loss on the task",
    source="Bhagia 2024, arXiv 2412.04403, the second step of OLMo's ladder",
    **_OF_TASK_LOSS,
)
def sigmoid(
    task_loss,
    *,
    floor=real(0.02, 0.6, low=0.0, high=1.0, doc="chance-level score"),
    ceiling=real(0.6, 1.0, low=0.0, high=1.0),
    k=positive(1.0, 20.0, low=0.05, high=200.0, unit="1/loss", doc="steepness"),
    L0=positive(0.3, 3.0, low=1e-3, high=1e3, unit="loss", doc="loss at half the rise"),
):
    """Task score as a sigmoid of the loss on the task, from chance level to a ceiling."""
    # 1/(1 + e^x) overflows in the derivatives of a large x.
    risen = jax.nn.sigmoid(-k * (task_loss - L0))
    return floor * (1.0 - risen) + ceiling * risen


@law(
    name="score-exponential",
    formula="floor + C·e^(−k·L), L the loss on the task",
    source="Gadre 2024, arXiv 2403.08540 (the error is ε − C·e^(−k·L)); Isik 2024, figure 4",
    **_OF_TASK_LOSS,
    **_around_the_mean("task_loss", 1e4),
)
def score_exponential(
    task_loss,
    *,
    floor=real(0.02, 0.6, low=-1.0, high=1.0, doc="chance-level score"),
    C=positive(0.01, 100.0, high=1e30),
    k=positive(0.1, 10.0, low=1e-4, high=1e3, unit="1/loss"),
):
    """Task score as an exponential of the loss on the task: no ceiling, so only near chance."""
    return floor + C * jnp.exp(-k * task_loss)


@law(
    name="score-log-linear",
    formula="a − b·log(L), L the loss on the task",
    source="a straight line, the simplest rival of sigmoid",
    **_OF_TASK_LOSS,
)
def score_log_linear(task_loss, *, a=real(0.1, 1.0), b=positive(0.01, 2.0, low=1e-6)):
    """Task score as a linear function of the log loss on the task."""
    return a - b * jnp.log(task_loss)


# Data begin at no sample at all, so that there is no geometric mean to centre on: with s that of
# the others, solvers move B/s^β and D_l/s^β.
def _rescale_by_s(values, context, sign):
    unit = power(context["s"], sign * values["beta"])
    return {name: values[name] * unit for name in ("B", "D_l")}


def _samples(inputs):
    """Geometric mean of the sample counts above 0."""
    Df = jnp.asarray(inputs["Df"])
    logs = jnp.where(Df > 0, jnp.log(jnp.where(Df > 0, Df, 1.0)), 0.0)
    return {"s": jnp.exp(jnp.sum(logs) / jnp.maximum(jnp.sum(Df > 0), 1))}


@law(
    name="rectified",
    inputs={"Df": Input("Df", "fine-tuning samples", domain="nonnegative")},
    formula="B/(D_l + Df^β) + E",
    source="Lin 2024, rectified scaling law",
    chart=mirrored({"B": 1e-8, "D_l": 1e-8}, {"B": 1e8, "D_l": 1e8}, _rescale_by_s),
    context=_samples,
)
def rectified(
    Df,
    *,
    B=positive(0.01, 10.0, high=1e30, unit="nats·Df^β"),
    D_l=positive(0.01, 10.0, high=1e30, unit="Df^β", doc="what pretraining is worth in data"),
    E=positive(0.1, 5.0, unit="nats"),
    beta=exponent(),
):
    """Loss after fine-tuning: flat until the samples outweigh what was learned before."""
    return B / (D_l + power(Df, beta)) + E
